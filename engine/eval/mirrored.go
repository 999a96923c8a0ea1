package eval

import (
	"context"
	"sync"
)

// Mirrored is a backend that asks another one for each position and for its mirror image, and answers their mean. A network that is
// not symmetric errs differently on the two, and their mean errs less. Mirrored positions get mirrored answers, bit for
// bit. It costs twice the evaluations.
type Mirrored struct {
	of    Backend
	twice sync.Pool // *Batch
}

// NewMirrored is the Mirrored of a backend.
func NewMirrored(of Backend) *Mirrored { return &Mirrored{of: of} }

// Attributes are those of the other backend, which gets twice the rows.
func (m *Mirrored) Attributes() Attributes {
	a := m.of.Attributes()
	a.Rows = (a.Rows + 1) / 2
	return a
}

// Compute asks once, with the mirror images behind the positions. If the two answers of a row have different sources, the
// row takes the one that is not a network's.
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
