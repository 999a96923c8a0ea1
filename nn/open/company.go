package open

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
)

// companyRows is the number of positions with which company asks a network.
const companyRows = 16

// mostCompany is the largest difference between two answers to a position, as probabilities, that
// company accepts. Another order of sums changes answers by 1e-5 in float32 and by at most 0.003 in
// float16 (nn/gpu), with any number of threads. Statistics over the rows of a batch change some of
// these answers by a hundredth or more.
const mostCompany = 0.005

// company returns an error if the answer to a position depends on the other rows of its batch, or
// on earlier batches.
func (f *Foreign) company(name string, o Options) error {
	e, err := f.by(ORTCPU, name, o)
	if err != nil {
		return err
	}
	defer e.Close()
	board, _, err := e.Backend().(byRuntime).codecs.first()
	if err != nil {
		return err
	}
	apart, p, err := mostApartIn(e.Backend(), board)
	switch {
	case errors.Is(err, eval.ErrNotFinite): // which a wrong description may explain
		return nil
	case err != nil:
		return err
	case apart > mostCompany:
		return fmt.Errorf("model %s: its rows depend on their batch: the answers to %s in different batches differ by up to %.2g. "+
			"Batch normalisation or dropout is in training mode: export it in evaluation mode, in PyTorch after model.eval(). "+
			"Or it normalises or quantises over the whole batch, and must do that for each position", name, board.Text(p), apart)
	}
	return nil
}

// mostApartIn returns the largest difference between the answers to a position of different games
// alone, alone once more, in a pair, and with all others in two orders. So with a fixed batch too,
// each position has several places and companions.
func mostApartIn(of eval.Backend, board *game.Board) (most float64, p game.Position, err error) {
	pos := companyPositions(board)
	alone, other := eval.NewBatch(board, companyRows), eval.NewBatch(board, companyRows)
	copy(alone.Pos, pos)
	if err := inParts(of, alone, 1); err != nil {
		return 0, p, err
	}
	for _, ask := range []struct {
		rows    int // in a batch
		reverse bool
	}{{1, false}, {2, false}, {companyRows, false}, {companyRows, true}} {
		copy(other.Pos, pos)
		if ask.reverse {
			slices.Reverse(other.Pos)
		}
		if err := inParts(of, other, ask.rows); err != nil {
			return 0, p, err
		}
		for i := range pos {
			at := i
			if ask.reverse {
				at = companyRows - 1 - i
			}
			if d := max(furthest(other.WDLRow(at), alone.WDLRow(i)), furthest(other.PolicyRow(at), alone.PolicyRow(i))); d > most {
				most, p = d, pos[i]
			}
		}
	}
	return most, p, nil
}

// inParts evaluates a batch in parts of the given number of rows.
func inParts(of eval.Backend, b *eval.Batch, rows int) error {
	for i := 0; i < len(b.Pos); i += rows {
		part := b.Slice(i, min(i+rows, len(b.Pos)))
		err := of.Compute(context.Background(), &part)
		if err == nil {
			err = part.Finite()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// companyPositions returns an unfinished position of each of some random games, from the empty
// board to almost full ones.
func companyPositions(board *game.Board) []game.Position {
	all := make([]game.Position, companyRows)
	for i := range all {
		r := rand.New(rand.NewPCG(2, uint64(i)))
		for plies := 0; plies < i*board.Cells()/companyRows; plies++ {
			legal := board.Legal(all[i])
			next := board.PlayCell(all[i], legal.Nth(r.IntN(legal.OnesCount())))
			if board.Result(next) != game.Ongoing {
				break
			}
			all[i] = next
		}
	}
	return all
}
