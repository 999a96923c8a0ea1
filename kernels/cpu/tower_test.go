package cpu

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// Blocks of any number of positions, one after another in the same memory, have bit for bit the answers of each position by itself.
func TestBlocks(t *testing.T) {
	for _, k := range all() {
		for _, board := range [][2]int{{6, 7}, {1, 1}, {2, 12}} {
			r := random(11)
			rows, columns := board[0], board[1]
			n := blocksOf(r, 1, 33, 0.5)
			n.Ranges = randomRanges(r, 1, 33)
			tower := newTower(n, k)
			s, alone := tower.NewScratch(rows, columns), tower.NewScratch(rows, columns)
			size, cells := testPlanes*rows*columns, rows*columns
			x := randomPlanes(r, s.Positions, rows, columns)
			var want [][]float32
			for i := range s.Positions {
				tower.Forward(alone, x[i*size:(i+1)*size], 1)
				want = append(want, slices.Concat(alone.WDL[:3], alone.GameOver[:4], alone.Cells[:cells]))
			}
			counts := r.Perm(s.Positions)
			for _, count := range counts[:min(len(counts), 2+few(len(counts)))] {
				count++
				tower.Forward(s, x[:count*size], count)
				for i := range count {
					if got := slices.Concat(s.WDL[3*i:3*i+3], s.GameOver[4*i:4*i+4], s.Cells[cells*i:cells*(i+1)]); !slices.Equal(got, want[i]) {
						t.Fatalf("%s: %dx%d: position %d of %d has logits %v, alone %v", k.name, columns, rows, i, count, got, want[i])
					}
				}
			}
		}
	}
}

// BenchmarkTower computes blocks of positions of 7x6 by each path: one block after another, as a batch does, by one thread.
func BenchmarkTower(b *testing.B) {
	for _, shape := range [][2]int{{7, 64}, {10, 128}} {
		for _, p := range measured() {
			b.Run(fmt.Sprintf("%dx%d/%s", shape[0], shape[1], p), func(b *testing.B) {
				r := rand.New(rand.NewPCG(3, 4))
				k, err := p.kernel()
				if err != nil {
					b.Fatal(err)
				}
				t := newTower(trialNetwork(r, shape[1]), k)
				t.repeat(shape[0])
				s := t.NewScratch(6, 7)
				x := randomPlanes(r, s.Positions, 6, 7)
				for b.Loop() {
					t.Forward(s, x, s.Positions)
				}
				b.ReportMetric(float64(s.Positions*b.N)/b.Elapsed().Seconds(), "positions/s")
			})
		}
	}
}
