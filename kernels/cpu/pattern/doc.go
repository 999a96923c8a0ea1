// Package pattern computes networks of pattern tables on the CPU with integers. Package nn/pattern defines the rows of the table,
// and reads and writes such networks.
//
// # Definition
//
// L lanes (Lanes), D = L - Outputs. All arithmetic is exact: Check makes sure that no sum overflows.
//
//	acc  [L] int16   bias + the position's rows of the table
//	a    [D/2]       clamp(acc[i], 0, 255) * clamp(acc[i+D/2], 0, 255) >> 9, which is 0..127
//	h1   [H1]        clamp((bias1 + weight1 a) >> 6, 0, 127)
//	h2   [H2]        clamp((bias2 + weight2 h1) >> 6, 0, 127)
//	out  [Outputs]   bias3 + weight3 h2 + 32 * acc[D+i], int32
//
// Weights are int8 and biases int32. The integers that represent 1 are 255 in the accumulator, 127 in a, h1 and h2, 64 in weight1
// and weight2, 32 in weight3, and Unit in out.
//
// # Paths
//
//	avx512vnni   C, AVX-512 with products of bytes
//	avx2         C
//	neon         C, arm64
//	go           plain Go, on every processor
//
// All give the same numbers. A path is used only after a self-test on the processor (Best).
//
// # Decisions
//
// The accumulator's two halves are multiplied, so that a network with one table can detect that two patterns coincide. With the same tables
// it is more accurate than without the product, and the first layer has half as many inputs.
package pattern

// Outputs is the number of results of a network, and also of the last lanes, which are added to the results.
const Outputs = 16

// Unit represents 1 in the results.
const Unit = 127 * 32
