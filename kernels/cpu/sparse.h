// A convolution of inputs that are mostly zero (sparse.go), for vectors of LANES floats. It is included after direct.h, which
// lists the macros. LOWER is defined if weights are two in a word (halves in sparse.go): it extracts those in a vector's lower
// halves. The words themselves serve as the others (twoWeights in words.go).

// STRIP is the number of outputs whose sums stay in registers; GROUP is the number of inputs whose mask does.
#define STRIP 64
#define GROUP 64

// SETS is the number of independent sums per output, so that a product need not wait for the one before it.
#define SETS (LANES == 16 ? 2 : 1)

typedef int32_t NAME(integers) __attribute__((vector_size(sizeof(VEC)), aligned(4), may_alias));

// mask has a bit for each of up to GROUP inputs from x on, set if it is not zero.
TARGET static inline __attribute__((always_inline)) uint64_t NAME(mask)(const float *x, int64_t inputs) {
	uint64_t mask = 0;
	for (int64_t at = 0; at < inputs && at < GROUP; at += LANES) mask |= (uint64_t)NONZERO(LOAD(x + at)) << at;
	return mask;
}

// list writes the non-zero inputs and their places, cell after cell, and returns their number; from few on, it stops counting.
// The place of input i in a column is (9*i + column) * row. The index of its weights for a tap is (9*i + tap) * row. Both grow by
// row from one column to the next, so one offset leads from places to weights for all inputs in a row of three cells.
TARGET static __attribute__((noinline)) int64_t NAME(list)(const sparse *s) {
	int64_t n = 0;
	const int64_t row = s->row, width = s->width;
	for (int64_t m = 0, column = 0; m < s->cell_count; m++, column = column + 1 < s->columns ? column + 1 : 0) {
		const float *x = s->src + s->cells[m] * width;
		s->starts[m] = n;
		for (int64_t at = 0; at < width; at += GROUP) {
			for (uint64_t mask = NAME(mask)(x + at, width - at); mask; mask &= mask - 1, n++) {
				int64_t input = at + __builtin_ctzll(mask);
				s->values[n] = x[input];
				s->places[n] = (9 * input + column) * row;
			}
		}
		if (n >= s->few) return n;
	}
	s->starts[s->cell_count] = n;
	return n;
}

// around copies the listed inputs around cell m, and the indices of their weights, and returns their number. It writes up to
// LANES more.
TARGET static __attribute__((noinline)) int64_t NAME(around)(const sparse *s, int64_t m, int64_t column) {
	int64_t n = 0;
	const int32_t *spans = s->spans + 6 * m;
	for (int64_t r = 0; r < 3; r++) {
		int64_t from = s->starts[spans[2 * r]], to = s->starts[spans[2 * r + 1]];
		int32_t distance = (3 * r + 1 - column) * s->row;
		float *x = s->around + n;
		int32_t *at = s->at + n;
		n += to - from;
		for (const float *end = s->values + to, *v = s->values + from; v < end; v += LANES, x += LANES, at += LANES) {
			STORE(x, LOAD(v));
			*(NAME(integers) *)at = *(const NAME(integers) *)(s->places + (v - s->values)) + distance;
		}
	}
	return n;
}

// product adds the products of an input with `vectors` vectors of weights to sums. If halves is true, weights are two in a word.
INLINE NAME(product)(const int vectors, const int halves, VEC *sum, const float *x, const float *w) {
	__auto_type a = SPREAD(x);
#ifdef LOWER
	if (halves) {
		UNROLLED for (int v = 0; v < vectors; v += 2) {
			VEC both = LOAD(w + v / 2 * LANES);
			__asm__("" : "+" REGISTER(both)); // otherwise gcc loads it twice
			sum[v] = FMA(sum[v], a, LOWER(both));
			sum[v + 1] = FMA(sum[v + 1], a, both);
		}
		return;
	}
#endif
	if (vectors > 8) __asm__("" : "+r"(w)); // otherwise gcc computes an address for each vector
	UNROLLED for (int v = 0; v < vectors; v++) sum[v] = FMA(sum[v], a, LOAD(w + v * LANES));
}

// strip computes `vectors` vectors of outputs of a cell, whose inputs are in s->around. bias, y and pairs begin with these
// outputs; w is their first weights.
INLINE NAME(strip)(const int vectors, const int halves, const sparse *s, int64_t count, const float *bias, const float *w, float *y, uint16_t *pairs) {
	const float *x = s->around;
	const int32_t *at = s->at;
	VEC sum[SETS][STRIP / LANES];
	UNROLLED for (int v = 0; v < vectors; v++) {
		sum[0][v] = LOAD(bias + v * LANES);
		if (s->add) sum[0][v] = ADD(LOAD(y + v * LANES), sum[0][v]);
		if (SETS == 2) sum[SETS - 1][v] = (VEC){0};
	}
	int64_t k = 0;
	for (; k + SETS <= count; k += SETS) {
		UNROLLED for (int set = 0; set < SETS; set++) NAME(product)(vectors, halves, sum[set], x + k + set, w + at[k + set]);
	}
	if (k < count) NAME(product)(vectors, halves, sum[0], x + k, w + at[k]);
	UNROLLED for (int v = 0; v < vectors; v++) {
		VEC all = RELU(SETS == 2 ? ADD(sum[0][v], sum[SETS - 1][v]) : sum[0][v]);
		STORE(y + v * LANES, all);
		if (pairs) STORE_PAIRS(pairs + v * LANES, all);
	}
}

#if LANES == 16
#include "rows.h"
#endif

TARGET void NAME(sparse)(sparse s) {
	for (int64_t i = 0; i < s.positions; i++, s.src += s.padded * s.width, s.dst += s.padded * s.width) {
#if LANES == 16
		if (NAME(byRows)(&s)) {
			if ((s.nonzeros[i] = NAME(columns)(&s)) < s.few) NAME(rows)(&s, s.pairs ? (uint16_t *)s.pairs + i * s.padded * s.width : 0);
			continue;
		}
#endif
		if ((s.nonzeros[i] = NAME(list)(&s)) >= s.few) continue;
		for (int64_t m = 0, column = 0; m < s.cell_count; m++, column = column + 1 < s.columns ? column + 1 : 0) {
			int64_t count = NAME(around)(&s, m, column), o = 0, first = s.cells[m] * s.width;
			float *y = s.dst + first;
			uint16_t *pairs = s.pairs ? (uint16_t *)s.pairs + i * s.padded * s.width + first : 0;
#define OUTPUTS(w) s.bias + o, s.weights + (w), y + o, pairs ? pairs + o : 0
#ifdef LOWER
			for (; o < s.full; o += STRIP) NAME(strip)(STRIP / LANES, 1, &s, count, OUTPUTS(o / 2));
#else
			for (; o + STRIP <= s.width; o += STRIP) NAME(strip)(STRIP / LANES, 0, &s, count, OUTPUTS(o));
#endif
			for (; o < s.width; o += LANES) NAME(strip)(1, 0, &s, count, OUTPUTS(o - s.full / 2));
		}
	}
}
