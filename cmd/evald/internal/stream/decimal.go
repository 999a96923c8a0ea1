package stream

import (
	"encoding/binary"
	"math"
	"strconv"
)

// appendFloat appends the shortest decimal that reads back as the same float32, as
//
//	strconv.AppendFloat(b, float64(v), 'g', -1, 32)
//
// does, but in half the time for most numbers from 2^-13 to 1. For the others it calls that function.
func appendFloat(b []byte, v float32) []byte {
	bits := math.Float32bits(v)
	switch bits { // the most frequent numbers in decided positions
	case 0:
		return append(b, '0')
	case 0x3f800000:
		return append(b, '1')
	}
	if exponent := bits >> 23; exponent >= 127-13 && exponent < 127 && bits&(1<<23-1) != 0 {
		// v is m/2^s. The decimals that read back as v lie between (2m-1)/2^(s+1) and (2m+1)/2^(s+1).
		if d, digits, ok := shortest(uint64(bits&(1<<23-1)|1<<23), 127+23-exponent); ok {
			for b = append(b, "0."...); digits > 8; digits-- {
				first := d / powersOf10[digits-1]
				b, d = append(b, '0'+byte(first)), d-first*powersOf10[digits-1]
			}
			b = binary.LittleEndian.AppendUint64(b, eightDigits(d*powersOf10[8-digits]))
			b = b[:len(b)-8+digits]
			return b
		}
	}
	return strconv.AppendFloat(b, float64(v), 'g', -1, 32)
}

var powersOf10 = [...]uint64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11}

// eightDigits returns the decimal digits of d < 10^8 as bytes of ASCII, the first digit in the lowest byte. Each step splits all numbers in
// two: eight digits into four, four into two, two into one.
func eightDigits(d uint64) uint64 {
	d = d/10000 | d%10000<<32
	hundreds := d * 5243 >> 19 & 0x7f_0000_007f
	d = hundreds | (d-100*hundreds)<<16
	tens := d * 103 >> 10 & 0x0f_000f_000f_000f
	return (tens | (d-10*tens)<<8) + 0x3030_3030_3030_3030
}

// shortest returns the d with the fewest digits for which d/10^digits reads back as m/2^s and, among several, the nearest one. m is at least
// 2^23 and below 2^24, s is 24 to 36. ok is false if two are equally near.
func shortest(m uint64, s uint32) (d uint64, digits int, ok bool) {
	// try sets d to the nearest decimal of n digits, and reports whether it reads back. No decimal lies exactly on the border between two
	// floats: no power of 10 here has s+1 factors of 2, and 2m-1 and 2m+1 are odd.
	try := func(n int) bool {
		scaled := 2 * m * powersOf10[n] // in units of 2^-(s+1), as the variables below
		nearest := (scaled + 1<<s) >> (s + 1)
		distance := max(scaled, nearest<<(s+1)) - min(scaled, nearest<<(s+1))
		if distance >= powersOf10[n] {
			return false
		}
		d, digits, ok = nearest, n, distance != 1<<s
		return true
	}
	const most = 7 // most numbers need this number of digits, or one more
	n := most
	for ; n < len(powersOf10) && !try(n); n++ {
	}
	if n == most {
		for n--; n > 0 && try(n); n-- {
		}
	}
	return d, digits, ok
}
