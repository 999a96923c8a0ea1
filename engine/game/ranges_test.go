package game_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evald/evald/engine/game"
)

func TestRanges(t *testing.T) {
	texts := []string{"3-12x3-13x3-6", "3-6x3-6x3free", "7x6x4"}
	r, err := game.ParseRanges(texts)
	if err != nil {
		t.Fatal(err)
	}
	for i, text := range texts {
		if r[i].String() != text {
			t.Errorf("%s became %v", text, r[i])
		}
	}
	for text, want := range map[string]bool{
		"3x3x3": true, "12x9x6": true, "9x13x6": true, "13x8x4": false, "2x3x3": false, "7x6x7": false, "8x14x4": false,
		"3x3x3free": true, "6x6x3free": true, "6x6x4free": false, "7x6x3free": false,
	} {
		rules, err := game.ParseRules(text)
		if err != nil {
			t.Fatal(err)
		}
		if r.Contains(rules) != want {
			t.Errorf("%s is in %v: %v, want %v", text, r, !want, want)
		}
	}
	if r[:0].Contains(game.Connect4) {
		t.Error("no range has 7x6x4")
	}
}

func FuzzParseRanges(f *testing.F) {
	for _, text := range []string{"3-12x3-13x3-6", "7x6x4", "3-6x3-6x3free", "6-3x3x3", "x", "3-x4x4", "+3x3x3", "0x1x1", "3x3"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := game.ParseRanges([]string{text})
		if err != nil {
			if pe := new(game.ParseError); !errors.As(err, &pe) || pe.Field != "range" || pe.Value != text {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		again, err := game.ParseRanges([]string{r[0].String()})
		if err != nil || cmp.Diff(again, r) != "" {
			t.Errorf("%q is %v, which is %v, %v", text, r, again, err)
		}
	})
}

// The mixes with names can be played, lie in their range, and have nothing in common.
func TestMixes(t *testing.T) {
	of := map[game.Rules]string{}
	for _, named := range game.Mixes() {
		mix, err := game.ParseMix(named.Name)
		if err != nil {
			t.Fatalf("%s: %v", named.Name, err)
		}
		for _, part := range mix {
			if other := of[part.Rules]; other != "" {
				t.Errorf("%v is in %s and in %s", part.Rules, other, named.Name)
			}
			of[part.Rules] = named.Name
			if !game.AnyRange().Contains(part.Rules) {
				t.Errorf("%s: %v is out of range", named.Name, part.Rules)
			}
			if _, err := game.NewBoard(part.Rules); err != nil {
				t.Errorf("%s: %v", named.Name, err)
			}
		}
	}
}
