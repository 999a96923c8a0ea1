// Package evaltest is the conformance suite that every Backend passes behind an Evaluator, and a stub backend for tests.
package evaltest

import (
	"context"
	"errors"
	"math"
	"reflect"
	"slices"
	"sync"
	"testing"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

// Config configures Run.
type Config struct {
	New    func(t testing.TB) *eval.Evaluator // see Raw
	Boards []*game.Board                      // nil: gametest.Boards
	Rows   int                                // rows of a batch; 0: 67, a prime that fills no vector evenly

	// Mirror means that a mirrored position must get the mirrored answer, up to MirrorTolerance.
	Mirror          bool
	MirrorTolerance float64

	// Sources are the allowed sources of unfinished games.
	Sources []eval.Source
}

// Raw returns an Evaluator that answers finished games by the rules, and all others with the backend's own answers.
func Raw(b eval.Backend) *eval.Evaluator { return eval.New(b, eval.Options{OwnRules: true}) }

// Run tests the contract of eval.Evaluator and of the Backend behind it.
func Run(t *testing.T, c Config) {
	if c.Boards == nil {
		c.Boards = gametest.Boards()
	}
	if c.Rows == 0 {
		c.Rows = 67
	}
	e := c.New(t)
	for _, board := range c.Boards {
		t.Run(board.Rules().String(), func(t *testing.T) {
			s := suite{Config: c, e: e, board: board, positions: positions(board, c.Rows)}
			s.whole = s.evaluate(t, s.positions)
			t.Run("answers", s.answers)
			t.Run("concurrent", s.concurrent)
			if gametest.Race {
				return // one caller asks in the others, and the run without the race detector tests the same
			}
			if e.Backend().Attributes().Invariant {
				t.Run("batch independence", s.independence)
			}
			t.Run("guard words", s.guards)
			if c.Mirror {
				t.Run("mirror", s.mirror)
			}
		})
	}
	t.Run("empty batch", func(t *testing.T) {
		if err := e.Evaluate(t.Context(), eval.NewBatch(c.Boards[0], 0)); err != nil {
			t.Errorf("empty batch: %v", err)
		}
	})
	t.Run("cancelled", func(t *testing.T) { cancelled(t, e.Backend(), c.Boards[0]) })
}

type suite struct {
	Config
	e         *eval.Evaluator
	board     *game.Board
	positions []game.Position
	whole     *eval.Batch // answers of all positions in one batch
}

// positions are random ones, the empty board and at least one finished game.
func positions(b *game.Board, n int) []game.Position {
	r := gametest.Rand(uint64(n))
	ps := gametest.Positions(r, b, n, true)
	ps[0] = game.Position{}
	ps[n/2] = gametest.Position(r, b, b.Cells(), false)
	return ps
}

func (s *suite) evaluate(t testing.TB, ps []game.Position) *eval.Batch {
	t.Helper()
	b := eval.NewBatch(s.board, len(ps))
	copy(b.Pos, ps)
	spoil(b)
	if err := s.e.Evaluate(t.Context(), b); err != nil {
		t.Fatalf("%v: %v", s.board.Rules(), err)
	}
	if !slices.Equal(b.Pos, ps) {
		t.Fatalf("%v: Evaluate changed the positions", s.board.Rules())
	}
	return b
}

// spoil fills the answers with impossible values.
func spoil(b *eval.Batch) {
	fill(b, float32(math.NaN()), "nobody")
}

func fill(b *eval.Batch, x float32, s eval.Source) {
	for i := range b.WDL {
		b.WDL[i] = x
	}
	for i := range b.Policy {
		b.Policy[i] = x
	}
	for i := range b.Source {
		b.Source[i] = s
	}
}

func sum(row []float32) (s float64, inRange bool) {
	inRange = true
	for _, x := range row {
		s += float64(x)
		inRange = inRange && x >= 0 && x <= 1
	}
	return s, inRange
}

// answers checks the rows: probabilities sum to one, illegal moves have none, the source is allowed, and the rules answer finished games.
func (s *suite) answers(t *testing.T) {
	for i, p := range s.positions {
		wdl, policy := s.whole.WDLRow(i), s.whole.PolicyRow(i)
		if total, ok := sum(wdl); !ok || math.Abs(total-1) > 1e-5 {
			t.Errorf("row %d: WDL %v sums to %v", i, wdl, total)
		}
		total, ok := sum(policy)
		want := 1.0
		result := s.board.Result(p)
		if result != game.Ongoing {
			want = 0
		}
		if !ok || math.Abs(total-want) > 1e-5 {
			t.Errorf("row %d (%v): policy %v sums to %v", i, result, policy, total)
		}
		for a, x := range policy {
			if x != 0 && !s.board.CanPlay(p, a) {
				t.Errorf("row %d: illegal move %d has probability %v", i, a, x)
			}
		}
		if result == game.Ongoing {
			if !slices.Contains(s.Sources, s.whole.Source[i]) {
				t.Errorf("row %d: source %v, want one of %v", i, s.whole.Source[i], s.Sources)
			}
			continue
		}
		exact := result.WDL()
		if [3]float32(wdl) != exact || s.whole.Source[i] != eval.Terminal {
			t.Errorf("row %d (%v): WDL %v by %v, want %v by the rules", i, result, wdl, s.whole.Source[i], exact)
		}
	}
}

// same fails unless row j of got equals row i of the whole batch's answers, bit for bit. Sources may differ because of a cache.
func (s *suite) same(t testing.TB, what string, i int, got *eval.Batch, j int) {
	t.Helper()
	if !slices.Equal(got.WDLRow(j), s.whole.WDLRow(i)) || !slices.Equal(got.PolicyRow(j), s.whole.PolicyRow(i)) {
		t.Errorf("%s: row %d is %v %v, in one batch %v %v", what, i,
			got.WDLRow(j), got.PolicyRow(j), s.whole.WDLRow(i), s.whole.PolicyRow(i))
	}
}

// independence checks that each row gets the same answer, bit for bit, alone, in ragged parts and in another order.
func (s *suite) independence(t *testing.T) {
	for i := range min(len(s.positions), 8) {
		s.same(t, "alone", i, s.evaluate(t, s.positions[i:i+1]), 0)
	}
	for _, cut := range []int{1, 3, 16, 17} {
		cut = min(cut, len(s.positions))
		head, tail := s.evaluate(t, s.positions[:cut]), s.evaluate(t, s.positions[cut:])
		for i := range s.positions {
			if i < cut {
				s.same(t, "cut", i, head, i)
			} else {
				s.same(t, "cut", i, tail, i-cut)
			}
		}
	}
	order := gametest.Rand(9).Perm(len(s.positions))
	shuffled := make([]game.Position, len(order))
	for j, i := range order {
		shuffled[j] = s.positions[i]
	}
	got := s.evaluate(t, shuffled)
	for j, i := range order {
		s.same(t, "shuffled", i, got, j)
	}
}

// guards checks that nothing is written before or after the batch's own memory.
func (s *suite) guards(t *testing.T) {
	const pad = 64
	n := len(s.positions)
	big, guard := eval.NewBatch(s.board, n+2*pad), eval.NewBatch(s.board, pad)
	fill(big, 7, "guard")
	fill(guard, 7, "guard")
	copy(big.Pos[pad:], s.positions)
	b := big.Slice(pad, pad+n)
	if err := s.e.Evaluate(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		s.same(t, "guarded", i, &b, i)
	}
	for _, i := range []int{0, pad + n} {
		if got := big.Slice(i, i+pad); !reflect.DeepEqual(&got, guard) {
			t.Errorf("rows %d to %d, outside the batch, were written", i-pad, i)
		}
	}
}

// concurrent checks that many concurrent callers get the same answers as one.
func (s *suite) concurrent(t *testing.T) {
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for range 3 {
				b := eval.NewBatch(s.board, len(s.positions)-g)
				copy(b.Pos, s.positions[g:])
				if err := s.e.Evaluate(t.Context(), b); err != nil {
					t.Error(err)
					return
				}
				for j := range b.Pos {
					s.same(t, "concurrent", g+j, b, j)
				}
			}
		})
	}
	wg.Wait()
}

func (s *suite) mirror(t *testing.T) {
	mirrored := make([]game.Position, len(s.positions))
	for i, p := range s.positions {
		mirrored[i] = s.board.Mirror(p)
	}
	got := s.evaluate(t, mirrored)
	for i := range mirrored {
		for k, x := range got.WDLRow(i) {
			s.near(t, i, x, s.whole.WDLRow(i)[k])
		}
		for a, x := range got.PolicyRow(i) {
			s.near(t, i, x, s.whole.PolicyRow(i)[s.board.MirrorAction(a)])
		}
	}
}

func (s *suite) near(t *testing.T, row int, got, want float32) {
	t.Helper()
	if math.Abs(float64(got-want)) > s.MirrorTolerance {
		t.Errorf("row %d mirrored: %v, want %v", row, got, want)
	}
}

func cancelled(t *testing.T, b eval.Backend, board *game.Board) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Compute(ctx, eval.NewBatch(board, 5)); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled context: error %v, want one that wraps context.Canceled", err)
	}
}
