package game

import (
	"math"
	"slices"
	"strings"
	"testing"
)

func TestMix(t *testing.T) {
	for text, want := range map[string]Mix{
		"7x6x4":                   {{Connect4, 1}},
		"3x3x3free=2.5,7x6x4":     {{TicTacToe, 2.5}, {Connect4, 1}},
		"7x6x4=1e-06,3x3x3free=3": {{Connect4, 1e-6}, {TicTacToe, 3}},
	} {
		got, err := ParseMix(text)
		if err != nil || got.String() != text || len(got) != len(want) || got[0] != want[0] || got[len(got)-1] != want[len(want)-1] {
			t.Errorf("%s: %+v, error %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"":                   "want columns x rows",
		"7x6x4,":             "want columns x rows",
		"7x6x4=0":            "share",
		"7x6x4=x":            "share",
		"7x6x4=NaN":          "share",
		"7x6x4=2,7x6x4":      "7x6x4 is there twice",
		"7x6x4,3x3x3free,1x": "want columns x rows",
	} {
		if _, err := ParseMix(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
	var long []string
	for k := range maxParts + 1 { // all different
		long = append(long, Rules{Rows: 2 + k%11, Columns: 2 + k/11%8, InARow: 1 + k/88%2, Gravity: k < 176}.String())
	}
	if _, err := ParseMix(strings.Join(long, ",")); err == nil || !strings.Contains(err.Error(), "more than 256 games") {
		t.Errorf("a mix of too many games: error %v", err)
	}
	if m, err := ParseMix(strings.Join(long[1:], ",")); err != nil || len(m) != maxParts {
		t.Errorf("a mix of the maximum number of games: %d, error %v", len(m), err)
	}
}

// What is read is a mix without repeated games, and is read again as the same.
func FuzzParseMix(f *testing.F) {
	for _, text := range []string{"7x6x4", "3x3x3free=2.5,7x6x4", "7x6x4=1e-06", "7x6x4=NaN", "7x6x4=2,", "=1", "7x6x4,07x6x4"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, err := ParseMix(text)
		if err != nil {
			return
		}
		met := map[Rules]bool{}
		for _, p := range m {
			if met[p.Rules] || !(p.Share > 0) || math.IsInf(p.Share, 0) {
				t.Fatalf("%q: %+v", text, m)
			}
			met[p.Rules] = true
		}
		if again, err := ParseMix(m.String()); err != nil || !slices.Equal(again, m) {
			t.Fatalf("%q: %v became %v, error %v", text, m, again, err)
		}
	})
}

// After every step each game has had its share, give or take one, and a step's game does not depend on how it was asked for.
func TestTurns(t *testing.T) {
	mix := Mix{{Connect4, 3}, {TicTacToe, 0.5}, {Rules{Rows: 4, Columns: 4, InARow: 3, Gravity: true}, 1.7}}
	turns, had := NewTurns(mix), make([]int, len(mix))
	var parts []int
	for step := range 2000 {
		part, before := turns.At(step)
		if again, same := turns.At(step); again != part || same != before || before != had[part] {
			t.Fatalf("step %d: game %d after %d steps, then %d after %d, want after %d", step, part, before, again, same, had[part])
		}
		had[part]++
		parts = append(parts, part)
		if step%97 == 0 && !slices.Equal(mix.Counts(step+1), had) {
			t.Fatalf("%d steps are counted as %d, want %d", step+1, mix.Counts(step+1), had)
		}
		for i, p := range mix {
			if want := float64(step+1) * p.Share / 5.2; math.Abs(float64(had[i])-want) > 1 {
				t.Fatalf("after step %d game %d has had %d, want %v", step, i, had[i], want)
			}
		}
	}
	for _, step := range []int{1500, 3, 0, 999} {
		if part, _ := turns.At(step); part != parts[step] {
			t.Errorf("step %d, asked again: game %d, want %d", step, part, parts[step])
		}
	}
	if counts := (Mix{{Connect4, 2}}).Counts(77); !slices.Equal(counts, []int{77}) {
		t.Errorf("77 steps of one game are counted as %d", counts)
	}
	if part, had := NewTurns(Mix{{Connect4, 2}}).At(77); part != 0 || had != 77 {
		t.Errorf("one game: %d, %d", part, had)
	}
}
