package cluster_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/evald/evald/engine/cluster"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/selfplay"
)

// What is not confirmed is there after a kill, without a torn line, and a full spool says so.
func TestSpool(t *testing.T) {
	gametest.OneGoroutine(t)
	path := filepath.Join(t.TempDir(), "spool.jsonl")
	s := gametest.Must(cluster.OpenSpool(path))(t)
	add := func(n int) {
		s.Add(&selfplay.Game{Number: n})
	}
	for n := range 5 {
		add(n)
	}
	if some := s.Next(); !slices.Equal(some, []int{0, 1, 2, 3, 4}) {
		t.Errorf("%v", some)
	}
	text := gametest.Must(os.ReadFile(path))(t)
	gametest.OK(t, os.WriteFile(path, text[:len(text)-3], 0o644)) // killed
	s = gametest.Must(cluster.OpenSpool(path))(t)
	if some := s.Next(); !slices.Equal(some, []int{0, 1, 2, 3}) {
		t.Errorf("after a kill: %v", some)
	}
	s.Confirmed(2)
	s.Close()
	if s = gametest.Must(cluster.OpenSpool(path))(t); s.Len() != 2 {
		t.Fatalf("%d games after two were confirmed", s.Len())
	}
	for n := s.Len(); n < cluster.SpoolGames; n++ {
		if s.Full() {
			t.Fatalf("a spool of %d games is full", n)
		}
		add(n)
	}
	if !s.Full() {
		t.Error("a full spool takes a game")
	}
	if s.Confirmed(1); s.Full() {
		t.Error("there is no room after a confirmation")
	}
	s.Close()
}
