// Winograd's convolution (winograd.go), for vectors of LANES floats: from inputs to their values at the points, to products, and
// to outputs. It is included after direct.h, which lists the macros and has the operation.
//
// A tile of m outputs in a line, 3 or 4, has m + 2 inputs d, and values v at the points 0, 1, -1, 2, -2 (only if m is 4) and
// infinity (number 5).

INLINE NAME(points)(const int m, const VEC *d, VEC *v) {
	if (m == 3) {
		v[0] = d[0] - d[2] + (d[3] - d[1]) * 0.5f;
		v[1] = d[1] + (d[2] - d[3]) * 0.5f;
		v[2] = d[2] * 0.5f - (d[1] * 2.f + d[3]) * (1.f / 6);
		v[3] = (d[3] - d[1]) * (1.f / 6);
		v[5] = d[4] - d[2] + (d[1] - d[3]) * 2.f;
		return;
	}
	VEC far = (d[4] - d[2]) * (1.f / 24), odd = (d[3] - d[1]) * (1.f / 12);
	v[0] = d[0] - d[2] * 1.25f + d[4] * 0.25f;
	v[1] = ((d[1] + d[2]) * 4.f - (d[3] + d[4])) * (1.f / 6);
	v[2] = ((d[2] - d[1]) * 4.f + (d[3] - d[4])) * (1.f / 6);
	v[3] = far + odd;
	v[4] = far - odd;
	v[5] = d[1] * 4.f - d[3] * 5.f + d[5];
}

// outputs computes the outputs y from the products p at the points.
INLINE NAME(outputs)(const int m, const VEC *p, VEC *y) {
	VEC even = p[1] + p[2], odd = p[1] - p[2];
	if (m == 3) {
		y[0] = p[0] + even + p[3];
		y[1] = odd + p[3] * 2.f;
		y[2] = even + p[3] * 4.f + p[5];
		return;
	}
	VEC even2 = p[3] + p[4], odd2 = p[3] - p[4];
	y[0] = p[0] + even + even2;
	y[1] = odd + odd2 * 2.f;
	y[2] = even + even2 * 4.f;
	y[3] = odd + odd2 * 8.f + p[5];
}

// EACH(i, m) loops over the points of m outputs.
#define EACH(i, m) UNROLLED for (int i = 0; i < 6; i++) if (i != 4 || m == 4)

INLINE NAME(tile_in)(const int rows, const int columns, const winograd *w, const winograd_tile *t, int64_t position, int64_t at) {
	VEC half[6][6], line[6], v[6];
	const float *x = w->src + position * w->cells * w->width + at;
	UNROLLED for (int j = 0; j < columns + 2; j++) {
		UNROLLED for (int i = 0; i < rows + 2; i++) line[i] = LOAD(x + t->in[6 * i + j] * w->width);
		NAME(points)(rows, line, v);
		EACH(i, rows) half[i][j] = v[i];
	}
	EACH(i, rows) {
		NAME(points)(columns, half[i], v);
		EACH(j, columns) STORE(w->points + (t->at[6 * i + j] + position * w->each[6 * i + j]) * w->width + at, v[j]);
	}
}

INLINE NAME(tile_out)(const int rows, const int columns, const winograd *w, const winograd_tile *t, int64_t position, int64_t at) {
	VEC half[4][6], line[6], y[4];
	EACH(j, columns) {
		EACH(i, rows) line[i] = LOAD(w->products + (t->at[6 * i + j] + position * w->each[6 * i + j]) * w->width + at);
		NAME(outputs)(rows, line, y);
		UNROLLED for (int i = 0; i < rows; i++) half[i][j] = y[i];
	}
	VEC bias = LOAD(w->bias + at);
	UNROLLED for (int i = 0; i < rows; i++) {
		NAME(outputs)(columns, half[i], y);
		UNROLLED for (int j = 0; j < columns; j++) {
			if (t->out[4 * i + j] < 0) continue; // off the board
			int64_t to = (position * w->cells + t->out[4 * i + j]) * w->width + at;
			VEC sum = ADD(y[j], bias);
			if (w->add) sum = ADD(sum, LOAD(w->add + to));
			STORE(w->dst + to, RELU(sum));
		}
	}
}

#define EACH_TILE(do) \
	for (int64_t position = 0; position < w.positions; position++) \
		for (const winograd_tile *t = w.tiles; t < w.tiles + w.tile_count; t++) \
			for (int64_t at = 0; at < w.width; at += LANES) { \
				if (t->rows == 3 && t->columns == 3) do(3, 3, &w, t, position, at); \
				else if (t->rows == 3) do(3, 4, &w, t, position, at); \
				else if (t->columns == 3) do(4, 3, &w, t, position, at); \
				else do(4, 4, &w, t, position, at); \
			}

TARGET void NAME(winograd_in)(winograd w) { EACH_TILE(NAME(tile_in)) }

TARGET void NAME(winograd_products)(winograd w) {
	const int32_t here = 0;
	for (int64_t p = w.from; p < w.to; p++) {
		NAME(conv)((conv){
			.cells = w.slots, .cell_count = w.positions * w.each[p], .taps = &here, .tap_count = 1,
			.src = w.points + w.first[p] * w.width, .stride = w.width, .words = w.words,
			.weights = w.weights + p * w.words * w.width, .bias = w.zeros, .width = w.width,
			.dst = w.products + w.first[p] * w.width,
		});
	}
}

TARGET void NAME(winograd_out)(winograd w) { EACH_TILE(NAME(tile_out)) }
