package eval

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Stage is one backend of a Fallback.
type Stage struct {
	Name string // in error messages: "gpu", "cpu", "bitsquares"
	Backend
}

// Fallback is a backend that asks its stages in order until one answers the batch. An answer that is not finite is a failure
// of its row alone: if a stage's error is ErrNotFinite, the stage is asked again about the halves of the batch, down to
// single rows. So a row's source does not depend on the other rows.
type Fallback []Stage

// Attributes are the first stage's. The answers are invariant if those of all stages are.
func (f Fallback) Attributes() Attributes {
	a := f[0].Attributes()
	for _, stage := range f[1:] {
		a.Invariant = a.Invariant && stage.Attributes().Invariant
	}
	return a
}

// Compute returns the errors of all stages if none could answer. If ctx ends, no other stage is asked.
func (f Fallback) Compute(ctx context.Context, b *Batch) error { return f.from(ctx, b, nil) }

// from asks the stages in turn; errs are the errors of those before them.
func (f Fallback) from(ctx context.Context, b *Batch, errs []error) error {
	for i, stage := range f {
		err := stage.Compute(ctx, b)
		if err == nil {
			err = b.Finite()
		}
		if err == nil || ctx.Err() != nil {
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

// ErrNotFinite marks an answer with a NaN or an infinity.
var ErrNotFinite = errors.New("answer is not finite")
