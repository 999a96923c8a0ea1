package cpu

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// The least times count, whatever other load adds to some of them.
func TestTurns(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	want := []time.Duration{3 * time.Millisecond, 2 * time.Millisecond, 700 * time.Microsecond}
	now, runs := time.Duration(0), make([]int, len(want))
	var trials []func()
	for i, least := range want {
		trials = append(trials, func() {
			if runs[i]++; runs[i]/2%4 != (i+3)%4 { // each second run is timed
				least += time.Duration(r.IntN(int(20 * time.Millisecond)))
			}
			now += least
			least = want[i]
		})
	}
	got := turns(trials, func() time.Duration { return now })
	if !slices.Equal(got, want) || runs[0] != runs[2] || runs[0] < 18 || runs[0] > 40 {
		t.Errorf("least times %v, want %v, after %v runs", got, want, runs)
	}
}

// Each path but plain Go is measured, if it has what a network with ranges gives it.
func TestRates(t *testing.T) {
	rates := Rates(3, 16)
	for _, p := range Paths() {
		if rate, ok := rates[p]; ok == (p == Go) || ok && !(rate > 0) {
			t.Errorf("%s: rate %v", p, rate)
		}
	}
}

// A block's clone computes what the block does, with memory of its own.
func TestClone(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 3))
	n := randomNetwork(r, 16, 8, 8, 1.6)
	n.Ranges = [][]float32{slices.Repeat([]float32{4}, 16)}
	x := randomPlanes(r, 1, 6, 7)
	for _, k := range all() {
		tower := newTower(n, k)
		s := tower.NewScratch(6, 7)
		tower.Forward(s, x, 1)
		want := slices.Clone(s.Cells)
		for i, b := range tower.blocks[0] {
			tower.blocks[0][i] = b.clone()
			for _, l := range []*layer{b.dense, b.atPoints} {
				if l != nil {
					clear(l.weights)
				}
			}
			if b.int8 != nil {
				clear(b.int8.weights)
			}
			if b.sparse != nil {
				clear(b.sparse.weights)
			}
		}
		if tower.Forward(s, x, 1); !slices.Equal(s.Cells, want) {
			t.Errorf("%s: the clone computes something else", k.name)
		}
	}
}
