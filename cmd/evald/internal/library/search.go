package library

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"unsafe"

	"github.com/evald/evald/engine/ask"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/mcts"
)

// Found is memory for the results of N searches. Values are for the side to move.
type Found struct {
	Visits []uint32  // [N,A]; if a position is decided without a visit, 1 for each best move
	Policy []float32 // [N,A]; shares of the visits, or 1 for the best move if the result is proved
	Q      []float32 // [N,A] mean values of moves in -1..1
	WDL    []float32 // [N,3]
	Best   []int32   // [N] the action to play; -1 if the game is over
	Proved []int8    // [N] the proved result 1, 0 or -1, else 2
	Prior  []float32 // [N,A] as the search has used them
	Raw    []float32 // [N] the evaluator's own value of the position; NaN if the rules decided it
	Tree   []int32   // nil, or the mcts.Arrays of all trees one after the other, with room for Visits positions each
}

// arrays are the arrays in Tree.
func (f Found) arrays(b *game.Board, visits int) mcts.Arrays {
	n := len(f.Best) * visits
	rest := f.Tree
	whole := func(size int) []int32 { part := rest[:size:size]; rest = rest[size:]; return part }
	floats := func(size int) []float32 {
		part := whole(size)
		return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(part))), size)
	}
	return mcts.Arrays{
		NodeVisits: whole(n), Parents: whole(n), ActionFromParent: whole(n), NodeValues: floats(n), RawValues: floats(n),
		ChildrenIndex: whole(n * b.Actions()), ChildrenVisits: whole(n * b.Actions()), ChildrenPriorLogits: floats(n * b.Actions()),
		ChildrenRewards: floats(n * b.Actions()), ChildrenDiscounts: floats(n * b.Actions()), ChildrenValues: floats(n * b.Actions()),
	}
}

// treeWords is the length of Found.Tree.
func treeWords(b *game.Board, n, visits int) int { return n * visits * (5 + 6*b.Actions()) }

// Rule describes the search that options select, with the evaluator or, if it is nil, the caller's
// function: see ask.Search.Rule.
func Rule(e *Evaluator, b *game.Board, options string) (string, error) {
	o, err := ask.Decode(options, ask.Python)
	if err != nil {
		return "", fmt.Errorf("options of the search: %w", err)
	}
	evaluator, _, done, err := asks(e, b, o.Batch)
	if err != nil {
		return "", err
	}
	defer done()
	return o.Rule(evaluator.Backend(), b), nil
}

// Search searches each position in a tree of its own. e or, if it is nil, the caller's function evaluates the leaves. A position whose game
// is over gets no visits, and the game's result as its value. options is JSON with what ask.Python may set. positions and found must stay valid until
// Release.
func Search(e *Evaluator, b *game.Board, positions []game.Position, options string, found Found) (work *Work, err error) {
	o, err := ask.Decode(options, ask.Python)
	if err != nil {
		return nil, fmt.Errorf("options of the search: %w", err)
	}
	if err := Check(b, positions); err != nil {
		return nil, err
	}
	evaluator, function, done, err := asks(e, b, o.Batch)
	if err != nil {
		return nil, err
	}
	defer func() {
		if work == nil { // also after a panic
			done()
		}
	}()
	config := o.Config(evaluator.Backend())
	if err := found.fits(b, config, o.Visits); err != nil {
		return nil, err
	}
	return begin(function, len(positions), nil, func(ctx context.Context, w *Work) error {
		defer done()
		trees := 0
		if function != nil {
			trees = 4 * max(256, o.Batch/o.Leaves) // enough for a full batch to wait while another is computed
		}
		s, err := mcts.NewScheduler(ctx, ctx, evaluator, o.Batch, o.Leaves, trees)
		if err != nil {
			return err
		}
		var mu sync.Mutex
		var failed error
		next := func(_ *mcts.Job, _ *mcts.Tree) mcts.Goal { return mcts.Goal{Visits: o.Visits} }
		ended := func(j *mcts.Job, t *mcts.Tree, err error) {
			if err == nil {
				err = found.write(b, j.Row, t, o.Visits)
				w.done.Add(1)
			}
			if err != nil {
				mu.Lock()
				defer mu.Unlock()
				if failed == nil {
					failed = err
					w.cancel()
				}
			}
		}
		var jobs []*mcts.Job
		for i, p := range positions {
			if r := b.Result(p); r != game.Ongoing {
				found.over(b, i, r)
				w.done.Add(1)
				continue
			}
			jobs = append(jobs, &mcts.Job{Board: b, Position: p, Visits: o.Visits, Config: config, Row: i, Next: next, Done: ended})
		}
		if err := s.Add(jobs...); err != nil {
			return err
		}
		s.Wait()
		return failed
	}), nil
}

// asks returns the evaluator of a call on a board, which it must support, and which stays open
// until done is called. If e is nil, it is an evaluator on the caller's function.
func asks(e *Evaluator, b *game.Board, batch int) (evaluator *eval.Evaluator, function *Function, done func(), err error) {
	if e != nil {
		if done, err = e.use(); err != nil {
			return nil, nil, nil, err
		}
		if err = e.evaluator.Supports(b); err != nil {
			done()
			return nil, nil, nil, err
		}
		return e.evaluator, nil, done, nil
	}
	function = NewFunction(batch)
	return eval.New(function, eval.Options{}), function, func() {}, nil
}

// fits checks that Tree has room for the trees of a search.
func (f Found) fits(b *game.Board, c mcts.Config, visits int) error {
	switch want := treeWords(b, len(f.Best), visits); {
	case f.Tree == nil:
		return nil
	case len(f.Tree) != want:
		return fmt.Errorf("tree: the arrays have %d numbers, want %d", len(f.Tree), want)
	case !c.Plain || c.Transpositions:
		return errors.New("tree: this search has lookahead or transpositions, whose trees have other nodes than positions: lookahead must be False and transpositions False")
	}
	return nil
}

// write fills the row of a tree, which has at most most visits.
func (f Found) write(b *game.Board, row int, t *mcts.Tree, most int) error {
	n := b.Actions()
	visits, q, policy, prior := f.Visits[row*n:(row+1)*n], f.Q[row*n:(row+1)*n], f.Policy[row*n:(row+1)*n], f.Prior[row*n:(row+1)*n]
	clear(visits)
	clear(q)
	clear(prior)
	for _, m := range t.Moves(nil) {
		visits[m.Action], q[m.Action], prior[m.Action] = uint32(m.Visits), float32(m.Q), float32(m.Prior)
	}
	f.Raw[row] = float32(math.NaN())
	if raw, ok := t.Raw(); ok {
		f.Raw[row] = float32(raw)
	}
	t.Policy(policy, 1)
	t.WDL(f.WDL[3*row : 3*row+3])
	f.Best[row], f.Proved[row] = int32(t.Best()), 2
	if r := t.Result(); r != game.Ongoing {
		f.Proved[row] = int8(r.Value())
	}
	if f.Tree == nil {
		return nil
	}
	return f.arrays(b, most).Write(t, row, most)
}

// over fills the row of a game that is over.
func (f Found) over(b *game.Board, row int, r game.Result) {
	n := b.Actions()
	clear(f.Visits[row*n : (row+1)*n])
	clear(f.Q[row*n : (row+1)*n])
	clear(f.Policy[row*n : (row+1)*n])
	clear(f.Prior[row*n : (row+1)*n])
	f.Raw[row] = float32(math.NaN())
	wdl := r.WDL()
	copy(f.WDL[3*row:], wdl[:])
	f.Best[row], f.Proved[row] = -1, int8(r.Value())
}
