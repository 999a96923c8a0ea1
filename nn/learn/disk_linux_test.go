package learn_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/evald/evald/engine/durable/durabletest"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/nn/learn"
)

// The disk becomes full while positions are solved, games played, a network trained, and matches
// played. The run says so, waits, and ends with the same files as one whose disk had room.
func TestFullDisk(t *testing.T) {
	dir := durabletest.SmallDisk(t, "size=32m")
	c := tiny(t)
	c.Generations = 2
	phases := []string{"positions, random, exact", "generation 0, self-play", "generation 0, training", "generation 1, training", "generation 1 against random"}
	var mu sync.Mutex // progress and messages come from several goroutines
	var empty func()
	run := gametest.Must(learn.Open(dir, c, onCPU, onGorgonia, func(text string) {
		mu.Lock()
		defer mu.Unlock()
		if empty == nil && len(phases) > 0 && strings.HasPrefix(text, phases[0]) {
			phases, empty = phases[1:], durabletest.Fill(t, dir, 0)
		}
	}))(t)
	defer run.Close()
	full := 0
	run.Log = func(text string) {
		mu.Lock()
		defer mu.Unlock()
		if !strings.HasPrefix(text, "the disk is full: ") || !strings.Contains(text, dir) || !strings.Contains(text, "no space left on device") || !strings.HasSuffix(text, "; the run continues when there is room") {
			t.Errorf("message %q", text)
		}
		if empty != nil {
			full++
			empty()
			empty = nil
		}
	}
	gametest.OK(t, run.Learn(t.Context(), nil))
	if full != 5 || len(phases) > 0 {
		t.Errorf("the disk was full %d times; it was not full in %q", full, phases)
	}
	alone := t.TempDir()
	gametest.OK(t, learnBy(t.Context(), onGorgonia, alone, c, 2, func(string) {}))
	now := kept(t, dir)
	for name, text := range kept(t, alone) {
		if now[name] != text {
			t.Errorf("%s is another one", name)
		}
	}
}

// A run that waits for room can be interrupted.
func TestFullDiskInterrupted(t *testing.T) {
	dir := durabletest.SmallDisk(t, "size=32m")
	c := tiny(t)
	run := gametest.Must(learn.Open(dir, c, onCPU, onGorgonia, func(string) {}))(t)
	defer run.Close()
	durabletest.Fill(t, dir, 0)
	ctx, cancel := context.WithCancel(t.Context())
	run.Log = func(string) { cancel() }
	if err := run.Learn(ctx, nil); err != context.Canceled {
		t.Errorf("error %v", err)
	}
}
