package mcts

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The table of positions finds what a map finds.
func TestPositions(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var s, other positions
	for _, reserved := range []int{0, 1, 100} {
		s.reserve(reserved)
		for round := range 20 {
			s.reset()
			if round == 10 {
				s.epoch = math.MaxUint32
				s.reset() // the epoch begins at 1 again; positions of the old epoch 1 may not be found
			}
			want := map[uint64]uint32{}
			check := func() {
				t.Helper()
				for h, node := range want {
					if got := s.find(h); got != node {
						t.Fatalf("%x is at %d, want %d", h, got, node)
					}
				}
				for range 100 {
					if h := r.Uint64() >> r.IntN(60); s.find(h) != want[h] {
						t.Fatalf("%x is at %d, want %d", h, s.find(h), want[h])
					}
				}
			}
			for node := uint32(1); node <= uint32(50*round); node++ {
				h := r.Uint64() >> r.IntN(60) // many hashes begin with zeros
				if want[h] == 0 {
					s.add(h, node)
					want[h] = node
				}
			}
			check()
			other.copy(&s, func(node uint32) uint32 {
				if node%3 == 0 {
					return 0
				}
				return node + 7
			})
			s, other = other, s
			for h, node := range want {
				if want[h] = node + 7; node%3 == 0 {
					delete(want, h)
				}
			}
			check()
		}
	}
}
