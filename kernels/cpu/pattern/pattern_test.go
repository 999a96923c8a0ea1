package pattern

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/evald/evald/engine/game/gametest"
)

// slow is the definition in doc.go, number by number, in whole numbers of 64 bits.
func slow(w *Weights, rows []int32) []int32 {
	acc := make([]int, w.Lanes)
	for i, b := range w.Bias {
		acc[i] = int(b)
		for _, r := range rows {
			acc[i] += int(w.Table[int(r)*w.Lanes+i])
		}
		if acc[i] != int(int16(acc[i])) {
			panic("the sum leaves int16")
		}
	}
	half := (w.Lanes - Outputs) / 2
	x := make([]int, half)
	for i := range x {
		x[i] = min(max(acc[i], 0), 255) * min(max(acc[half+i], 0), 255) >> 9
	}
	for k, l := range w.Dense {
		y := make([]int, len(l.Bias))
		for o := range y {
			y[o] = int(l.Bias[o])
			for i := range x {
				y[o] += x[i] * int(l.Weight[o*len(x)+i])
			}
			if k < 2 {
				y[o] = min(max(y[o]>>6, 0), 127)
			}
		}
		x = y
	}
	out := make([]int32, Outputs)
	for i := range out {
		out[i] = int32(x[i] + 32*acc[2*half+i])
	}
	return out
}

// All paths give the numbers of the definition.
func TestPathsAreTheDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, shape := range [][3]int{{64, 16, 16}, {96, 48, 16}, {128, 64, 32}, {160, 16, 80}, {256, 64, 32}, {MaxLanes, MaxHidden, MaxHidden}} {
		w := Random(r, 100, shape[0], shape[1], shape[2])
		for _, p := range Paths() {
			n := gametest.Must(New(w, p))(t)
			if n.Path() != p {
				t.Fatalf("the network has path %s", n.Path())
			}
			for _, count := range []int{0, 1, 2, 5} {
				const each = 33
				rows := make([]int32, count*each)
				for i := range rows {
					rows[i] = int32(r.IntN(100))
				}
				out := make([]int32, count*Outputs+1)
				out[count*Outputs] = 77
				n.Forward(rows, each, out[:count*Outputs])
				for i := range count {
					want := slow(w, rows[i*each:(i+1)*each])
					if got := out[i*Outputs : (i+1)*Outputs]; !slices.Equal(got, want) {
						t.Fatalf("%v, path %s, position %d of %d: %v, want %v", shape, p, i, count, got, want)
					}
				}
				if out[count*Outputs] != 77 {
					t.Fatalf("path %s wrote behind the results", p)
				}
			}
		}
	}
}

func TestSelfTest(t *testing.T) {
	for _, p := range Paths() {
		if err := SelfTest(p); err != nil {
			t.Error(err)
		}
	}
	if Best() != Paths()[0] {
		t.Errorf("the best path is %s, want %s", Best(), Paths()[0])
	}
	if err := SelfTest("abacus"); err == nil || !strings.Contains(err.Error(), "go") {
		t.Errorf("a path that is not there: %v, want an error that lists the paths", err)
	}
}

func TestCheck(t *testing.T) {
	groups := []int32{0, 40, 100}
	valid := func() *Weights { return Random(rand.New(rand.NewPCG(3, 3)), 100, 128, 64, 32) }
	gametest.OK(t, valid().Check(groups))
	for _, c := range []struct {
		break_ func(w *Weights)
		want   string
	}{
		{func(w *Weights) { w.Lanes = 100 }, "lanes is 100"},
		{func(w *Weights) { w.Lanes = 2048 }, "lanes is 2048"},
		{func(w *Weights) { w.Bias = w.Bias[1:] }, "bias has 127"},
		{func(w *Weights) { w.Table = w.Table[128:] }, "want 100 rows"},
		{func(w *Weights) { w.Dense[0].Bias = w.Dense[0].Bias[:60] }, "hidden layer 1 has 60"},
		{func(w *Weights) { w.Dense[1].Bias = make([]int32, 512) }, "hidden layer 2 has 512"},
		{func(w *Weights) { w.Dense[2].Bias = make([]int32, 3) }, "3 outputs"},
		{func(w *Weights) { w.Dense[1].Weight = w.Dense[1].Weight[1:] }, "layer 2 has 2047 weights"},
		{func(w *Weights) { w.Dense[2].Bias[3] = -1 << 31 }, "layer 3 has bias"},
		{func(w *Weights) { w.Table[5*128+7] = 32000; w.Table[50*128+7] = 800 }, "sums of lane 7"},
		{func(w *Weights) { w.Bias[9] = -32768; w.Table[9] = -1 }, "sums of lane 9"},
	} {
		w := valid()
		c.break_(w)
		if err := w.Check(groups); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want one with %q", err, c.want)
		}
	}
	// A row as large as can be is fine if it is alone in its lane.
	w := valid()
	for row := range 100 {
		w.Table[row*128+7] = 0
	}
	w.Bias[7], w.Table[5*128+7] = 0, 32767
	if err := w.Check(groups); err != nil {
		t.Error(err)
	}
}
