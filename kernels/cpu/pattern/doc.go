// Package pattern computes networks of pattern tables on the CPU in whole numbers. Package nn/pattern says what the rows of
// the table are, and reads and writes such networks.
//
// # Definition
//
// L lanes (Lanes), D = L - Outputs. All arithmetic is exact: no sum leaves its type, which Check makes sure of.
//
//	acc  [L] int16   bias + the rows of the table that the position has
//	a    [D/2]       clamp(acc[i], 0, 255) * clamp(acc[i+D/2], 0, 255) >> 9, which is 0..127
//	h1   [H1]        clamp((bias1 + weight1 a) >> 6, 0, 127)
//	h2   [H2]        clamp((bias2 + weight2 h1) >> 6, 0, 127)
//	out  [Outputs]   bias3 + weight3 h2 + 32 * acc[D+i], int32
//
// Weights are int8 and biases int32. In a network of real numbers 1 is 255 in the accumulator, 127 in a, h1 and h2, 64 in
// weight1 and weight2, 32 in weight3, and Unit in out.
//
// # Paths
//
//	avx512vnni   C, AVX-512 with products of bytes
//	avx2         C
//	neon         C, arm64
//	go           plain Go, on every processor
//
// All give the same numbers. A path is used after it has proved that on the processor at hand (Best).
//
// # Decisions
//
// The product of two halves of the accumulator is what lets a network of one table see that two patterns meet: with the same
// tables it is better than the accumulator itself, and halves the work of the first layer.
package pattern

// Outputs is the number of results of a network, and of lanes that are added to them.
const Outputs = 16

// Unit is 1 in the results.
const Unit = 127 * 32
