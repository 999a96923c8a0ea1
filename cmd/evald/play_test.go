package main

import (
	"strings"
	"testing"
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
	for args, want := range map[string]string{
		"":                               "7x6x4: X you, O strong; ",
		"--agent casual":                 "7x6x4: X you, O casual; ",
		"--agent mcts:time=1s":           "7x6x4: X you, O strong; ",
		"--agent uct-bitsquares:time=1s": "7x6x4: X you, O uct-bitsquares:time=1s; ",
	} {
		status, out, stderr := evald(t, "quit\n", append([]string{"play"}, strings.Fields(args)...)...)
		if status != exitOK || stderr != "" || !strings.HasPrefix(out, want) {
			t.Errorf("%s: status %d, errors %q, output\n%s", args, status, stderr, out)
		}
	}
	_, out, _ := evald(t, "", "play", "--help")
	for _, want := range []string{"Default: strong.", "- strong: a second's search with the network (mcts:time=1s)", "Levels, from the weakest on:"} {
		if words := strings.Join(strings.Fields(out), " "); !strings.Contains(words, want) {
			t.Errorf("the help has no %q:\n%s", want, out)
		}
	}
}

// Hints come from the network if it knows the board, else from bitsquares. After 44 only column 4 keeps the win.
func TestPlayHint(t *testing.T) {
	if testing.Short() {
		t.Skip("two searches of seconds; internal/play has the tests of what is concurrent")
	}
	for position, want := range map[string]string{"44": "hint: 4 ", "9x5x4:44": "hint: "} {
		status, out, stderr := evald(t, "hint\n", "play", "--side", "both", "--position", position)
		if status != exitOK || stderr != "" || !strings.Contains(out, want) {
			t.Errorf("%s: status %d, errors %q, output\n%s", position, status, stderr, out)
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

func TestPlayWrongUse(t *testing.T) {
	parsesOnly(t)
	for _, c := range []struct {
		args   string
		status int
		says   string
	}{
		{"--side third", exitUsage, `--side must be one of`},
		{"--agent robot", exitUsage, `--agent: agent "robot": there are`},
		{"--agent uct:sims=1,time=x", exitUsage, `time is "x"`},
		{"--agent random --agent random", exitUsage, "2 agents: one plays against you"},
		{"--agent random --side both", exitUsage, "--side both is for two people"},
		{"--agent mcts:model=nope", exitBadInput, `"nope" is neither a file nor a shipped model`},
		{"--evaluate nope", exitBadInput, "--evaluate: "},
		{"--rules 7x6", exitUsage, `--rules: rules "7x6"`},
		{"--rules 20x20x4", exitUsage, "at most 128"},
		{"--position 7x6:1", exitUsage, `--position: rules "7x6"`},
		{"--position 448", exitUsage, `--position: moves "448": move 3 is "8"`},
		{"--position 12121212", exitUsage, "move 8 comes after the game was won"},
		{"--position 9x5x4:1 --rules 7x6x4", exitUsage, "two different games"},
	} {
		status, out, stderr := evald(t, "", append([]string{"play"}, strings.Fields(c.args)...)...)
		if status != c.status || !strings.Contains(stderr, c.says) || out != "" {
			t.Errorf("evald play %s: status %d, output %q, errors %q; want status %d and %q", c.args, status, out, stderr, c.status, c.says)
		}
	}
}
