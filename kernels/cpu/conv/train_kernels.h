// The functions of train.h for vectors of LANES floats. The including file first includes the header of its instructions
// (vector/doc.go), and defines NAME and TARGET as for vector/microkernel.h, and PANEL, the number of vectors of a matrix
// product's row that are in registers at once: 2 or 4.

#define MAC FMA
#include "../vector/microkernel.h"
#include "train_layout.h"

// tile computes c[r*cr + ..] = (add ? c[r*cr + ..] : 0) + sum over k of a[r*ar + k*ak] * b[k*bk + ..] for r < rows, and for the
// columns of the vectors.
INLINE NAME(tile)(const int rows, const int vectors, float *c, int64_t cr, const float *a, int64_t ar, int64_t ak, const float *b,
	int64_t bk, int depth, int add) {
	const float *row[ROWS];
	VEC sum[ROWS][PANEL];
	UNROLLED for (int r = 0; r < rows; r++) {
		row[r] = a + r * ar;
		UNROLLED for (int v = 0; v < vectors; v++) sum[r][v] = add ? LOAD(c + r * cr + v * LANES) : (VEC){0};
	}
	NAME(multiply)(rows, vectors, sum, row, 0, ak, b, bk, depth);
	UNROLLED for (int r = 0; r < rows; r++)
		UNROLLED for (int v = 0; v < vectors; v++) STORE(c + r * cr + v * LANES, sum[r][v]);
}

// panel is tile for any number of rows.
INLINE NAME(panel)(const int vectors, int rows, float *c, int64_t cr, const float *a, int64_t ar, int64_t ak, const float *b,
	int64_t bk, int depth, int add) {
	for (; rows >= ROWS; rows -= ROWS, c += ROWS * cr, a += ROWS * ar)
		NAME(tile)(ROWS, vectors, c, cr, a, ar, ak, b, bk, depth, add);
	switch (rows) {
	case 5: NAME(tile)(5, vectors, c, cr, a, ar, ak, b, bk, depth, add); break;
	case 4: NAME(tile)(4, vectors, c, cr, a, ar, ak, b, bk, depth, add); break;
	case 3: NAME(tile)(3, vectors, c, cr, a, ar, ak, b, bk, depth, add); break;
	case 2: NAME(tile)(2, vectors, c, cr, a, ar, ak, b, bk, depth, add); break;
	case 1: NAME(tile)(1, vectors, c, cr, a, ar, ak, b, bk, depth, add); break;
	}
}

// product is panel for any number of columns, a multiple of GROUP.
TARGET static void NAME(product)(int rows, int columns, float *c, int64_t cr, const float *a, int64_t ar, int64_t ak, const float *b,
	int64_t bk, int depth, int add) {
	while (columns > 0) {
		int vectors = columns / LANES < PANEL ? columns / LANES : PANEL;
		switch (vectors) {
		case 1: NAME(panel)(1, rows, c, cr, a, ar, ak, b, bk, depth, add); break;
		case 2: NAME(panel)(2, rows, c, cr, a, ar, ak, b, bk, depth, add); break;
#if PANEL == 4
		case 3: NAME(panel)(3, rows, c, cr, a, ar, ak, b, bk, depth, add); break;
		case 4: NAME(panel)(4, rows, c, cr, a, ar, ak, b, bk, depth, add); break;
#endif
		}
		columns -= vectors * LANES, c += vectors * LANES, b += vectors * LANES;
	}
}

TARGET static void NAME(weights)(float *u, const float *weight, int64_t so, int64_t si, int flip, int i0, int i1, const train_dims *d) {
	int taps = d->k * d->k;
	for (int i = i0; i < i1; i++)
		for (int o = 0; o < d->o; o += GROUP) {
			float g[9][GROUP] = {{0}}, e[4][3][GROUP];
			int lanes = d->o - o < GROUP ? d->o - o : GROUP;
			for (int l = 0; l < lanes; l++)
				for (int t = 0; t < taps; t++) g[flip ? taps - 1 - t : t][l] = weight[(o + l) * so + i * si + t];
			if (taps == 1) {
				memcpy(u + at_weight(d, 0, i, o), g[0], sizeof g[0]);
				continue;
			}
			for (int c = 0; c < 3; c++)
				for (int l = 0; l < GROUP; l++) {
					float a = g[c][l], b = g[3 + c][l], z = g[6 + c][l];
					e[0][c][l] = a, e[1][c][l] = 0.5f * (a + z + b), e[2][c][l] = 0.5f * (a + z - b), e[3][c][l] = z;
				}
			for (int r = 0; r < 4; r++) {
				float *to[4];
				for (int c = 0; c < 4; c++) to[c] = u + at_weight(d, 4 * r + c, i, o);
				for (int l = 0; l < GROUP; l++) {
					float a = e[r][0][l], b = e[r][1][l], z = e[r][2][l];
					to[0][l] = a, to[1][l] = 0.5f * (a + z + b), to[2][l] = 0.5f * (a + z - b), to[3][l] = z;
				}
			}
		}
}

// The partial gradients are stored as [partial][point][i][o], with o padded.
TARGET static void NAME(gradients)(float *dweight, float *sums, int partials, int i0, int i1, const train_dims *d) {
	int taps = d->k * d->k, op = pad(d->o);
	int64_t each = train_sizes(d).sums;
	for (int x = 0; x < points(d); x++)
		for (int p = 1; p < partials; p++) {
			float *to = sums + ((int64_t)x * d->i + i0) * op, *from = to + p * each;
			for (int64_t j = 0; j < (int64_t)(i1 - i0) * op; j++) to[j] += from[j];
		}
	for (int i = i0; i < i1; i++)
		for (int o = 0; o < d->o; o += GROUP) {
			float m[16][GROUP] = {{0}}, e[3][4][GROUP], g[9][GROUP];
			for (int x = 0; x < points(d); x++) memcpy(m[x], sums + ((int64_t)x * d->i + i) * op + o, sizeof m[x]);
			for (int c = 0; c < 4; c++)
				for (int l = 0; l < GROUP; l++) {
					float half = 0.5f * (m[4 + c][l] + m[8 + c][l]);
					e[0][c][l] = m[c][l] + half, e[1][c][l] = 0.5f * (m[4 + c][l] - m[8 + c][l]);
					e[2][c][l] = half + m[12 + c][l];
				}
			for (int r = 0; r < 3; r++)
				for (int l = 0; l < GROUP; l++) {
					float half = 0.5f * (e[r][1][l] + e[r][2][l]);
					g[3 * r][l] = e[r][0][l] + half, g[3 * r + 1][l] = 0.5f * (e[r][1][l] - e[r][2][l]);
					g[3 * r + 2][l] = half + e[r][3][l];
				}
			if (taps == 1) memcpy(g[0], m[0], sizeof g[0]);
			for (int l = 0; l < GROUP && o + l < d->o; l++)
				for (int t = 0; t < taps; t++) dweight[((int64_t)(o + l) * d->i + i) * taps + t] = g[t][l];
		}
}

// load copies a board x [cells][c] into to [cells][pad(c)], with zeros in the padding and wherever mask is not positive.
TARGET static void NAME(load)(float *to, const float *x, const float *mask, int c, int cells) {
	int runs = runs_of(c, cells), length = c * cells / runs;
	for (int n = 0; n < runs; n++, to += pad(c), x += length) {
		if (mask) {
			for (int j = 0; j < length; j++) to[j] = mask[j] <= 0 ? 0 : x[j];
			mask += length;
		} else
			memcpy(to, x, 4 * length);
		if (runs > 1) memset(to + c, 0, 4 * (pad(c) - c));
	}
}

// store copies a board [cells][pad(c)] to y [cells][c], and applies bias, add, relu and mask on the way. y may be add.
TARGET static void NAME(store)(float *y, float *from, const float *bias, const float *add, const float *mask, int relu, int c,
	int cells) {
	if (bias)
		for (int cell = 0; cell < cells; cell++)
			for (int j = 0; j < c; j++) from[(int64_t)cell * pad(c) + j] += bias[j];
	int runs = runs_of(c, cells), length = c * cells / runs;
	for (int64_t n = 0, at = 0; n < runs; n++, from += pad(c), at += length) {
		if (add)
			for (int j = 0; j < length; j++) from[j] += add[at + j];
		if (relu)
			for (int j = 0; j < length; j++) from[j] = from[j] < 0 ? 0 : from[j];
		if (mask)
			for (int j = 0; j < length; j++) from[j] = mask[at + j] <= 0 ? 0 : from[j];
		memcpy(y + at, from, 4 * length);
	}
}

// input_transform is v = B' d B for each tile of a board [cells][cp] with a row of zeros after it.
TARGET static void NAME(input_transform)(float *v, int64_t vs, const float *board, int cp, int h, int w) {
	for (int r = 0; r < h; r += 2)
		for (int c = 0; c < w; c += 2, v += cp) {
			const float *from[16];
			UNROLLED for (int t = 0; t < 16; t++) {
				int y = r + t / 4 - 1, x = c + t % 4 - 1;
				from[t] = board + (int64_t)cp * (y < 0 || y >= h || x < 0 || x >= w ? h * w : y * w + x);
			}
			for (int j = 0; j < cp; j += LANES) {
				VEC d[16], e[16];
				UNROLLED for (int t = 0; t < 16; t++) d[t] = LOAD(from[t] + j);
				UNROLLED for (int t = 0; t < 4; t++) {
					e[t] = d[t] - d[8 + t], e[4 + t] = d[4 + t] + d[8 + t];
					e[8 + t] = d[8 + t] - d[4 + t], e[12 + t] = d[4 + t] - d[12 + t];
				}
				UNROLLED for (int t = 0; t < 16; t += 4) {
					STORE(v + t * vs + j, e[t] - e[t + 2]);
					STORE(v + (t + 1) * vs + j, e[t + 1] + e[t + 2]);
					STORE(v + (t + 2) * vs + j, e[t + 2] - e[t + 1]);
					STORE(v + (t + 3) * vs + j, e[t + 1] - e[t + 3]);
				}
			}
		}
}

// output_transform is board = A' m A. Outputs off the board are written to the row after it.
TARGET static void NAME(output_transform)(float *board, const float *m, int64_t ms, int cp, int h, int w) {
	for (int r = 0; r < h; r += 2)
		for (int c = 0; c < w; c += 2, m += cp) {
			float *to[4];
			for (int t = 0; t < 4; t++) {
				int y = r + t / 2, x = c + t % 2;
				to[t] = board + (int64_t)cp * (y >= h || x >= w ? h * w : y * w + x);
			}
			for (int j = 0; j < cp; j += LANES) {
				VEC e[8];
				UNROLLED for (int t = 0; t < 4; t++) {
					VEC a = LOAD(m + t * ms + j), b = LOAD(m + (4 + t) * ms + j);
					VEC x = LOAD(m + (8 + t) * ms + j), y = LOAD(m + (12 + t) * ms + j);
					e[t] = a + b + x, e[4 + t] = b - x - y;
				}
				UNROLLED for (int t = 0; t < 2; t++) {
					STORE(to[2 * t] + j, e[4 * t] + e[4 * t + 1] + e[4 * t + 2]);
					STORE(to[2 * t + 1] + j, e[4 * t + 1] - e[4 * t + 2] - e[4 * t + 3]);
				}
			}
		}
}

// gradient_transform is m = A dy A' for each tile of a board [cells][cp] with a row of zeros after it.
TARGET static void NAME(gradient_transform)(float *m, int64_t ms, const float *board, int cp, int h, int w) {
	for (int r = 0; r < h; r += 2)
		for (int c = 0; c < w; c += 2, m += cp) {
			const float *from[4];
			for (int t = 0; t < 4; t++) {
				int y = r + t / 2, x = c + t % 2;
				from[t] = board + (int64_t)cp * (y >= h || x >= w ? h * w : y * w + x);
			}
			for (int j = 0; j < cp; j += LANES) {
				VEC d[4], e[8];
				UNROLLED for (int t = 0; t < 4; t++) d[t] = LOAD(from[t] + j);
				UNROLLED for (int t = 0; t < 2; t++)
					e[t] = d[t], e[2 + t] = d[t] + d[2 + t], e[4 + t] = d[t] - d[2 + t], e[6 + t] = -d[2 + t];
				UNROLLED for (int t = 0; t < 4; t++) {
					STORE(m + 4 * t * ms + j, e[2 * t]);
					STORE(m + (4 * t + 1) * ms + j, e[2 * t] + e[2 * t + 1]);
					STORE(m + (4 * t + 2) * ms + j, e[2 * t] - e[2 * t + 1]);
					STORE(m + (4 * t + 3) * ms + j, -e[2 * t + 1]);
				}
			}
		}
}

// load_block loads and transforms boards, by input_transform (outputs = 0) or gradient_transform (outputs = 1). It adds up
// their channels in sum, unless sum is NULL.
TARGET static void NAME(load_block)(float *v, int64_t vs, float *sum, float *scratch, const float *x, const float *mask,
	int boards, int c, int outputs, const train_dims *d) {
	int cells = d->h * d->w, cp = pad(c);
	for (int n = 0; n < boards; n++) {
		int64_t at = (int64_t)n * c * cells;
		float *board = d->k == 3 ? scratch : v + (int64_t)n * cells * cp;
		NAME(load)(board, x + at, mask ? mask + at : 0, c, cells);
		if (sum)
			for (int cell = 0; cell < cells; cell++)
				for (int j = 0; j < c; j++) sum[j] += board[(int64_t)cell * cp + j];
		if (d->k == 1) continue;
		memset(board + (int64_t)cells * cp, 0, 4 * cp);
		float *to = v + (int64_t)n * tiles(d) * cp;
		if (outputs)
			NAME(gradient_transform)(to, vs, board, cp, d->h, d->w);
		else
			NAME(input_transform)(to, vs, board, cp, d->h, d->w);
	}
}

// prefetch prefetches one of `shares` equal shares of a block of floats, so that it is in the cache when the products are
// done. The block may be NULL, and may extend beyond its buffer: prefetching never faults.
INLINE NAME(prefetch)(const float *x, int64_t floats, int share, int shares) {
	if (!x) return;
	for (int64_t j = floats * share / shares; j < floats * (share + 1) / shares; j += 16) __builtin_prefetch(x + j, 0, 2);
}

// forward and sums are train_forward and train_sums of train.h.
TARGET static void NAME(forward)(float *y, const float *x, const float *x_mask, const float *u, const float *bias,
	const float *add, const float *y_mask, float *scratch, const train_dims *d) {
	layout l = carve(d);
	float *v = scratch + l.v, *m = scratch + l.m;
	int ip = pad(d->i), op = pad(d->o), cells = d->h * d->w;
	for (int n = 0; n < d->n; n += d->block) {
		int boards = d->n - n < d->block ? d->n - n : d->block, rows = boards * tiles(d);
		int64_t in = (int64_t)n * d->i * cells, out = (int64_t)n * d->o * cells, size = (int64_t)boards * cells;
		NAME(load_block)(v, l.vs, 0, scratch, x + in, x_mask ? x_mask + in : 0, boards, d->i, 0, d);
		for (int o = 0; o < op; o += WIDE) {
			int width = op - o < WIDE ? op - o : WIDE;
			for (int t = 0; t < points(d); t++) {
				if (o == 0) {
					NAME(prefetch)(y + out, size * d->o, t, points(d));
					NAME(prefetch)(add ? add + out : 0, size * d->o, t, points(d));
					NAME(prefetch)(y_mask ? y_mask + out : 0, size * d->o, t, points(d));
					if (n + d->block < d->n) NAME(prefetch)(x + in + size * d->i, size * d->i, t, points(d));
				}
				NAME(product)(rows, width, m + t * l.ms + o, op, v + t * l.vs, ip, 1, u + at_weight(d, t, 0, o), width,
					d->i, 0);
			}
		}
		for (int j = 0; j < boards; j++) {
			float *board = scratch, *from = m + (int64_t)j * tiles(d) * op;
			if (d->k == 3)
				NAME(output_transform)(board, from, l.ms, op, d->h, d->w);
			else
				board = from;
			int64_t at = (int64_t)(n + j) * d->o * cells;
			NAME(store)(y + at, board, bias, add ? add + at : 0, y_mask ? y_mask + at : 0, d->relu, d->o, cells);
		}
	}
}

TARGET static void NAME(sums)(float *sums, float *dbias, const float *x, const float *dy, const float *y, float *scratch,
	const train_dims *d) {
	layout l = carve(d);
	float *v = scratch + l.v, *m = scratch + l.m;
	int ip = pad(d->i), op = pad(d->o), cells = d->h * d->w;
	memset(dbias, 0, 4 * d->o);
	if (d->n == 0) memset(sums, 0, 4 * train_sizes(d).sums);
	for (int n = 0; n < d->n; n += d->block) {
		int boards = d->n - n < d->block ? d->n - n : d->block, depth = boards * tiles(d);
		int64_t in = (int64_t)n * d->i * cells, out = (int64_t)n * d->o * cells, size = (int64_t)boards * cells;
		NAME(load_block)(v, l.vs, 0, scratch, x + in, 0, boards, d->i, 0, d);
		NAME(load_block)(m, l.ms, dbias, scratch, dy + out, y ? y + out : 0, boards, d->o, 1, d);
		for (int t = 0; t < points(d); t++) {
			if (n + d->block < d->n) {
				NAME(prefetch)(x + in + size * d->i, size * d->i, t, points(d));
				NAME(prefetch)(dy + out + size * d->o, size * d->o, t, points(d));
			}
			for (int o = 0; o < op; o += WIDE)
				NAME(product)(d->i, op - o < WIDE ? op - o : WIDE, sums + (int64_t)t * d->i * op + o, op, v + t * l.vs, 1, ip,
					m + t * l.ms + o, op, depth, n > 0);
		}
	}
}

const train_path NAME(train) = {NAME(weights), NAME(gradients), NAME(forward), NAME(sums)};
