// Package pattern is a second kind of network, which needs little arithmetic: a table of patterns and small dense layers. It supports one
// board, 7x6x4. Packages kernels/cpu/pattern and kernels/cuda compute it with integers, and give the same bits.
//
// # Rows of the table
//
// A position selects 33 rows of the table, one from each group. All patterns are for the side to move. A cell has two bits: 0 empty, 1 own
// stone, 2 other stone, 3 playable (the next stone of its column would land there). The lowest bits are those of the line's left end. So a
// line of n cells has 4^n patterns.
//
//	6 groups    rows of the board, from the bottom, of 7 cells
//	12 groups   diagonals of 4 to 6 cells, rising to the right and then falling, each from the highest left to the lowest right
//	7 groups    columns: own stones plus all stones as binary numbers, lowest cell first, 128 patterns
//	7 groups    threats of a column, above its stones: each empty cell has bit 0 if an own stone there wins, bit 1 if one of the
//	            other side does. With h stones there are 4^(6-h) patterns, after those with fewer stones
//	1 group     the number of stones, 0 to 42
//
// Threats contain information that lines lack: which cell a line needs, and how many stones must first fall below it. Playable cells show
// which gaps of a line can be filled now.
//
// # Results
//
//	out[0:3]    logits of win, draw, loss for the side to move, times Unit
//	out[3:10]   logits of the moves by column, times Unit; those of illegal moves are meaningless
//	out[10:16]  unused, 0
//
// # Files
//
// A safetensors file with metadata evald.kind = "pattern", evald.format = "1" or "2" and evald.config = {"lanes": L, "hidden":
// [H1, H2]}. evald.sha256 is the checksum of the file without that key, as Marshal writes it.
//
//	rows      [K]       I32   indices of the table's rows that are not all 0, ascending
//	table     [K,L]     I16   those rows; I8 in format 2, where a row is its factor times these numbers
//	factor    [K]       I16   only in format 2: 1 to 255
//	bias      [L]       I16
//	dense.0.weight [H1,(L-16)/2], dense.1.weight [H2,H1], dense.2.weight [16,H2]   I8
//	dense.0.bias [H1], dense.1.bias [H2], dense.2.bias [16]                        I32
//
// # Decisions
//
// The file contains integers, so that every machine computes exactly the network that was measured. Real contains the real numbers that
// they represent. LOG.md explains the choice of rows and reports the accuracy.
//
// Rows are bytes in files only. In memory the table is int16, so that no multiplication by the factor is needed. Training rounds rows to
// multiples of a byte (Real.Round), so that a network read from either format is the trained one.
package pattern
