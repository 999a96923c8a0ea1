package eval

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/evald/evald/engine/fault"
	"github.com/evald/evald/engine/game"
)

// Stage is one backend of a Fallback.
type Stage struct {
	Name string // in error messages: "gpu", "cpu", "bitsquares"
	Backend
}

// Fallback is a backend that calls its stages in order until one answers the batch. An answer that is not finite is a failure of its row
// alone: if a stage returns ErrNotFinite, it is called again with halves of the batch, down to single rows. So a row's source does not
// depend on the other rows. After a panic it calls no further stage, whose answers would hide it.
type Fallback []Stage

// Attributes are those of the first stage, but answers are invariant only if those of all stages are.
func (f Fallback) Attributes() Attributes {
	a := f[0].Attributes()
	for _, stage := range f[1:] {
		a.Invariant = a.Invariant && stage.Attributes().Invariant
	}
	return a
}

// Compute returns the errors of all stages if every stage failed. If ctx ends, it calls no further stage.
func (f Fallback) Compute(ctx context.Context, b *Batch) error { return f.from(ctx, b, nil) }

// from calls the stages in turn; errs are the errors of earlier stages.
func (f Fallback) from(ctx context.Context, b *Batch, errs []error) error {
	for i, stage := range f {
		err := stage.Compute(ctx, b)
		if err == nil {
			err = b.Finite()
		}
		if err == nil || ctx.Err() != nil || fault.In(err) != nil {
			return err
		}
		if n := len(b.Pos); n > 1 && errors.Is(err, ErrNotFinite) {
			left, right := b.Slice(0, n/2), b.Slice(n/2, n)
			if err := f[i:].from(ctx, &left, errs); err != nil {
				return err
			}
			return f[i:].from(ctx, &right, errs)
		}
		errs = append(slices.Clip(errs), fmt.Errorf("%s: %w", stage.Name, err))
	}
	return errors.Join(errs...)
}

// ErrNotFinite means that an answer contains a NaN or an infinity.
var ErrNotFinite = errors.New("answer is not finite")

// notFinite is the error of Batch.NotFinite. It writes the position only if it is shown, because a
// Fallback drops most of these errors.
type notFinite struct {
	board    *game.Board
	position game.Position
	why      string
}

func (e *notFinite) Error() string {
	text := fmt.Sprintf("%v: position %s", ErrNotFinite, e.board.Text(e.position))
	if e.why != "" {
		text += ": " + e.why
	}
	return text
}

func (e *notFinite) Unwrap() error { return ErrNotFinite }

// Mirrored is a backend that evaluates each position and its mirror image with another backend, and answers with the mean. A network that
// is not symmetric errs differently on the two, so the mean errs less. Mirrored positions get mirrored answers, bit for bit. Mirrored
// doubles the number of evaluations.
type Mirrored struct {
	of    Backend
	twice *sync.Pool // *Batch; a pointer for the same reason as Cache.work
}

// NewMirrored wraps a backend.
func NewMirrored(of Backend) *Mirrored { return &Mirrored{of: of, twice: new(sync.Pool)} }

// Attributes are those of the wrapped backend, with half as many rows, because it gets two for each row.
func (m *Mirrored) Attributes() Attributes {
	a := m.of.Attributes()
	a.Rows = (a.Rows + 1) / 2
	return a
}

// Compute makes one call for the positions followed by their mirror images. If the two answers of a row have different sources, the row
// gets the one that is not a network.
func (m *Mirrored) Compute(ctx context.Context, b *Batch) error {
	twice, ok := m.twice.Get().(*Batch)
	if !ok {
		twice = new(Batch)
	}
	defer m.twice.Put(twice)
	n := len(b.Pos)
	twice.Reset(b.Board, 2*n)
	copy(twice.Pos, b.Pos)
	for i, p := range b.Pos {
		twice.Pos[n+i] = b.Board.Mirror(p)
	}
	if err := m.of.Compute(ctx, twice); err != nil {
		return err
	}
	for i := range b.Pos {
		wdl, mirrored := twice.WDLRow(i), twice.WDLRow(n+i)
		for k := range wdl {
			b.WDL[3*i+k] = (wdl[k] + mirrored[k]) / 2
		}
		policy, other := twice.PolicyRow(i), twice.PolicyRow(n+i)
		for a, p := range policy {
			b.PolicyRow(i)[a] = (p + other[b.Board.MirrorAction(a)]) / 2
		}
		if b.Source[i] = twice.Source[i]; b.Source[i].Network() {
			b.Source[i] = twice.Source[n+i]
		}
	}
	return nil
}
