package net

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/tensor"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

// output is the network's output for N positions, before any softmax. All values are for the side to move.
type output struct {
	WDL, GameOver, Cells []float32 // [N,3], [N,4], [N,H,W]
}

// forward evaluates planes [N,5,H,W].
func forward(n *Network, planes *tensor.Dense) (out output) {
	shape := planes.Shape()
	for x := range slices.Chunk(planes.Float32s(), shape.TotalSize()/shape[0]) {
		s := newScratch(n.config, shape[2], shape[3])
		n.row(s, x, nil)
		out.WDL, out.GameOver, out.Cells = append(out.WDL, s.wdl...), append(out.GameOver, s.gameover...), append(out.Cells, s.cells...)
	}
	return out
}

// The same seed must always give the same weights: training runs and shipped files start from them.
func TestSeededWeights(t *testing.T) {
	config := Config{Blocks: 3, Channels: 8, HeadChannels: 4, Hidden: 8}
	for _, c := range []struct {
		name string
		make func(Config, uint64) (*Network, error)
		seed uint64
		want string
	}{
		{"New", New, 1, "200b7ca0dbc84585"},
		{"New", New, 2, "13357a4c6b9642d1"},
		{"NewScrambled", NewScrambled, 1, "89ae71f04f1bac2d"},
	} {
		n := gametest.Must(c.make(config, c.seed))(t)
		sum := sha256.Sum256(n.plain())
		if got := hex.EncodeToString(sum[:8]); got != c.want {
			t.Errorf("%s with seed %d: hash is %s, want %s", c.name, c.seed, got, c.want)
		}
	}
}

// A fresh network's tower is the identity after the stem, its biases are zero, and its outputs are nearly equal.
func TestFreshNetwork(t *testing.T) {
	n := gametest.Must(New(Config{Blocks: 4, Channels: 16, HeadChannels: 32, Hidden: 64}, 3))(t)
	b := game.MustBoard(game.Connect4)
	for _, p := range gametest.Positions(gametest.Rand(6), b, 20, true) {
		planes := NewPlanes(b, []game.Position{p}).Float32s()
		var stem []float32
		blocks := 0
		n.Trace(planes, 6, 7, func(layer string, values []float32) {
			switch {
			case layer == "stem":
				stem = slices.Clone(values)
			case strings.HasPrefix(layer, "blocks."):
				blocks++
				if !slices.Equal(values, stem) {
					t.Errorf("%s is not the stem", layer)
				}
			case layer == "value.wdl", layer == "value.gameover", layer == "policy.logit":
				for i, v := range values {
					if v < -1.5 || v > 1.5 {
						t.Errorf("%s: logit %d is %v", layer, i, v)
					}
				}
			}
		})
		if blocks != 4 {
			t.Fatalf("%d blocks, want 4", blocks)
		}
	}
	for _, s := range n.Config().Specs() {
		values := n.Weight(s.Name).Float32s()
		zero := !slices.ContainsFunc(values, func(x float32) bool { return x != 0 })
		if want := len(s.Shape) == 1 || strings.HasSuffix(s.Name, ".conv2.weight"); zero != want {
			t.Errorf("%s: all zero is %v, want %v", s.Name, zero, want)
		}
	}
}

// Trace shows every layer once, in order and with its size, and its last outputs are those of Forward.
func TestTrace(t *testing.T) {
	n := shipped(t, "seeded-2x16")
	b := game.MustBoard(game.Rules{Rows: 5, Columns: 9, InARow: 4, Gravity: true})
	planes := NewPlanes(b, gametest.Positions(gametest.Rand(7), b, 1, true))
	var got []string
	last := map[string][]float32{}
	n.Trace(planes.Float32s(), 5, 9, func(layer string, values []float32) {
		got = append(got, fmt.Sprint(layer, " ", len(values)))
		last[layer] = slices.Clone(values)
	})
	want := []string{
		"stem 720", "blocks.0 720", "blocks.1 720", "value.conv 360", "value.pool 16", "value.fc 16",
		"value.wdl 3", "value.gameover 4", "policy.conv 360", "policy.logit 45",
	}
	if !slices.Equal(got, want) {
		t.Errorf("layers are %q, want %q", got, want)
	}
	out := forward(n, planes)
	if !slices.Equal(last["value.wdl"], out.WDL) || !slices.Equal(last["value.gameover"], out.GameOver) ||
		!slices.Equal(last["policy.logit"], out.Cells) {
		t.Error("Trace and Forward differ")
	}
}

// flipped returns x with each run of w values reversed.
func flipped(x []float32, w int) []float32 {
	x = slices.Clone(x)
	for i := 0; i < len(x); i += w {
		slices.Reverse(x[i : i+w])
	}
	return x
}

// Taking an action's logit from its landing cell is the sum over the column of logit*playable.
func TestActionLogits(t *testing.T) {
	r := gametest.Rand(10)
	for _, b := range boards() {
		for range 20 {
			n := randomNaive(r, b.Rules())
			p := n.Position(b)
			cells := normals(r, b.Cells())
			got, legal := normals(r, b.Actions()), make([]bool, b.Actions())
			actionLogits(b, p, cells, got, legal)
			playable := NewPlanes(b, []game.Position{p}).Float32s()[planePlayable*b.Cells():][:b.Cells()]
			want := make([]float32, b.Actions()) // under gravity the sum over each column
			if b.Rules().Gravity {
				for i, v := range cells {
					want[i%b.Columns()] += v * playable[i]
				}
			} else {
				for i := range want {
					want[i] = cells[i] * playable[i]
				}
			}
			near(t, b.Rules().String(), got, want, 0)
			for a := range legal {
				if legal[a] != slices.Contains(n.Legal(), a) {
					t.Errorf("%v: action %d: legal is %v", b.Rules(), a, legal[a])
				}
			}
		}
	}
}
