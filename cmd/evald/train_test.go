package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/record"
	"github.com/evald/evald/nn/net"
	"github.com/evald/evald/nn/train"
)

// trainTiny are the flags of a run of a moment.
func trainTiny(dir string, more ...string) []string {
	return append([]string{"train", "-o", dir, "--network", "1x4/4/6", "--batch", "32", "--steps", "8", "--threads", "1"}, more...)
}

func TestTrainGameover(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	picture := filepath.Join(t.TempDir(), "f.svg")
	args := trainTiny(dir, "--task", "gameover", "--test", "1024", "--plot", picture)
	status, out, stderr := evald(t, "", args...)
	if status != exitOK || !strings.HasPrefix(stderr, "evald train: 1x4/4/6, 7x6x4, from random positions; 8 steps of 32 positions") {
		t.Fatalf("status %d, errors %q", status, stderr)
	}
	want := regexp.MustCompile(`^network  \S+/run/network.safetensors
gameover  accuracy 0\.\d{6}, cross-entropy \d\.\d{6}
  not over     \d+ of 9\d\d right
  own win      \d+ of \d+ right
  other's win  \d+ of \d+ right
  draw         \d+ of \d+ right
$`)
	if !want.MatchString(out) {
		t.Errorf("output is %q", out)
	}
	n, err := net.ReadFile(filepath.Join(dir, train.NetworkFile))
	if err != nil || n.Config().String() != "1x4/4/6" {
		t.Errorf("network %v, error %v", n, err)
	}
	if about := n.Metadata["evald.training"]; !strings.Contains(about, `"task":"gameover"`) || !strings.HasSuffix(about, `"step":8}`) {
		t.Errorf("the network's file says of its training %q", about)
	}
	metrics, err := train.ReadMetrics(filepath.Join(dir, train.MetricsFile))
	if err != nil || len(metrics) != 8 || metrics[7].GameOver == nil || metrics[7].WDL != nil {
		t.Errorf("metrics %+v, error %v", metrics, err)
	}
	svg, err := os.ReadFile(picture)
	if err != nil || !strings.Contains(string(svg), "gameover") {
		t.Errorf("the picture has %d bytes, error %v", len(svg), err)
	}
	status, again, stderr := evald(t, "", args...)
	if status != exitOK || again != out || !strings.Contains(stderr, "which has 8 steps") {
		t.Errorf("a second time: status %d, output %q, errors %q", status, again, stderr)
	}
	status, _, stderr = evald(t, "", append(args, "--seed", "3")...)
	if status != exitBadInput || !strings.Contains(stderr, "seed 0, and now it is 3") {
		t.Errorf("another seed in the same folder: status %d, errors %q", status, stderr)
	}
}

func TestTrainRecords(t *testing.T) {
	b := game.MustBoard(game.Connect4)
	path := filepath.Join(t.TempDir(), "r.parquet")
	w, err := record.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	for i := range 40 {
		p, _, err := b.ParseMoves(strings.Repeat("1234567"[i%7:i%7+1], 1+i%5))
		if err != nil {
			t.Fatal(err)
		}
		source := eval.Searched
		if i%4 == 0 {
			source = eval.Bitsquares
		}
		rec := record.Record{Rules: b.Rules(), Position: p, Visits: []uint32{0, 1, 2, 3, 2, 1, 0}, Ply: p.Plies(), Source: source, Z: 1, Weight: 1}
		if err := w.Write(&rec); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "run")
	status, out, stderr := evald(t, "", trainTiny(dir, path, "--optimizer", "sgd")...)
	if status != exitOK || strings.Count(out, "\n") != 1 || !strings.Contains(stderr, "from 40 records") ||
		!strings.Contains(stderr, "of the first 40 records 10 were answered by heuristics and teach nothing; with --heuristics they do") {
		t.Errorf("status %d, output %q, errors %q", status, out, stderr)
	}
	metrics, err := train.ReadMetrics(filepath.Join(dir, train.MetricsFile))
	if err != nil || len(metrics) != 8 || metrics[0].WDL == nil || metrics[0].Policy == nil || metrics[0].GameOver == nil {
		t.Errorf("metrics %+v, error %v", metrics, err)
	}
	status, _, stderr = evald(t, "", trainTiny(dir, path, "--optimizer", "sgd", "--q-share", "0.5")...)
	if status != exitBadInput || !strings.Contains(stderr, "q_share 0, and now it is 0.5") {
		t.Errorf("other targets in the same folder: status %d, errors %q", status, stderr)
	}
}

// What solve writes, train learns from, in either format.
func TestTrainExact(t *testing.T) {
	var networks []string
	for _, format := range []string{"text", "jsonl"} {
		_, exact, stderr := evald(t, "2252576253462244111563365343671351441\n7422341735647741166133573473242566\n23163416124767223154467471272416755633\n", "solve", "--scores", "--format", format)
		path, dir := filepath.Join(t.TempDir(), "exact"), filepath.Join(t.TempDir(), "run")
		if err := os.WriteFile(path, []byte(exact), 0o644); err != nil || stderr != "" {
			t.Fatal(err, stderr)
		}
		status, _, stderr := evald(t, "", trainTiny(dir, path, "--task", "exact")...)
		if status != exitOK || !strings.Contains(stderr, "from 3 solved positions; 8 steps") {
			t.Errorf("status %d, errors %q", status, stderr)
		}
		metrics, err := train.ReadMetrics(filepath.Join(dir, train.MetricsFile))
		if err != nil || len(metrics) != 8 || metrics[0].WDL == nil || metrics[0].Policy == nil || metrics[0].GameOver == nil {
			t.Errorf("metrics %+v, error %v", metrics, err)
		}
		network, err := os.ReadFile(filepath.Join(dir, train.NetworkFile))
		if err != nil {
			t.Fatal(err)
		}
		networks = append(networks, string(network))
	}
	if networks[0] != networks[1] {
		t.Error("scores as text and as JSON give different networks")
	}
}

func TestTrainInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var err strings.Builder
	dir := filepath.Join(t.TempDir(), "run")
	status := run(ctx, trainTiny(dir, "--task", "gameover"), streams{strings.NewReader(""), &err, &err})
	if status != exitInterrupted || !strings.Contains(err.String(), "interrupted after 0 of 8 steps; the same command goes on") {
		t.Errorf("status %d, errors %q", status, err.String())
	}
	if _, err := os.Stat(filepath.Join(dir, train.CheckpointFile)); err != nil {
		t.Error(err)
	}
}

func TestTrainWrongUse(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("44554\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"missing flags: --out": {"train"},
		"no files to learn":    trainTiny(dir),
		"leave the files out":  trainTiny(dir, "--task", "gameover", text),
		"records " + text:      trainTiny(dir, text),
		"scores " + text:       trainTiny(dir, "--task", "exact", text),
		"--rules":              trainTiny(dir, "--task", "gameover", "--rules", "7x6"),
		"--q-share 1.5":        trainTiny(dir, "--q-share", "1.5", text),
		"--q-share NaN":        trainTiny(dir, "--q-share", "NaN", text),
		"--batch 0":            trainTiny(dir, "--task", "gameover", "--batch", "0"),
		"network config \"6\"": trainTiny(dir, "--task", "gameover", "--network", "6"),
		"steps is -1":          trainTiny(dir, "--task", "gameover", "--steps=-1"),
		"--init: ":             trainTiny(dir, "--task", "gameover", "--init", text),
		"must be one of":       trainTiny(dir, "--task", "chess"),
		"ema is 2":             trainTiny(dir, "--task", "gameover", "--ema", "2"),
		"not a directory":      trainTiny(text, "--task", "gameover"),
	} {
		status, out, stderr := evald(t, "", args...)
		if status == exitOK || out != "" || !strings.Contains(stderr, want) {
			t.Errorf("%v: status %d, output %q, errors %q, want %q", args, status, out, stderr, want)
		}
	}
}
