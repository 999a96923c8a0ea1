package game

// Symmetries is the number of symmetries of the board, with the identity: 2 with gravity (Mirror), 4 without, 8 on square boards without.
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

// Image is the position under symmetry s, from 0 (the position itself) to Symmetries()-1. Bit 2 of s swaps columns and rows, then bit 1
// reverses the rows, then bit 0 the columns, so 1 is Mirror.
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

// imageIndex is the bit of cell i's image.
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
