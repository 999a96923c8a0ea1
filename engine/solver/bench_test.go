package solver

import (
	"context"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

func TestSets(t *testing.T) {
	for _, set := range []struct {
		name string
		n    int
	}{
		{"pons/Test_L3_R1", 1000},
		{"pons/Test_L2_R1", 1000},
		{"pons/Test_L2_R2_first500", 500},
		{"pons/Test_L1_R1", 1000},
		{"pons/Test_L1_R2_first500", 200},
		{"pons/Test_L1_R3_first500", 10},
	} {
		want := os.Getenv("SETS")
		if want != "" && !strings.Contains(want, set.name[10:15]) {
			continue
		}
		lines := gametest.DataLines(t, set.name)
		lines = lines[:min(set.n, len(lines))]
		b := game.MustBoard(game.Connect4)
		s, _ := New(b, Options{TableMiB: 256})
		var nodes uint64
		var took time.Duration
		wrong := 0
		for _, l := range lines {
			moves, score, _ := strings.Cut(l, " ")
			p, _, err := b.ParseMoves(moves)
			if err != nil {
				t.Fatal(err)
			}
			s.Reset()
			start := time.Now()
			r, _ := s.Solve(context.Background(), p)
			took += time.Since(start)
			nodes += r.Nodes
			if w, _ := strconv.Atoi(score); w != r.Score {
				wrong++
				if wrong < 4 {
					t.Errorf("%s: %d want %d", moves, r.Score, w)
				}
			}
		}
		n := float64(len(lines))
		t.Logf("%-26s nodes %12.1f  mean %9.3f ms  %6.2f M/s wrong %d", set.name, float64(nodes)/n, took.Seconds()/n*1000, float64(nodes)/took.Seconds()/1e6, wrong)
	}
}

func TestEmpty(t *testing.T) {
	if os.Getenv("EMPTY") == "" {
		t.Skip()
	}
	mib, _ := strconv.Atoi(os.Getenv("EMPTY"))
	b := game.MustBoard(game.Connect4)
	s, _ := New(b, Options{TableMiB: mib})
	start := time.Now()
	r, _ := s.Solve(context.Background(), game.Position{})
	took := time.Since(start)
	t.Logf("empty: %+v %v %.2f M/s", r, took, float64(r.Nodes)/took.Seconds()/1e6)
}
