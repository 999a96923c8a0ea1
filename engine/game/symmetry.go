package game

// Symmetries is the number of symmetries of the board, including the identity: 2 with gravity (the other is Mirror), 4 without, 8 on square
// boards without.
func (b *Board) Symmetries() int {
	switch {
	case b.rules.Gravity:
		return 2
	case b.rules.Rows != b.rules.Columns:
		return 4
	default:
		return 8
	}
}

// Image returns the position under symmetry s, from 0 (the position itself) to Symmetries()-1. If bit 2 of s is set, columns and rows are
// swapped; then, if bit 1 is set, the rows are reversed; then, if bit 0 is set, the columns are reversed. So Image(p, 1) is Mirror(p).
func (b *Board) Image(p Position, s int) Position {
	if s <= 1 {
		if s == 1 {
			return b.Mirror(p)
		}
		return p
	}
	var q Position
	for rest := p.All; !rest.IsZero(); rest = rest.AndNot(rest.LowBit()) {
		i := rest.First()
		to := bit(b.imageIndex(i, s))
		q.All = q.All.Or(to)
		if p.Own.Has(i) {
			q.Own = q.Own.Or(to)
		}
	}
	return q
}

// ImageAction is the action on the image under symmetry s that corresponds to a.
func (b *Board) ImageAction(a, s int) int {
	if b.rules.Gravity {
		if s == 1 {
			return b.MirrorAction(a)
		}
		return a
	}
	return b.Flat(b.imageIndex(b.FlatIndex(a), s))
}

func (b *Board) imageIndex(i, s int) int {
	column, row := b.ColumnRow(i)
	if s&4 != 0 {
		column, row = row, column
	}
	if s&2 != 0 {
		row = b.rules.Rows - 1 - row
	}
	if s&1 != 0 {
		column = b.rules.Columns - 1 - column
	}
	return b.Index(column, row)
}
