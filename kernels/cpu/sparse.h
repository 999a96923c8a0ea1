// A convolution of inputs that are mostly zero (sparse.go), for vectors of LANES floats. It is included after direct.h, which
// lists the macros.

// STRIP is the number of outputs whose sums stay in registers, and GROUP the number of inputs whose mask does.
#define STRIP 64
#define GROUP 64
#define EACH_INPUT UNROLLED for (int i = 0; i < n; i++)
#define EACH_VECTOR UNROLLED for (int v = 0; v < vectors; v++)

// mask has a bit for each of up to GROUP inputs from x on, set if it is not zero.
TARGET static inline __attribute__((always_inline)) uint64_t NAME(mask)(const float *x, int64_t inputs) {
	uint64_t mask = 0;
	for (int64_t at = 0; at < inputs && at < GROUP; at += LANES) mask |= (uint64_t)NONZERO(LOAD(x + at)) << at;
	return mask;
}

// scatter adds the products of the first n inputs in the mask to `vectors` vectors of outputs of all cells around an input
// cell, and takes these inputs from the mask. x and y are the cell's inputs and outputs, w the weights of the first input
// for the first of these outputs.
INLINE NAME(scatter)(const int n, const int vectors, const sparse *s, unsigned near, uint64_t *mask, const float *x, const float *w, float *y) {
	const int64_t width = s->width;
	const int32_t *taps = s->taps;
	__typeof__(SPREAD(x)) a[4];
	const float *of[4]; // the weights of an input for the last tap
	EACH_INPUT {
		int64_t channel = __builtin_ctzll(*mask);
		*mask &= *mask - 1;
		a[i] = SPREAD(x + channel);
		of[i] = w + (9 * channel + 8) * width;
	}
	// If the output is at tap t from the input, the input is at tap 8 - t from the output.
	for (; near; near &= near - 1) {
		int64_t t = __builtin_ctz(near), back = t * width;
		float *at = y + taps[t] * width;
		VEC sum[STRIP / LANES];
		EACH_VECTOR sum[v] = LOAD(at + v * LANES);
		EACH_INPUT {
			const float *from = of[i] - back;
			if (vectors > 8) __asm__("" : "+r"(from)); // or gcc computes an address for each of so many vectors
			EACH_VECTOR sum[v] = FMA(sum[v], a[i], LOAD(from + v * LANES));
		}
		EACH_VECTOR STORE(at + v * LANES, sum[v]);
	}
}

INLINE NAME(strip)(const int vectors, const sparse *s, unsigned near, uint64_t mask, const float *x, const float *w, float *y) {
	int n = __builtin_popcountll(mask);
	for (; n >= 4; n -= 4) NAME(scatter)(4, vectors, s, near, &mask, x, w, y);
	switch (n) {
	case 1: NAME(scatter)(1, vectors, s, near, &mask, x, w, y); break;
	case 2: NAME(scatter)(2, vectors, s, near, &mask, x, w, y); break;
	case 3: NAME(scatter)(3, vectors, s, near, &mask, x, w, y);
	}
}

TARGET void NAME(sparse)(sparse s) {
	int32_t nonzeros = 0;
	for (int64_t m = 0; m < s.cell_count; m++) {
		const float *x = s.src + s.cells[m] * s.width;
		for (int64_t at = 0; at < s.width; at += GROUP) nonzeros += __builtin_popcountll(NAME(mask)(x + at, s.width - at));
	}
	*s.nonzeros = nonzeros;
	if (nonzeros >= s.few) return;
	for (int64_t m = 0; m < s.cell_count; m++) {
		float *y = s.dst + s.cells[m] * s.width;
		for (int64_t o = 0; o < s.width; o += LANES) STORE(y + o, s.add ? ADD(LOAD(y + o), LOAD(s.bias + o)) : LOAD(s.bias + o));
	}
	for (int64_t m = 0; m < s.cell_count; m++) {
		const float *x = s.src + s.cells[m] * s.width, *w = s.weights;
		float *y = s.dst + s.cells[m] * s.width;
		for (int64_t at = 0; at < s.width; at += GROUP, w += GROUP * 9 * s.width) {
			uint64_t mask = NAME(mask)(x + at, s.width - at);
			int64_t o = 0;
			for (; o + STRIP <= s.width; o += STRIP) NAME(strip)(STRIP / LANES, &s, s.near[m], mask, x + at, w + o, y + o);
			for (; o < s.width; o += LANES) NAME(strip)(1, &s, s.near[m], mask, x + at, w + o, y + o);
		}
	}
	for (int64_t m = 0; m < s.cell_count; m++) {
		for (int64_t at = s.cells[m] * s.width; at < (s.cells[m] + 1) * s.width; at += LANES) {
			VEC y = RELU(LOAD(s.dst + at));
			STORE(s.dst + at, y);
			if (s.pairs) STORE_PAIRS((uint16_t *)s.pairs + at, y);
		}
	}
}
