package evaltest

import (
	"slices"
	"testing"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

// Decided counts the positions of each kind that Rules has asked for.
type Decided struct {
	Won    int // with the next stone
	Lost   int // to the other side's next stone, whatever is played
	Forced int // there is one move that does not lose at once
}

// Rules asks for n unfinished positions of random games, and fails if an answer is not what the rules say. It finds out what
// they say by playing each move, and each reply.
func Rules(t *testing.T, e *eval.Evaluator, board *game.Board, n int, seed uint64) (d Decided) {
	t.Helper()
	const rows = 1000
	r := gametest.Rand(seed)
	wrong := 0
	for done := 0; done < n && wrong < 10; done += rows {
		b := eval.NewBatch(board, min(rows, n-done))
		for i := range b.Pos {
			for b.Pos[i] = gametest.Position(r, board, r.IntN(board.Cells()), true); board.Result(b.Pos[i]) != game.Ongoing; {
				b.Pos[i] = gametest.Position(r, board, r.IntN(board.Cells()), true)
			}
		}
		spoil(b)
		if err := e.Evaluate(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		for i := range b.Pos {
			if !d.check(t, b, i) {
				wrong++
			}
		}
	}
	return d
}

// check compares row i with the moves that win, or else with those after which the other side has no move that wins.
func (d *Decided) check(t *testing.T, b *eval.Batch, i int) bool {
	t.Helper()
	winning := func(p game.Position) (moves []int) {
		for a := range b.Board.Actions() {
			if b.Board.CanPlay(p, a) && b.Board.Result(b.Board.Play(p, a)) == game.Loss {
				moves = append(moves, a)
			}
		}
		return moves
	}
	p := b.Pos[i]
	var legal, safe []int
	for a := range b.Board.Actions() {
		if !b.Board.CanPlay(p, a) {
			continue
		}
		legal = append(legal, a)
		if len(winning(b.Board.Play(p, a))) == 0 {
			safe = append(safe, a)
		}
	}
	wdl, policy, source := [3]float32(b.WDLRow(i)), b.PolicyRow(i), b.Source[i]
	by := []eval.Source{eval.Rules}
	var want [3]float32
	moves := safe
	switch wins := winning(p); {
	case len(wins) > 0:
		d.Won++
		moves, want = wins, [3]float32{1, 0, 0}
	case len(safe) == 0:
		d.Lost++
		moves, want = legal, [3]float32{0, 0, 1}
	case len(safe) == 1:
		d.Forced++
		by, want = []eval.Source{eval.Rules, eval.Forced}, wdl
	default:
		by, want = []eval.Source{source}, wdl
	}
	ok := wdl == want && slices.Contains(by, source)
	for a, x := range policy {
		inside := slices.Contains(moves, a)
		exact := len(moves) == 1 || source == eval.Rules
		ok = ok && (inside || x == 0) && (!inside || !exact || x == 1/float32(len(moves)))
	}
	if ok && source != eval.Rules && source != eval.Forced && slices.Max(policy) == 0 {
		ok = false
	}
	if !ok {
		t.Errorf("%v %+v: %v %v by %v; the rules give the moves %v, and %v by one of %v", b.Board.Rules(), p, wdl, policy, source, moves, want, by)
	}
	return ok
}
