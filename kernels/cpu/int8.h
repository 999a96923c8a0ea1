// The operation with inputs and weights of 8 bits (int8.go), for vectors of LANES floats. It includes direct.h and sparse.h,
// which list the macros.

#define FIRST(c, o) ((VEC){0})
#define LAST(c, o, sum) LAST_INT8(c, o, sum)

#include "direct.h"

#include "sparse.h"

// excess adds the products of an input's excess beyond its range to `vectors` vectors of sums around a cell. y is the sums of the
// cell, and w the weights of the input for tap 0.
INLINE NAME(excess)(const int vectors, const int halves, const quantize *q, unsigned near, const float *x, const float *w, float *y) {
	// If the output is at tap t from the input, the input is at tap 8 - t from the output.
	for (; near; near &= near - 1) {
		int64_t t = __builtin_ctz(near);
		float *at = y + q->taps[t] * q->width;
		VEC sum[STRIP / LANES];
		UNROLLED for (int v = 0; v < vectors; v++) sum[v] = LOAD(at + v * LANES);
		NAME(product)(vectors, halves, sum, x, w + (8 - t) * q->row);
		UNROLLED for (int v = 0; v < vectors; v++) STORE(at + v * LANES, sum[v]);
	}
}

// beyond adds the products of the excess of cell m's inputs to the sums. above has a bit for each of LANES inputs from i on, set
// if it has any excess.
TARGET static __attribute__((noinline)) void NAME(beyond)(const quantize *q, int64_t m, int64_t i, unsigned above) {
	const int64_t first = q->cells[m] * q->width;
	const unsigned near = q->near[m % q->near_count];
	for (; above; above &= above - 1) {
		int64_t input = i + __builtin_ctz(above), o = 0;
		const float over = q->src[first + input] - q->ranges[input], *w = q->weights + input * 9 * q->row;
		float *y = q->sums + first;
#ifdef LOWER
		for (; o < q->full; o += STRIP) NAME(excess)(STRIP / LANES, 1, q, near, &over, w + o / 2, y + o);
#else
		for (; o + STRIP <= q->width; o += STRIP) NAME(excess)(STRIP / LANES, 0, q, near, &over, w + o, y + o);
#endif
		for (; o < q->width; o += LANES) NAME(excess)(1, 0, q, near, &over, w + o - q->full / 2, y + o);
	}
}

TARGET void NAME(quantize)(quantize q) {
	for (int64_t m = 0; m < q.cell_count; m++) {
		float *y = q.sums + q.cells[m] * q.width;
		for (int64_t o = 0; o < q.width; o += LANES) STORE(y + o, ((VEC){0}));
	}
	for (int64_t m = 0; m < q.cell_count; m++) {
		const float *x = q.src + q.cells[m] * q.width, *each = q.each, *ranges = q.ranges;
		uint8_t *y = q.dst + q.cells[m] * 4 * q.words;
		for (int64_t i = 0; i < q.width; i += LANES) {
			VEC v = LOAD(x + i);
			unsigned above = ABOVE(v, LOAD(ranges + i));
			STORE_UINT8(y + i, v * LOAD(each + i));
			if (above) NAME(beyond)(&q, m, i, above);
		}
	}
}
