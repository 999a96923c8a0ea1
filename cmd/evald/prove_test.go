package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/record/recordtest"
)

// Each first move of the other side is a game, mirror images once, with the result that can be held there. The records of mistakes can be trained on.
func TestProve(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	args := []string{"prove", "policy:model=bitsquares", "--rules", "4x4x3", "--side", "second", "-o", dir}
	table := must(t, "", args...)
	var report proveReport
	gametest.OK(t, json.Unmarshal([]byte(must(t, "", append(args, "--json")...)), &report))
	var first []string
	for _, g := range report.Games {
		first = append(first, g.Moves)
		if g.All.Positions == 0 || g.All.Stones != 1 || g.Held != (g.All.Mistakes == 0) {
			t.Errorf("after %s: %+v", g.Moves, g.Report)
		}
		paths := gametest.Must(filepath.Glob(filepath.Join(dir, "game-"+g.Moves, "mistakes-*.parquet")))(t)
		if g.Held != (len(paths) == 0) || !g.Held && len(recordtest.Read(t, paths...)) < int(g.All.Mistakes) {
			t.Errorf("after %s: %d mistakes, records %q", g.Moves, g.All.Mistakes, paths)
		}
		want := map[bool]string{true: "held\n", false: "NOT HELD; first mistakes: "}[g.Held]
		if g.Result < 0 {
			want = "so there is nothing to hold"
		}
		if result := map[int]string{1: "a win", 0: "a draw", -1: "a loss"}[g.Result]; !strings.Contains(table, "after "+g.Moves+": "+result+", "+want) {
			t.Errorf("after %s: %+v, and the table is\n%s", g.Moves, g.Report, table)
		}
	}
	if diff := cmp.Diff([]string{"1", "2"}, first); diff != "" {
		t.Errorf("games after (-want +got):\n%s", diff)
	}
	refuses(t, exitBadInput, `the run has side "second", and now it is "first"`, "", append(args[:4:4], "-o", dir)...)
}

func TestProveRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"random":                       "agent random chooses at random",
		"solver:random=true":           "chooses at random",
		"mcts:time=1s":                 "has a time for each move",
		"nobody":                       `agent "nobody": there are`,
		"solver --from 49":             "--from 49: ",
		"solver --from 1212121":        "the game is over",
		"solver --memory 1KiB":         "--memory 0MiB: must be at least 128MiB",
		"policy:model=nothing":         "is neither a file nor a shipped model",
		"solver --rules 8x8x4":         "8x8x4 has too many positions",
		"solver --side third":          "--side must be one of",
		"mcts:visits=2 --book missing": "missing",
	} {
		dir := filepath.Join(t.TempDir(), "run")
		status, _, stderr := evald(t, "", append([]string{"prove", "-o", dir}, strings.Fields(args)...)...)
		if status == exitOK || !strings.Contains(stderr, want) {
			t.Errorf("%s: status %d, %q, want %q", args, status, stderr, want)
		}
		if _, err := os.Stat(filepath.Join(dir, "game")); err == nil {
			t.Errorf("%s: a run has begun", args)
		}
	}
}
