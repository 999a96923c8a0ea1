// The product of two matrices into a tile of ROWS by up to PANEL vectors of sums, which stay in registers. The including file
// first includes the header of its instructions, and defines
//
//	NAME(x)        x with the path's name
//	TARGET         the attribute that allows the path's instructions
//	PANEL          the maximum number of vectors in a row of sums
//	MAC(sum, a, b) sum + a*b, or another product of a word of a and a vector of b. a is made by SPREAD
//
// A tile of 6x4 takes 24 of 32 registers for its sums, 6x2 takes 12 of 16. A word of each row then costs 4 (2) loads of b and
// 6 of a for 24 (12) multiply-adds, so that loads are never the bottleneck. Compilers keep the arrays in registers because
// every loop over them has a constant count.

#include "inline.h"

#define ROWS 6

// multiply adds to sum[m][v], for m < rows and v < vectors, the sum over k < depth of a[m][at + k*ak] * b[k*bk + v*LANES ..],
// in the order of k.
INLINE NAME(multiply)(const int rows, const int vectors, VEC sum[ROWS][PANEL], const float *const a[ROWS], int64_t at, int64_t ak,
	const float *b, int64_t bk, int64_t depth) {
	for (int64_t k = 0; k < depth; k++, at += ak, b += bk) {
		VEC panel[PANEL];
		UNROLLED for (int v = 0; v < vectors; v++) panel[v] = LOAD(b + v * LANES);
		UNROLLED for (int m = 0; m < rows; m++) {
			__auto_type x = SPREAD(a[m] + at);
			UNROLLED for (int v = 0; v < vectors; v++) sum[m][v] = MAC(sum[m][v], x, panel[v]);
		}
	}
}
