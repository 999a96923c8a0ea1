// Package vector contains the C headers that kernels/cpu and kernels/cpu/conv share. It has no Go code.
//
// There is one header for each set of instructions, avx2_amd64.h, avx512_amd64.h and neon_arm64.h. Each defines the same
// macros:
//
//	VEC, LANES           the vector type and its number of floats; C operators work on it in gcc and clang
//	REGISTER             the constraint of an asm operand in a vector register
//	LOAD(p), STORE(p, v) from and to memory at any address
//	SPREAD(p)            the word at p as a factor for a whole vector, in the form that FMA takes
//	FMA(sum, a, b)       sum + a*b, rounded once. a is made by SPREAD
//	FMA_EACH(sum, a, b)  the same for vectors a and b
//	ADD(a, b)            a + b
//	RELU(v)              the larger of v and 0; NaN stays
//	NONZERO(v)           a mask whose bit i is set if lane i of v is not zero; NaN is not zero
//	ABOVE(v, w)          a mask whose bit i is set if lane i of v is not at most that of w; NaN is above all
//
//	FROM_INT32(v)        int32 as float
//	STORE_UINT8(p, v)    each lane, none negative, rounded to the nearest of 0 to 255, ties to even, at p, a byte each; NaN is 255
//
// Those of amd64 also have, for processors with VNNI and words of four bytes or two bfloat16,
//
//	DOT_INT8(sum, a, b)  sum of int32 plus the four products of each word's unsigned bytes in a with signed ones in b
//	LOWER_HALVES(v)      the bfloat16 in the lower halves of words
//
// avx512_amd64.h also has DOT_BF16 and STORE_BF16 for processors with AVX512-BF16, and COMPRESS(mask, v), the lanes in a mask side by
// side, with COUNTING, the numbers from 0 to 15.
// neon_arm64.h has MMLA_BF16, STORE_BF16, PAIR, LOWS and HIGHS, for processors with FEAT_BF16, and MMLA_INT8 for those with FEAT_I8MM.
//
// microkernel.h is the loop in which all kernels spend most of their time, the product of two matrices into a tile of sums in
// registers. matrices.h is the same loop for instructions that multiply small matrices. A C file includes the header of its
// instructions and then the templates, which name their functions after the path.
//
// # Decisions
//
// go build does not notice changes of files outside a package's folder. So this package embeds the headers, and the kernels' packages
// import it: after a change of a header, go build compiles them again. The linker omits the headers' texts from programs.
package vector

import "embed"

// Headers are the texts of the headers.
//
//go:embed *.h
var Headers embed.FS
