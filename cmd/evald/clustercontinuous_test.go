package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evald/evald/engine/cluster"
	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/nn/learn"
)

// Two workers play on while the learner trains and measures. The learner is killed while they play a further series of games, and the
// same command resumes it. At the end its folder has all games that generations.jsonl reports.
func TestLearnClusterContinuous(t *testing.T) {
	if testing.Short() {
		t.Skip("some seconds of runs")
	}
	dir, spool, listen := filepath.Join(t.TempDir(), "run"), t.TempDir(), unused(t)
	args := learnArgs(dir, "--generations", "3", "--cpu-path", "go", "--continuous")
	learner, url := clusteredAt(t, listen, args...)
	workers := joined(t, 2, spool, url)
	const further = 1001 // the number of the first further series of generation 1
	var s cluster.Status
	for s.Generation < further {
		next, err := cluster.Ask(t.Context(), cluster.Connection{URL: url})
		if err != nil {
			t.Fatalf("after %+v: %v", s, err)
		}
		s = next
	}
	began := s.Generation < 2000 // else the network of generation 0 was ready before a further series was wanted
	gametest.OK(t, learner.Process.Kill())
	_ = learner.Wait() // killed
	learner, _ = clusteredAt(t, listen, args...)
	gametest.OK(t, learner.Wait())
	for i, w := range workers {
		_ = w.Process.Signal(os.Interrupt)
		if err := w.Wait(); w.ProcessState.ExitCode() != exitInterrupted {
			t.Errorf("worker %d: %v", i, err)
		}
	}
	number := 0
	for line := range bytes.Lines(getFile(t, filepath.Join(dir, "generations.jsonl"))) {
		var g learn.Generation
		gametest.OK(t, json.Unmarshal(line, &g))
		games, least := 0, 40
		for s := range g.Series {
			folder := "games"
			if s > 0 {
				folder = fmt.Sprintf("games-%03d", s)
			}
			for _, shard := range gametest.Must(durable.Shards(filepath.Join(dir, fmt.Sprintf("%03d", number), folder)))(t) {
				games += shard.Games()
			}
		}
		if number == 0 {
			least = 60
		}
		if g.Number != number || g.Games != games || games < least || number == 1 && began && g.Series < 2 || number < 2 && g.Player != "bitsquares" || number == 2 && g.Player != "000" {
			t.Errorf("generation %d has %d series of %d games by %s, its folder %d games", g.Number, g.Series, g.Games, g.Player, games)
		}
		number++
	}
	if number != 3 {
		t.Errorf("%d generations", number)
	}
	if text := string(getFile(t, filepath.Join(dir, "config.json"))); !strings.Contains(text, `"continuous": true`) {
		t.Errorf("configuration %s", text)
	}
	// Without --cluster this process plays, and the run stays continuous.
	status, out, stderr := evald(t, "", "learn", "-o", dir, "--generations", "4")
	if status != exitOK || !strings.HasPrefix(out, "  3  40 games by ") {
		t.Errorf("resumed: status %d, output %q, errors %q", status, out, stderr)
	}
	refuses(t, exitUsage, "--continuous does nothing without --cluster", "", "learn", "-o", t.TempDir(), "--continuous")
}
