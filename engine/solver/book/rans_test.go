package book

import (
	"math"
	"testing"

	"github.com/evald/evald/engine/game/gametest"
)

// Symbols decode to themselves, in texts nearly as short as the models allow.
func TestRANS(t *testing.T) {
	r := gametest.Rand(1)
	for try := range 300 {
		models := make([]model, 1+r.IntN(5))
		for i := range models {
			counts := make([]int, 1+r.IntN(60))
			for s := range counts {
				if r.IntN(3) > 0 {
					counts[s] = int(math.Exp(12 * r.Float64()))
				}
			}
			counts[r.IntN(len(counts))]++
			models[i] = newModel(counts)
			if last := len(counts); models[i][last] != scale {
				t.Fatalf("frequencies of %v have the sum %d", counts, models[i][last])
			}
			for s, c := range counts {
				if (c == 0) != (models[i][s] == models[i][s+1]) {
					t.Fatalf("symbol %d of %v has frequency %d", s, counts, models[i][s+1]-models[i][s])
				}
			}
		}
		var symbols []coded
		least := 0.0 // bits
		for range r.IntN(300) {
			m := models[r.IntN(len(models))]
			at, s := uint16(r.IntN(scale)), 0
			if try%3 == 0 { // rare symbols, too
				for s = r.IntN(len(m) - 1); m[s] == m[s+1]; s = r.IntN(len(m) - 1) {
				}
				at = m[s]
			}
			for s = 0; m[s+1] <= at; s++ {
			}
			symbols = append(symbols, coded{m, s})
			least += scaleBits - math.Log2(float64(m[s+1]-m[s]))
		}
		text := encode(symbols)
		if bytes := float64(len(text)); bytes > least*1.01/8+3 || len(text) > len(symbols)*scaleBits/8+3 {
			t.Errorf("%d symbols of %.0f bits take %d bytes", len(symbols), least, len(text))
		}
		d := decoder{text: text}
		for i, want := range symbols {
			if got := d.next(want.model); got != want.symbol {
				t.Fatalf("try %d: symbol %d is %d, want %d", try, i, got, want.symbol)
			}
		}
		if d.x != 0 || len(d.text) != 0 {
			t.Errorf("try %d: %d bytes are left, and state %d", try, len(d.text), d.x)
		}
	}
}

// A symbol that is certain takes no bytes.
func TestRANSCertain(t *testing.T) {
	m := newModel([]int{0, 0, 7})
	symbols := make([]coded, 1000)
	for i := range symbols {
		symbols[i] = coded{m, 2}
	}
	if text := encode(symbols); len(text) > 0 {
		t.Errorf("%d bytes", len(text))
	}
	if got := (&decoder{}).next(m); got != 2 {
		t.Errorf("symbol %d", got)
	}
	if m := newModel(make([]int, 3)); m[3] != 0 {
		t.Errorf("a model without symbols has frequencies %v", m)
	}
}
