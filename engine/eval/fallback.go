package eval

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
)

// Stage is one evaluator of a Fallback.
type Stage struct {
	Name string // in error messages and counters: "gpu", "cpu", "bitsquares"
	Evaluator
}

// Fallback asks its stages in order until one answers the batch. An answer that is not finite is a failure of its row
// alone: if a stage's error is ErrNotFinite, the stage is asked again about the halves of the batch, down to single rows. So
// a row's source does not depend on the other rows.
type Fallback struct {
	stages []Stage
	counts []stageCounts
}

type stageCounts struct{ answered, failed atomic.Uint64 }

// StageStats count batches and rows of one stage.
type StageStats struct {
	Name     string
	Answered uint64 // rows
	Failed   uint64 // batches
}

// NewFallback tries the stages in the order given. It panics without any.
func NewFallback(stages ...Stage) *Fallback {
	if len(stages) == 0 {
		panic("eval: a fallback needs a stage")
	}
	return &Fallback{stages: stages, counts: make([]stageCounts, len(stages))}
}

// Stats are the counts so far, a stage each.
func (f *Fallback) Stats() []StageStats {
	s := make([]StageStats, len(f.stages))
	for i := range s {
		s[i] = StageStats{f.stages[i].Name, f.counts[i].answered.Load(), f.counts[i].failed.Load()}
	}
	return s
}

// Evaluate returns the errors of all stages if none could answer. If ctx ends, no other stage is asked.
func (f *Fallback) Evaluate(ctx context.Context, b *Batch) error {
	if err := b.Ready(ctx); err != nil {
		return err
	}
	return f.from(ctx, b, 0, nil)
}

// from asks the stages from first on; errs are the errors of those before it.
func (f *Fallback) from(ctx context.Context, b *Batch, first int, errs []error) error {
	for i, stage := range f.stages[first:] {
		i += first
		err := stage.Evaluate(ctx, b)
		if err == nil {
			err = finiteAnswer(b)
		}
		if err == nil {
			f.counts[i].answered.Add(uint64(len(b.Pos)))
			return nil
		}
		if ctx.Err() != nil {
			return err
		}
		if n := len(b.Pos); n > 1 && errors.Is(err, ErrNotFinite) {
			left, right := b.Slice(0, n/2), b.Slice(n/2, n)
			if err := f.from(ctx, &left, i, errs); err != nil {
				return err
			}
			return f.from(ctx, &right, i, errs)
		}
		f.counts[i].failed.Add(1)
		errs = append(slices.Clip(errs), fmt.Errorf("%s: %w", stage.Name, err))
	}
	return errors.Join(errs...)
}

// ErrNotFinite marks an answer with a NaN or an infinity.
var ErrNotFinite = errors.New("answer is not finite")

func finiteAnswer(b *Batch) error {
	if row, ok := b.Finite(); !ok {
		return fmt.Errorf("%w: position %+v", ErrNotFinite, b.Pos[row])
	}
	return nil
}
