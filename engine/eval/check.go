package eval

import (
	"context"
	"sync"
)

// Difference is how far two evaluators are apart on one batch.
type Difference struct {
	Rows   int
	WDL    float32 // largest absolute difference of a probability of win, draw or loss
	Policy float32 // largest absolute difference of a move's probability
	Row    int     // a row where the larger of the two was seen
	Batch  *Batch  // the primary's answers; not to be kept
	Err    error   // why there is no comparison: the reference failed
}

// Check answers with the primary evaluator, asks the reference too, and reports how far they are apart.
type Check struct {
	primary, reference Evaluator
	report             func(Difference)
	second             sync.Pool // *Batch
}

// NewCheck reports each batch to report, which may be called concurrently. The reference's failure is reported, and
// leaves the primary's answer as it is.
func NewCheck(primary, reference Evaluator, report func(Difference)) *Check {
	c := &Check{primary: primary, reference: reference, report: report}
	c.second.New = func() any { return new(Batch) }
	return c
}

// Evaluate returns the primary's answers and error.
func (c *Check) Evaluate(ctx context.Context, b *Batch) error {
	if err := c.primary.Evaluate(ctx, b); err != nil {
		return err
	}
	ref := c.second.Get().(*Batch)
	defer c.second.Put(ref)
	ref.Reset(b.Board, len(b.Pos))
	copy(ref.Pos, b.Pos)
	if err := c.reference.Evaluate(ctx, ref); err != nil {
		c.report(Difference{Rows: len(b.Pos), Batch: b, Err: err})
		return nil
	}
	d := Difference{Rows: len(b.Pos), Batch: b}
	for i := range b.Pos {
		w, p := distance(b.WDLRow(i), ref.WDLRow(i)), distance(b.PolicyRow(i), ref.PolicyRow(i))
		if max(w, p) > max(d.WDL, d.Policy) {
			d.Row = i
		}
		d.WDL, d.Policy = max(d.WDL, w), max(d.Policy, p)
	}
	c.report(d)
	return nil
}

// distance is the largest absolute difference; NaN where either side is.
func distance(x, y []float32) float32 {
	var d float32
	for i := range x {
		d = max(d, x[i]-y[i], y[i]-x[i])
	}
	return d
}
