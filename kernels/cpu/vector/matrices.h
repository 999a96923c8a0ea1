// The microkernel for instructions that multiply matrices. It replaces microkernel.h, with the same function and arguments, and
// is included in the same way. MAC(sum, a, b) is the product of 2 rows of 2 words and 2 columns of 2 words, added to 2x2 sums: a
// is made by PAIR from two rows, b is [column][2 words] as in memory, and sum is [row][column].
//
// Two vectors of 4 sums are therefore the left and the right half of two rows, not one row each. turn converts between the two
// forms. A step of 2 words needs 8 loads of b and 6 of a, three of which need an arithmetic instruction to join a vector, for 24
// instructions of 2x2x2 multiply-adds of words.

#include "inline.h"

#define ROWS 6
#define FACTOR(p) PAIR(p, p)

// turn converts between [row][vector], for storing, and the halves of two rows, for multiply. It is its own inverse.
INLINE NAME(turn)(const int rows, const int vectors, VEC sum[ROWS][PANEL]) {
	UNROLLED for (int m = 0; m < rows; m += 2) {
		UNROLLED for (int v = 0; v < vectors; v++) {
			VEC a = sum[m][v], b = sum[m + 1][v];
			sum[m][v] = LOWS(a, b);
			sum[m + 1][v] = HIGHS(a, b);
		}
	}
}

// multiply is that of microkernel.h for even rows and depth, with ak = 1, turned sums, and b as [2 words][column][2 words]. The
// empty asm keeps gcc from loading all vectors of b at once, for which there are no registers.
INLINE NAME(multiply)(const int rows, const int vectors, VEC sum[ROWS][PANEL], const float *const a[ROWS], int64_t at, int64_t ak,
	const float *b, int64_t bk, int64_t depth) {
	for (int64_t k = 0; k < depth; k += 2, at += 2 * ak, b += 2 * bk) {
		VEC x[ROWS / 2];
		UNROLLED for (int m = 0; m < rows; m += 2) {
			x[m / 2] = PAIR(a[m] + at, a[m + 1] + at);
			__asm__ volatile("" : "+" REGISTER(x[m / 2]));
		}
		UNROLLED for (int v = 0; v < vectors; v++) {
			VEC left = LOAD(b + 2 * v * LANES), right = LOAD(b + (2 * v + 1) * LANES);
			__asm__ volatile("" : "+" REGISTER(left), "+" REGISTER(right));
			UNROLLED for (int m = 0; m < rows; m += 2) {
				sum[m][v] = MAC(sum[m][v], x[m / 2], left);
				sum[m + 1][v] = MAC(sum[m + 1][v], x[m / 2], right);
			}
		}
	}
}
