package evaltest

import (
	"slices"
	"testing"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

// Decided counts the positions of each kind that Rules evaluated.
type Decided struct {
	Won    int // with the next stone
	Lost   int // to the other side's next stone, after any move
	Forced int // only one move does not lose at once
}

// Rules evaluates n unfinished positions of random games, and fails if an answer contradicts the rules (game.Outlook).
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
		for i, p := range b.Pos {
			o := board.Outlook(p)
			switch {
			case o.Plies > 0:
				d.Forced++
			case o.Result == game.Win:
				d.Won++
			case o.Result == game.Loss:
				d.Lost++
			}
			if !follows(b, i, o) {
				wrong++
				t.Errorf("%v %+v: %v %v by %v; the rules: %+v", board.Rules(), p, b.WDLRow(i), b.PolicyRow(i), b.Source[i], o)
			}
		}
	}
	return d
}

// follows reports whether row i agrees with the rules. If they decide the position, the moves share the policy; otherwise, losing moves
// have probability 0.
func follows(b *eval.Batch, i int, o game.Outlook) bool {
	decided := o.Result != game.Ongoing
	ok := decided == (b.Source[i] == eval.Rules) && (!decided && o.Plies > 0) == (b.Source[i] == eval.Forced)
	if decided {
		ok = ok && [3]float32(b.WDLRow(i)) == o.Result.WDL()
	}
	for a, x := range b.PolicyRow(i) {
		if b.Board.Cell(b.Pos[i], a).And(o.Moves).IsZero() {
			ok = ok && x == 0
		} else if decided || o.Plies > 0 {
			ok = ok && x == 1/float32(o.Moves.OnesCount())
		}
	}
	return ok && slices.Max(b.PolicyRow(i)) > 0
}
