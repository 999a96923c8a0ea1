package play

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/mcts"
	"github.com/evald/evald/engine/solver"
)

// oneBest is a position with exactly one best move, which is the fourth (see TestSolver).
const oneBest = "2252576253462244111563"

// Once all moves are solved, the hint is the exact best move, whatever the search prefers, and is labelled as exact. The board
// marks the same move.
func TestHintIsExact(t *testing.T) {
	d := drive(t, config(t, oneBest, nil))
	wrong := &Report{Moves: make([]mcts.Move, 7), Visits: 9, Value: 0.5, Best: 5, Line: []int{5, 0}}
	d.press("h")
	d.searching.stop()
	d.report = wrong
	d.shows("hint  6 (search: value +50), expected 61", "*6*")
	d.press("s")
	d.until("all scores", func() bool { return d.exact != nil && d.exact.Finished })
	d.report = wrong
	d.shows("hint  4 (exact: -2)", "*4*")
	d.press("s") // the scores are no longer shown, but still known
	d.report = wrong
	d.shows("hint  4 (exact: -2)", "*4*")
	d.press("s")
	d.until("all scores again", func() bool { return d.exact != nil && d.exact.Finished })
	d.press("4", "h")
	if d.hinted() == 3 || d.solution.of(d.session.now) {
		t.Error("the exact hint of the last position is still shown")
	}
}

// Of several best moves the hint is the search's, with the line that it expects; without a search it is the leftmost.
func TestHintAmongEqual(t *testing.T) {
	b := config(t, "44", nil).Board
	s := &solution{scores: []int{-2, 3, solver.NoMove, 3, 1, 0, 3}}
	for best, want := range map[int]string{-1: "2 (exact: +3)", 3: "4 (exact: +3), expected 41", 6: "7 (exact: +3), expected 71", 4: "2 (exact: +3)"} {
		r := &Report{Best: best, Line: []int{best, 0}}
		if best < 0 {
			r.Line = nil
		}
		if got := s.advice(b, r); got != want {
			t.Errorf("the search prefers %d: %q, want %q", best, got, want)
		}
	}
	if got := s.advice(b, nil); got != "2 (exact: +3)" {
		t.Errorf("without a search: %q", got)
	}
}

// Scores of which some are missing are no solution.
func TestSolution(t *testing.T) {
	e := Exact{Scores: []int{1, solver.NoMove}, Solved: 1, Legal: 2}
	if s := e.solution(game.Position{}); s != nil {
		t.Errorf("one of two moves is solved: %+v", s)
	}
	var none *solution
	if none.of(game.Position{}) {
		t.Error("no solution is taken for one")
	}
}

// Line by line the hint changes from the search's to the exact one after solve, and back after a move.
func TestPlainHint(t *testing.T) {
	var out bytes.Buffer
	gametest.OK(t, Plain(t.Context(), config(t, oneBest, nil), steady, strings.NewReader("hint\nsolve\nhint\n4\nhint\n"), &out))
	var kinds []string
	for line := range strings.Lines(out.String()) {
		if text, ok := strings.CutPrefix(line, "hint: "); ok {
			var move, kind string
			_, err := fmt.Sscanf(text, "%s %s", &move, &kind)
			gametest.OK(t, err)
			kinds = append(kinds, strings.Trim(kind, "(:,"))
		}
	}
	if !slices.Equal(kinds, []string{"search", "exact", "search"}) || !strings.Contains(out.String(), "hint: 4 (exact: -2)\n") {
		t.Errorf("hints %q in\n%s", kinds, out.String())
	}
}
