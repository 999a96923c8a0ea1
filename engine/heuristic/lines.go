package heuristic

import (
	"math/bits"

	"github.com/evald/evald/engine/game"
)

// Bit i of a mask of starts stands for the line that begins at cell i and continues in steps of the direction's shift. The stones in each
// line are counted for all lines at once, in bit-sliced form: the masks ones, twos and fours hold the binary digits of the 64 counts.

// starts4 are the lines of four, in steps of s, all of whose cells are in x.
func starts4(x uint64, s uint) uint64 {
	x &= x >> (s & 63)
	return x & (x >> (2 * s & 63))
}

// add4 counts, for each bit, the masks that contain it, as binary digits.
func add4(a, b, c, d uint64) (ones, twos, fours uint64) {
	ab, carryAB := a^b, a&b
	cd, carryCD := c^d, c&d
	return ab ^ cd, carryAB ^ carryCD | ab&cd, carryAB & carryCD
}

// stones4 counts, for each line of four, its cells in x.
func stones4(x uint64, s uint) (ones, twos, fours uint64) {
	return add4(x, x>>(s&63), x>>(2*s&63), x>>(3*s&63))
}

// lines4 counts the lines of four that only one side can still fill, and returns own's numbers minus other's: lines with one or three
// stones (odd), with two or three (many), with three, and with four (all).
func lines4(own, other, full uint64, shifts [4]uint) (odd, many, three, all int) {
	for _, s := range shifts {
		lines := starts4(full&^other, s)
		ones, twos, fours := stones4(own, s)
		ones &= lines
		odd += bits.OnesCount64(ones)
		many += bits.OnesCount64(lines & twos)
		three += bits.OnesCount64(ones & twos)
		won := lines & fours

		lines = starts4(full&^own, s)
		ones, twos, fours = stones4(other, s)
		ones &= lines
		odd -= bits.OnesCount64(ones)
		many -= bits.OnesCount64(lines & twos)
		three -= bits.OnesCount64(ones & twos)
		if won|lines&fours != 0 { // some line has four stones only if the game is over
			all += bits.OnesCount64(won) - bits.OnesCount64(lines&fours)
		}
	}
	return odd, many, three, all
}

// maxDigits is enough for counts of up to game.MaxBits stones in a line.
const maxDigits = 8

// digits are bit-sliced counts, one for each bit of a 128-bit board.
type digits [maxDigits]game.Bits

// add adds one to the counts of the bits of x.
func (d *digits) add(x game.Bits) {
	for i := range d {
		if x.IsZero() {
			return
		}
		d[i], x = d[i].Xor(x), d[i].And(x)
	}
}

// equal returns the bits of within whose count is exactly n.
func (d *digits) equal(n int, within game.Bits) game.Bits {
	for i := range d {
		if n>>i&1 != 0 {
			within = within.And(d[i])
		} else {
			within = within.AndNot(d[i])
		}
	}
	return within
}

// starts are the lines of k, in steps of s, all of whose cells are in x.
func starts(x game.Bits, k int, s uint) game.Bits {
	lines := x
	for i := 1; i < k && !lines.IsZero(); i++ {
		lines = lines.And(x.Shr(uint(i) * s))
	}
	return lines
}

// stones counts, for each line of k, its cells in x.
func stones(x game.Bits, k int, s uint) (d digits) {
	for i := range k {
		d.add(x.Shr(uint(i) * s))
	}
	return d
}

// directions are the shifts of the board's lines. A line of one stone has no direction, so it is counted in only one.
func directions(b *game.Board) []uint {
	s := b.Shifts()
	if b.InARow() == 1 {
		return s[:1]
	}
	return s[:]
}

// eachCount calls f for every direction and every n from 1 to k for which there are lines inside open with n stones of own; lines is their
// number.
func eachCount(b *game.Board, own, open game.Bits, f func(n, lines int)) {
	k := b.InARow()
	for _, s := range directions(b) {
		lines := starts(open, k, s)
		if lines.IsZero() {
			continue
		}
		held := stones(own, k, s)
		for n := 1; n <= k; n++ {
			if count := held.equal(n, lines).OnesCount(); count > 0 {
				f(n, count)
			}
		}
	}
}

// fast reports whether the 64-bit functions for four in a row can be used. They mask shifts to 6 bits, so three steps must be less than 64.
func fast(b *game.Board) bool { return !b.Wide() && b.InARow() == 4 && 3*(b.Rows()+2) < 64 }
