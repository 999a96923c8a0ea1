// The operation of doc.go in its direct form, for vectors of LANES floats: panels of up to PANEL vectors of outputs, and in each
// panel tiles of ROWS cells. The including file first includes the header of its instructions (vector/doc.go), and defines
//
//	NAME(x), TARGET, MAC as for vector/microkernel.h
//	PANEL                the maximum number of vectors of outputs in a panel: 2 or 4
//	STORE_PAIRS(p, v)    v as bfloat16 at p, 2 bytes each; nothing if the path has no bfloat16
//	MATRICES             only if MAC is that of vector/matrices.h
//
// and, if the sums are not of float32,
//
//	FIRST(c, o)          the initial sums of the vector of outputs from o on; by default the bias
//	LAST(c, o, sum)      the outputs for their sums

#ifdef MATRICES
#include "vector/matrices.h"
#else
#include "vector/microkernel.h"
#define FACTOR(p) SPREAD(p)
#endif

#include "store.h"

#ifndef FIRST
#define FIRST(c, o) LOAD((c)->bias + (o))
#define LAST(c, o, sum) sum
#endif

// tile computes `count` cells, at most ROWS, starting with number `from`, and `vectors` vectors of outputs starting with `first`.
// w is the weights of their panel. If there are fewer than ROWS cells, the last is computed repeatedly and stored once. A tap
// that is off the board for all cells is skipped, since it would add zero.
INLINE NAME(tile)(const int vectors, const conv *c, int64_t from, int64_t count, const float *w, int64_t first) {
	const int32_t *cells = c->cells + from;
	unsigned near = c->near ? 0 : ~0u;
	for (int64_t m = 0; c->near && m < count; m++) near |= c->near[from + m];
	const float *x[ROWS];
	VEC sum[ROWS][PANEL];
	UNROLLED for (int m = 0; m < ROWS; m++) {
		x[m] = c->src + cells[m < count ? m : count - 1] * c->stride;
		UNROLLED for (int v = 0; v < vectors; v++) sum[m][v] = FIRST(c, first + v * LANES);
	}
#ifdef MATRICES
	NAME(turn)(ROWS, vectors, sum);
#endif
	for (int64_t t = 0; t < c->tap_count; t++, w += c->words * vectors * LANES) {
		if (!(near >> t & 1)) continue;
		NAME(multiply)(ROWS, vectors, sum, x, c->taps[t] * c->stride, 1, w, vectors * LANES, c->words);
	}
#ifdef MATRICES
	NAME(turn)(ROWS, vectors, sum);
#endif
	UNROLLED for (int m = 0; m < ROWS; m++) {
		if (m < count) {
			UNROLLED for (int v = 0; v < vectors; v++) NAME(store)(c, cells[m] * c->width + first + v * LANES, LAST(c, first + v * LANES, sum[m][v]));
		}
	}
}

TARGET static void NAME(panel1)(const conv *c, int64_t from, int64_t count, const float *w, int64_t first) {
	NAME(tile)(1, c, from, count, w, first);
}

TARGET static void NAME(panel2)(const conv *c, int64_t from, int64_t count, const float *w, int64_t first) {
	NAME(tile)(2, c, from, count, w, first);
}

#if PANEL == 4
TARGET static void NAME(panel4)(const conv *c, int64_t from, int64_t count, const float *w, int64_t first) {
	NAME(tile)(4, c, from, count, w, first);
}
#endif

// The next panel is the widest that fits; see kernel.panelWidth.
TARGET void NAME(conv)(conv c) {
	const float *w = c.weights;
	for (int64_t first = 0, vectors; first < c.width; first += vectors * LANES) {
		int64_t left = (c.width - first) / LANES;
		vectors = left >= 4 && PANEL == 4 ? 4 : left >= 2 ? 2 : 1;
		for (int64_t m = 0; m < c.cell_count; m += ROWS) {
			int64_t count = c.cell_count - m < ROWS ? c.cell_count - m : ROWS;
#if PANEL == 4
			if (vectors == 4) NAME(panel4)(&c, m, count, w, first);
			else
#endif
			if (vectors == 2) NAME(panel2)(&c, m, count, w, first);
			else NAME(panel1)(&c, m, count, w, first);
		}
		w += c.tap_count * c.words * vectors * LANES;
	}
}

// A tile's sums, which are independent of each other. The empty asm keeps the compiler from removing or combining them.
TARGET void NAME(peak)(int64_t n) {
	const float zero[LANES] = {0};
	VEC b = LOAD(zero), sum[ROWS][PANEL];
	__auto_type a = FACTOR(zero);
	UNROLLED for (int m = 0; m < ROWS; m++) {
		UNROLLED for (int v = 0; v < PANEL; v++) sum[m][v] = b;
	}
	for (; n > 0; n--) {
		UNROLLED for (int m = 0; m < ROWS; m++) {
			UNROLLED for (int v = 0; v < PANEL; v++) {
				sum[m][v] = MAC(sum[m][v], a, b);
				__asm__ volatile("" : "+" REGISTER(sum[m][v]));
			}
		}
	}
}
