package game

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Mix is several games, each with its share of the games that are played, or of the training steps.
type Mix []Part

// Part is a game of a Mix.
type Part struct {
	Rules Rules
	Share float64 // greater than 0; the shares of a Mix need not sum to 1
}

// maxParts bounds the number of games of a Mix, because each costs memory.
const maxParts = 256

// ParseMix parses rules separated by commas, each with a share (1 if omitted): 7x6x4, or 5x4x4,6x5x4=2,7x6x4=2.5. No game may occur twice.
// A name of Mixes stands for its games.
func ParseMix(s string) (m Mix, err error) {
	for _, named := range Mixes() {
		if s == named.Name {
			s = named.Games
		}
	}
	for _, text := range strings.Split(s, ",") {
		rules, number, hasShare := strings.Cut(text, "=")
		p := Part{Share: 1}
		if p.Rules, err = ParseRules(rules); err != nil {
			return nil, err
		}
		if hasShare {
			p.Share, err = strconv.ParseFloat(number, 64)
			if err != nil || !(p.Share >= 1e-6 && p.Share <= 1e6) {
				return nil, &ParseError{Field: "share", Value: number, Reason: "must be a number of 0.000001 to 1000000, as in 7x6x4=2"}
			}
		}
		if slices.ContainsFunc(m, func(o Part) bool { return o.Rules == p.Rules }) {
			return nil, &ParseError{Field: "rules", Value: s, Reason: fmt.Sprintf("%v is there twice: give it one share", p.Rules)}
		}
		if m = append(m, p); len(m) > maxParts {
			return nil, &ParseError{Field: "rules", Value: s, Reason: fmt.Sprintf("has more than %d games", maxParts)}
		}
	}
	return m, nil
}

// String returns the form that ParseMix reads. It omits shares of 1.
func (m Mix) String() string {
	parts := make([]string, len(m))
	for i, p := range m {
		parts[i] = p.Rules.String()
		if p.Share != 1 {
			parts[i] += "=" + strconv.FormatFloat(p.Share, 'g', -1, 64)
		}
	}
	return strings.Join(parts, ",")
}

// Counts returns the number of steps of each game among the first n steps of Turns. No game's number falls as n grows.
func (m Mix) Counts(n int) []int {
	counts := make([]int, len(m))
	if len(m) == 1 { // n may be 10^9
		counts[0] = n
		return counts
	}
	turns := NewTurns(m)
	for step := range n {
		part, _ := turns.At(step)
		counts[part]++
	}
	return counts
}

// Turns assigns each step to a game. After every step, the number of steps of each game is its share of all steps, up to one step. The game
// of a step depends only on the step's number and the Mix.
type Turns struct {
	mix  Mix
	all  float64 // sum of the shares
	step int     // the next step
	had  []int   // steps of each game before it
}

// NewTurns begins at step 0. The Mix must not be empty.
func NewTurns(m Mix) *Turns {
	t := &Turns{mix: m, had: make([]int, len(m))}
	for _, p := range m {
		t.all += p.Share
	}
	return t
}

// At returns the game of a step, as an index into the Mix, and the number of this game's earlier steps. Calls for consecutive steps are
// fast; a call for an earlier step starts again from step 0.
func (t *Turns) At(step int) (part, had int) {
	if step < t.step {
		t.step = 0
		clear(t.had)
	}
	for ; ; t.step++ {
		part, most := 0, math.Inf(-1)
		for i, p := range t.mix {
			if behind := float64(t.step+1)*p.Share/t.all - float64(t.had[i]); behind > most {
				part, most = i, behind
			}
		}
		if t.step == step {
			return part, t.had[part]
		}
		t.had[part]++
	}
}
