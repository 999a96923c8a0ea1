// The convolution of sparse.h for vectors of 16 floats on processors with 32 of them: the sums of 64 outputs of seven
// neighbouring cells of a row stay in registers. So an input is read once for the three cells that it affects, and nothing is
// copied. sparse.h includes this file.

#define ACROSS 7

// byRows reports whether this form can be used: outputs fill strips, and list words have room for all numbers.
TARGET static int NAME(byRows)(const sparse *s) {
	int64_t down = s->cells[s->cell_count - 1] - s->cells[s->columns - 1], rows = s->cell_count / s->columns;
	return s->width % STRIP == 0 && (down + 1) * s->width <= 1 << 16 && 9 * s->width + 3 * rows <= 1 << 16;
}

// columns lists the non-zero inputs, cell after cell of column after column, and returns their number; from few on, it stops
// counting. A list word's lower half is the input's offset from the column's first input. Its upper half is 9*i + 3*r for input i
// of a cell in row r. The input's weights for tap t have number 9*i + t, and t grows by 3 from one row to the next. So the same
// offset leads to the weights for all inputs of three cells of a column.
TARGET static __attribute__((noinline)) int64_t NAME(columns)(const sparse *s) {
	int64_t n = 0, start = 0;
	const NAME(integers) each = (NAME(integers))COUNTING * (9 << 16 | 1), next = (NAME(integers)){0} + LANES * (9 << 16 | 1);
	for (int64_t column = 0; column < s->columns; column++) {
		const float *first = s->src + s->cells[column] * s->width;
		for (int64_t m = column, r = 0; m < s->cell_count; m += s->columns, r++) {
			int64_t down = (s->cells[m] - s->cells[column]) * s->width;
			NAME(integers) words = each + (int32_t)(3 * r << 16 | down);
			s->starts[start++] = n;
			for (int64_t at = 0; at < s->width; at += LANES, words += next) {
				unsigned mask = NONZERO(LOAD(first + down + at));
				STORE((float *)s->places + n, COMPRESS(mask, (VEC)words));
				n += __builtin_popcount(mask);
			}
			if (n >= s->few) return n;
		}
	}
	s->starts[start] = n;
	return n;
}

// column adds the products of the inputs of up to three cells of a column, list entries from to end-1, to the sums of the three
// columns around it. c is its index among the columns whose sums are in registers; -1 and ACROSS are the columns beside them. x
// is the column's first input, and w the weights for an upper half of 0 and the first of a row's three taps.
INLINE NAME(column)(const int c, const int halves, const sparse *s, int64_t from, int64_t end, const float *x, const float *w, VEC (*sum)[STRIP / LANES]) {
	for (int64_t k = from; k < end; k++) {
		const uint32_t word = s->places[k];
		const float *at = w + (word >> 16) * s->row;
		// Tap t of an output is the input t - 1 cells to its right, so the input is tap t of the cell 1 - t to the right.
		UNROLLED for (int t = 0; t < 3; t++) {
			int to = c + 1 - t;
			if (to >= 0 && to < ACROSS) NAME(product)(STRIP / LANES, halves, sum[to], x + (word & 0xffff), at + t * s->row);
		}
	}
}

// row computes 64 outputs of `cells` cells, up to ACROSS, of a row. The first is in column `first`. bias and w begin with these
// outputs, and dst and pairs with those of the position's first cell.
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
#define INPUTS(c) from[(c) * rows], end[(c) * rows], s->src + s->cells[first + (c)] * s->width, w, sum
	if (first > 0) NAME(column)(-1, halves, s, INPUTS(-1));
	UNROLLED for (int c = 0; c < ACROSS; c++) {
		if (c < cells) NAME(column)(c, halves, s, INPUTS(c));
	}
	if (first + ACROSS < s->columns) NAME(column)(ACROSS, halves, s, INPUTS(ACROSS));
#undef INPUTS
	UNROLLED for (int c = 0; c < ACROSS; c++) {
		if (c >= cells) break;
		UNROLLED for (int v = 0; v < STRIP / LANES; v++) {
			VEC all = RELU(sum[c][v]);
			STORE(dst + at[c] * s->width + v * LANES, all);
			if (pairs) STORE_PAIRS(pairs + at[c] * s->width + v * LANES, all);
		}
	}
}

// rows computes a position whose inputs are listed by columns. The number of outputs is a multiple of STRIP.
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
