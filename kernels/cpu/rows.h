// The convolution of sparse.h for vectors of 16 floats, of which a processor has 32: the sums of 64 outputs of seven neighbouring cells
// of a row stay in registers. So an input is read once for the three cells that it reaches, and nothing is copied. It is included by
// sparse.h.

#define ACROSS 7

// column adds the products of the inputs of up to three cells of a column, numbers from to end in the list, to the sums of the three
// columns around it. It is column c of those whose sums are in registers; -1 and ACROSS are the columns beside them. w + place is
// an input's weights for the first of the three taps of its row.
INLINE NAME(column)(const int c, const int halves, const sparse *s, int64_t from, int64_t end, const float *w, VEC (*sum)[STRIP / LANES]) {
	for (int64_t k = from; k < end; k++) {
		const float *at = w + s->places[k];
		// Tap t of an output is the input that is t - 1 cells to its right, so the input is tap t of the cell 1 - t to the right.
		UNROLLED for (int t = 0; t < 3; t++) {
			int to = c + 1 - t;
			if (to >= 0 && to < ACROSS) NAME(product)(STRIP / LANES, halves, sum[to], s->values + k, at + t * s->row);
		}
	}
}

// row computes 64 outputs of `cells` cells, up to ACROSS, of a row. The first is in column `first`. bias and w begin with these outputs,
// and dst and pairs with those of the position's first cell.
INLINE NAME(row)(const int halves, const sparse *s, int64_t row, int64_t first, int64_t cells, const float *bias, const float *w, float *dst,
	uint16_t *pairs) {
	const int64_t rows = s->cell_count / s->columns;
	const int32_t *at = s->cells + row * s->columns + first;
	// The first value of the row above in the first column, and the end of the row below.
	const int32_t *from = s->starts + first * rows + (row > 0 ? row - 1 : 0), *end = s->starts + first * rows + (row + 2 < rows ? row + 2 : rows);
	VEC sum[ACROSS][STRIP / LANES];
	UNROLLED for (int c = 0; c < ACROSS; c++) {
		const float *y = dst + at[c < cells ? c : 0] * s->width;
		UNROLLED for (int v = 0; v < STRIP / LANES; v++) {
			sum[c][v] = LOAD(bias + v * LANES);
			if (s->add) sum[c][v] = ADD(LOAD(y + v * LANES), sum[c][v]);
		}
	}
	w += 3 * (1 - row) * s->row;
	if (first > 0) NAME(column)(-1, halves, s, from[-rows], end[-rows], w, sum);
	UNROLLED for (int c = 0; c < ACROSS; c++) {
		if (c < cells) NAME(column)(c, halves, s, from[c * rows], end[c * rows], w, sum);
	}
	if (first + ACROSS < s->columns) NAME(column)(ACROSS, halves, s, from[ACROSS * rows], end[ACROSS * rows], w, sum);
	UNROLLED for (int c = 0; c < ACROSS; c++) {
		if (c >= cells) break;
		UNROLLED for (int v = 0; v < STRIP / LANES; v++) {
			VEC all = RELU(sum[c][v]);
			STORE(dst + at[c] * s->width + v * LANES, all);
			if (pairs) STORE_PAIRS(pairs + at[c] * s->width + v * LANES, all);
		}
	}
}

// rows computes a position whose inputs are listed by columns, with a multiple of STRIP outputs.
TARGET static __attribute__((noinline)) void NAME(rows)(const sparse *s, uint16_t *pairs) {
	for (int64_t row = 0; row * s->columns < s->cell_count; row++) {
		for (int64_t first = 0; first < s->columns; first += ACROSS) {
			int64_t cells = s->columns - first < ACROSS ? s->columns - first : ACROSS;
			for (int64_t o = 0; o < s->width; o += STRIP) {
#define OUTPUTS(w) s->bias + o, s->weights + (w), s->dst + o, pairs ? pairs + o : 0
#ifdef LOWER
				NAME(row)(1, s, row, first, cells, OUTPUTS(o / 2));
#else
				NAME(row)(0, s, row, first, cells, OUTPUTS(o));
#endif
#undef OUTPUTS
			}
		}
	}
}
