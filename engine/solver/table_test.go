package solver

import (
	"testing"

	"github.com/evald/evald/engine/game/gametest"
)

// TestTableIsSafe fills small tables with many keys. What is found must be what was stored under that very key, and nothing
// may be found after a reset.
func TestTableIsSafe(t *testing.T) {
	gametest.OneGoroutine(t)
	for _, keyBits := range []uint{12, 20, 49, 63, 64} {
		table := newTable(1<<20, keyBits, 7, 21)
		r := gametest.Rand(uint64(keyBits))
		type bounds struct{ lower, upper, move int }
		truth := map[uint64]bounds{}
		hits := 0
		for range 300_000 {
			key := r.Uint64() >> (64 - min(keyBits, 19)) << (keyBits - min(keyBits, 19)) // far apart in the key's high bits
			key ^= r.Uint64N(4)
			mixed := table.mix(key)
			want, stored := truth[key]
			if word := table.probe(mixed); word != 0 {
				hits++
				if got := (bounds{table.lower(word), table.upper(word), table.move(word)}); !stored || got != want {
					t.Fatalf("%d bits: key %x holds %+v, want %+v (stored: %v)", keyBits, key, got, want, stored)
				}
			} else if !stored {
				truth[key] = bounds{-int(key % 22), int(key % 20), int(key % 7)}
			}
			want = truth[key]
			table.store(mixed, want.lower, want.upper, want.move, key%1000)
		}
		if hits == 0 || table.fill() == 0 {
			t.Errorf("%d bits: nothing was found", keyBits)
		}
		table.reset()
		for key := range truth {
			if table.probe(table.mix(key)) != 0 {
				t.Fatalf("%d bits: key %x outlives a reset", keyBits, key)
			}
		}
	}
}
