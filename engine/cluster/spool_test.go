package cluster_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/evald/evald/engine/cluster"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/selfplay"
)

// What is not confirmed is there after a kill, without a torn line, and a full spool waits.
func TestSpool(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spool.jsonl")
	s := gametest.Must(cluster.OpenSpool(path))(t)
	add := func(n int) {
		gametest.OK(t, s.Add(t.Context(), &selfplay.Game{Number: n}))
	}
	for n := range 5 {
		add(n)
	}
	if some, err := s.Next(t.Context()); err != nil || !slices.Equal(some, []int{0, 1, 2, 3, 4}) {
		t.Errorf("%v, %v", some, err)
	}
	text := gametest.Must(os.ReadFile(path))(t)
	gametest.OK(t, os.WriteFile(path, text[:len(text)-3], 0o644)) // killed
	s = gametest.Must(cluster.OpenSpool(path))(t)
	if some, err := s.Next(t.Context()); err != nil || !slices.Equal(some, []int{0, 1, 2, 3}) {
		t.Errorf("after a kill: %v, %v", some, err)
	}
	s.Confirmed(2)
	s.Close()
	if s = gametest.Must(cluster.OpenSpool(path))(t); s.Len() != 2 {
		t.Fatalf("%d games after two were confirmed", s.Len())
	}
	for n := s.Len(); n < cluster.SpoolGames; n++ {
		add(n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Add(ctx, &selfplay.Game{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a full spool takes a game: %v", err)
	}
	waits := make(chan error)
	go func() { waits <- s.Add(t.Context(), &selfplay.Game{Number: 7}) }()
	s.Confirmed(1)
	if err := <-waits; err != nil || s.Len() != cluster.SpoolGames {
		t.Errorf("%d games, %v", s.Len(), err)
	}
	s.Close()
}
