package game

import "math/bits"

// Bits is a set of cells: bit (Rows+1)*column + row, row 0 at the bottom. Bits 0..63 are in Lo, 64..127 in Hi.
//
// Boards of at most 64 bits never touch Hi. Board has a path of plain uint64 code for them.
type Bits struct{ Lo, Hi uint64 }

// bit returns the set that contains only cell i.
func bit(i int) Bits { return Bits{Lo: 1}.Shl(uint(i)) }

// Has reports whether bit i is set.
func (a Bits) Has(i int) bool { return a.Shr(uint(i)).Lo&1 != 0 }

// IsZero reports whether no bit is set.
func (a Bits) IsZero() bool { return a.Lo|a.Hi == 0 }

// OnesCount is the number of bits that are set.
func (a Bits) OnesCount() int { return bits.OnesCount64(a.Lo) + bits.OnesCount64(a.Hi) }

// First is the index of the lowest bit that is set; MaxBits if there is none.
func (a Bits) First() int {
	if a.Lo != 0 {
		return bits.TrailingZeros64(a.Lo)
	}
	return 64 + bits.TrailingZeros64(a.Hi)
}

// LowBit returns the set that contains only the lowest bit of a.
func (a Bits) LowBit() Bits {
	if a.Lo != 0 {
		return Bits{Lo: a.Lo & -a.Lo}
	}
	return Bits{Hi: a.Hi & -a.Hi}
}

// WithoutFirst is a without its lowest bit.
func (a Bits) WithoutFirst() Bits {
	if a.Lo != 0 {
		return Bits{a.Lo & (a.Lo - 1), a.Hi}
	}
	return Bits{0, a.Hi & (a.Hi - 1)}
}

// Below is the set of the bits below the lowest bit of a, which must have one.
func (a Bits) Below() Bits {
	if a.Lo != 0 {
		return Bits{Lo: a.Lo&-a.Lo - 1}
	}
	return Bits{^uint64(0), a.Hi&-a.Hi - 1}
}

// Nth returns the set that contains only the set bit number n of a, counted from the lowest, which is number 0. a must have more than n
// bits.
func (a Bits) Nth(n int) Bits {
	for range n {
		a = a.WithoutFirst()
	}
	return a.LowBit()
}

// And, Or, Xor and AndNot are the set operations a & b, a | b, a ^ b and a &^ b.
func (a Bits) And(b Bits) Bits    { return Bits{a.Lo & b.Lo, a.Hi & b.Hi} }
func (a Bits) Or(b Bits) Bits     { return Bits{a.Lo | b.Lo, a.Hi | b.Hi} }
func (a Bits) Xor(b Bits) Bits    { return Bits{a.Lo ^ b.Lo, a.Hi ^ b.Hi} }
func (a Bits) AndNot(b Bits) Bits { return Bits{a.Lo &^ b.Lo, a.Hi &^ b.Hi} }

// Shr is a >> n.
func (a Bits) Shr(n uint) Bits {
	if n >= 64 {
		return Bits{Lo: a.Hi >> (n - 64)}
	}
	return Bits{a.Lo>>n | a.Hi<<(64-n), a.Hi >> n}
}

// Shl is a << n.
func (a Bits) Shl(n uint) Bits {
	if n >= 64 {
		return Bits{Hi: a.Lo << (n - 64)}
	}
	return Bits{a.Lo << n, a.Hi<<n | a.Lo>>(64-n)}
}

// add is a + b as 128-bit numbers. It makes a stone fall: the sum of a column's stones and its bottom bit is the landing cell.
func (a Bits) add(b Bits) Bits {
	lo, carry := bits.Add64(a.Lo, b.Lo, 0)
	return Bits{lo, a.Hi + b.Hi + carry}
}

// less orders bitboards as 128-bit numbers.
func (a Bits) less(b Bits) bool { return a.Hi < b.Hi || a.Hi == b.Hi && a.Lo < b.Lo }
