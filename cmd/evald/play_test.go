package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evald/evald/engine/game/gametest"
)

func TestPlay(t *testing.T) {
	status, out, stderr := evald(t, "3\n4\n8\nquit\n", "play", "--agent", "uct-bitsquares:sims=500", "--position", "4455", "--side", "second")
	// The person plays second. The agent is to move, and wins.
	if status != exitOK || stderr != "" || !strings.HasPrefix(out, "7x6x4: X uct-bitsquares:sims=500, O you; \"help\" lists the commands\nX plays ") ||
		!strings.Contains(out, "X wins\n") || !strings.HasSuffix(out, "\"8\": the game is over; undo, new or quit\n") {
		t.Errorf("status %d, errors %q, output\n%s", status, stderr, out)
	}
	status, out, stderr = evald(t, "", "play", "--side", "none", "--agent", "policy:model=seeded-2x16", "--agent", "random", "--seed", "7", "--rules", "3x3x3free")
	if status != exitOK || !strings.Contains(stderr, "not trained") || !strings.HasPrefix(out, "3x3x3free: X policy:model=seeded-2x16, O random;") {
		t.Errorf("two agents: status %d, errors %q, output\n%s", status, stderr, out)
	}
	status, out, _ = evald(t, "1\n1\n1\nundo\n", "play", "--side", "both", "--position", "4x4x3:44", "--evaluate", "uniform")
	if status != exitOK || !strings.HasSuffix(out, "moves 4x4x3:4411\nX to move: person\n") {
		t.Errorf("two people: status %d, output\n%s", status, out)
	}
}

// Levels are shown by their names, in the help and at the board, whether asked for by name or by agent.
func TestPlayLevels(t *testing.T) {
	for args, want := range map[string]string{"": "7x6x4: X you, O strong; ", "--agent casual": "7x6x4: X you, O casual; "} {
		if out := must(t, "quit\n", append([]string{"play"}, strings.Fields(args)...)...); !strings.HasPrefix(out, want) {
			t.Errorf("%s: %s", args, out)
		}
	}
	_, out, _ := evald(t, "", "play", "--help")
	for _, want := range []string{"Default: strong.", "- strong: Elo", "Levels, from the weakest on:"} {
		if words := strings.Join(strings.Fields(out), " "); !strings.Contains(words, want) {
			t.Errorf("the help has no %q:\n%s", want, out)
		}
	}
}

// The same seed gives the same game of random agents; another seed gives another game.
func TestPlaySeed(t *testing.T) {
	games := map[string]bool{}
	for _, seed := range []string{"1", "1", "2"} {
		_, out, _ := evald(t, "", "play", "--side", "none", "--agent", "random", "--seed", seed)
		games[out] = true
	}
	if len(games) != 2 {
		t.Errorf("%d different games of the seeds 1, 1 and 2, want 2", len(games))
	}
}

// A saved game continues from its file, and other commands read the file too.
func TestPlayFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "game.txt")
	must(t, "1\n1\nquit\n", "play", "--side", "both", "--evaluate", "uniform", "--position", "4x4x3:44", "--save", path)
	text := string(gametest.Must(os.ReadFile(path))(t))
	if !strings.Contains(text, "# first: person\n# second: person\n# result: unfinished\n# date: 2") || !strings.HasSuffix(text, "\n4x4x3:4411\n") {
		t.Error(text)
	}
	if out := must(t, "2\n", "play", "--side", "both", "--evaluate", "uniform", "--from", path); !strings.Contains(out, "moves 4x4x3:44112\n") {
		t.Error(out)
	}
	if out := must(t, "", "eval", "--backend", "uniform", path); !strings.Contains(out, `"position":"4x4x3:4411"`) {
		t.Error(out)
	}
	refuses(t, exitUsage, "--from", "", "play", "--from", path, "--position", "44")
	refuses(t, exitBadInput, `game.txt: line 1: moves "48"`, "", "play", "--from", writeText(t, filepath.Base(path), "48\n"))
}
