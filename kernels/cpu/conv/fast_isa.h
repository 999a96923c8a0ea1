// fast.c includes this file once for each set of instructions: ISA(name) names one of its functions, TARGET is the
// functions' attribute, WIDTH the floats in a vector.

typedef float ISA(vec) __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));

#define vec ISA(vec)
#define INLINE TARGET static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")
#define VECS (WIDTH == 16 ? 4 : 2) // vectors of a row of a matrix product that are in registers at once

// c[r,0..vecs) = (add ? c : 0) + sum over k of a[r*ar + k*ak] * b[k*bk + ..], for r < rows.
INLINE void ISA(tile)(const int rows, const int vecs, float *c, long cr, const float *a, long ar, long ak, const float *b,
	long bk, int depth, int add) {
	vec sum[ROWS][4];
	UNROLL for (int r = 0; r < rows; r++)
		UNROLL for (int v = 0; v < vecs; v++) sum[r][v] = add ? *(vec *)(c + r * cr + v * WIDTH) : (vec){0};
	for (int k = 0; k < depth; k++, a += ak, b += bk) {
		vec bs[4];
		UNROLL for (int v = 0; v < vecs; v++) bs[v] = *(const vec *)(b + v * WIDTH);
		UNROLL for (int r = 0; r < rows; r++)
			UNROLL for (int v = 0; v < vecs; v++) sum[r][v] += a[r * ar] * bs[v];
	}
	UNROLL for (int r = 0; r < rows; r++)
		UNROLL for (int v = 0; v < vecs; v++) *(vec *)(c + r * cr + v * WIDTH) = sum[r][v];
}

// product_vecs is tile for any number of rows. It is vecs vectors wide.
INLINE void ISA(product_vecs)(const int vecs, int rows, float *c, long cr, const float *a, long ar, long ak, const float *b,
	long bk, int depth, int add) {
	for (; rows >= ROWS; rows -= ROWS, c += ROWS * cr, a += ROWS * ar)
		ISA(tile)(ROWS, vecs, c, cr, a, ar, ak, b, bk, depth, add);
	switch (rows) {
	case 5: ISA(tile)(5, vecs, c, cr, a, ar, ak, b, bk, depth, add); break;
	case 4: ISA(tile)(4, vecs, c, cr, a, ar, ak, b, bk, depth, add); break;
	case 3: ISA(tile)(3, vecs, c, cr, a, ar, ak, b, bk, depth, add); break;
	case 2: ISA(tile)(2, vecs, c, cr, a, ar, ak, b, bk, depth, add); break;
	case 1: ISA(tile)(1, vecs, c, cr, a, ar, ak, b, bk, depth, add); break;
	}
}

TARGET static void ISA(product)(int rows, int columns, float *c, long cr, const float *a, long ar, long ak, const float *b,
	long bk, int depth, int add) {
	while (columns > 0) {
		int vecs = columns / WIDTH < VECS ? columns / WIDTH : VECS;
		switch (vecs) {
		case 1: ISA(product_vecs)(1, rows, c, cr, a, ar, ak, b, bk, depth, add); break;
		case 2: ISA(product_vecs)(2, rows, c, cr, a, ar, ak, b, bk, depth, add); break;
#if WIDTH == 16
		case 3: ISA(product_vecs)(3, rows, c, cr, a, ar, ak, b, bk, depth, add); break;
		case 4: ISA(product_vecs)(4, rows, c, cr, a, ar, ak, b, bk, depth, add); break;
#endif
		}
		columns -= vecs * WIDTH, c += vecs * WIDTH, b += vecs * WIDTH;
	}
}

TARGET static void ISA(weights)(float *u, const float *weight, long so, long si, int flip, int i0, int i1, const conv_dims *d) {
	int taps = d->k * d->k;
	for (int i = i0; i < i1; i++)
		for (int o = 0; o < d->o; o += LANES) {
			float g[9][LANES] = {{0}}, e[4][3][LANES];
			int lanes = d->o - o < LANES ? d->o - o : LANES;
			for (int l = 0; l < lanes; l++)
				for (int t = 0; t < taps; t++) g[flip ? taps - 1 - t : t][l] = weight[(o + l) * so + i * si + t];
			if (taps == 1) {
				memcpy(u + at_weight(d, 0, i, o), g[0], sizeof g[0]);
				continue;
			}
			for (int c = 0; c < 3; c++)
				for (int l = 0; l < LANES; l++) {
					float a = g[c][l], b = g[3 + c][l], z = g[6 + c][l];
					e[0][c][l] = a, e[1][c][l] = 0.5f * (a + z + b), e[2][c][l] = 0.5f * (a + z - b), e[3][c][l] = z;
				}
			for (int r = 0; r < 4; r++) {
				float *to[4];
				for (int c = 0; c < 4; c++) to[c] = u + at_weight(d, 4 * r + c, i, o);
				for (int l = 0; l < LANES; l++) {
					float a = e[r][0][l], b = e[r][1][l], z = e[r][2][l];
					to[0][l] = a, to[1][l] = 0.5f * (a + z + b), to[2][l] = 0.5f * (a + z - b), to[3][l] = z;
				}
			}
		}
}

// The partial gradients are stored as [partial][point][i][o], with o padded.
TARGET static void ISA(gradients)(float *dweight, float *sums, int partials, int i0, int i1, const conv_dims *d) {
	int taps = d->k * d->k, op = pad(d->o);
	long each = conv_sizes(d).sums;
	for (int x = 0; x < points(d); x++)
		for (int p = 1; p < partials; p++) {
			float *to = sums + ((long)x * d->i + i0) * op, *from = to + p * each;
			for (long j = 0; j < (long)(i1 - i0) * op; j++) to[j] += from[j];
		}
	for (int i = i0; i < i1; i++)
		for (int o = 0; o < d->o; o += LANES) {
			float m[16][LANES] = {{0}}, e[3][4][LANES], g[9][LANES];
			for (int x = 0; x < points(d); x++) memcpy(m[x], sums + ((long)x * d->i + i) * op + o, sizeof m[x]);
			for (int c = 0; c < 4; c++)
				for (int l = 0; l < LANES; l++) {
					float half = 0.5f * (m[4 + c][l] + m[8 + c][l]);
					e[0][c][l] = m[c][l] + half, e[1][c][l] = 0.5f * (m[4 + c][l] - m[8 + c][l]);
					e[2][c][l] = half + m[12 + c][l];
				}
			for (int r = 0; r < 3; r++)
				for (int l = 0; l < LANES; l++) {
					float half = 0.5f * (e[r][1][l] + e[r][2][l]);
					g[3 * r][l] = e[r][0][l] + half, g[3 * r + 1][l] = 0.5f * (e[r][1][l] - e[r][2][l]);
					g[3 * r + 2][l] = half + e[r][3][l];
				}
			if (taps == 1) memcpy(g[0], m[0], sizeof g[0]);
			for (int l = 0; l < LANES && o + l < d->o; l++)
				for (int t = 0; t < taps; t++) dweight[((long)(o + l) * d->i + i) * taps + t] = g[t][l];
		}
}

// transpose8 sets to[c*ts + r] = from[r*fs + c] for r, c < 8.
INLINE void ISA(transpose8)(float *to, long ts, const float *from, long fs) {
	__m256 a[8], b[8];
	UNROLL for (int r = 0; r < 8; r++) a[r] = _mm256_loadu_ps(from + r * fs);
	UNROLL for (int r = 0; r < 8; r += 2) {
		b[r] = _mm256_unpacklo_ps(a[r], a[r + 1]);
		b[r + 1] = _mm256_unpackhi_ps(a[r], a[r + 1]);
	}
	UNROLL for (int r = 0; r < 8; r += 4) {
		a[r] = _mm256_shuffle_ps(b[r], b[r + 2], 0x44);
		a[r + 1] = _mm256_shuffle_ps(b[r], b[r + 2], 0xee);
		a[r + 2] = _mm256_shuffle_ps(b[r + 1], b[r + 3], 0x44);
		a[r + 3] = _mm256_shuffle_ps(b[r + 1], b[r + 3], 0xee);
	}
	UNROLL for (int r = 0; r < 4; r++) {
		_mm256_storeu_ps(to + r * ts, _mm256_permute2f128_ps(a[r], a[r + 4], 0x20));
		_mm256_storeu_ps(to + (r + 4) * ts, _mm256_permute2f128_ps(a[r], a[r + 4], 0x31));
	}
}

// transpose sets to[c*ts + r] = from[r*fs + c]. The last square of 8x8 overlaps the one before.
TARGET static void ISA(transpose)(float *to, long ts, const float *from, long fs, int rows, int columns) {
	if (rows < 8 || columns < 8) {
		for (int r = 0; r < rows; r++)
			for (int c = 0; c < columns; c++) to[c * ts + r] = from[r * fs + c];
		return;
	}
	for (int r = 0; r < rows; r += 8) {
		int r0 = r + 8 <= rows ? r : rows - 8;
		for (int c = 0; c < columns; c += 8) {
			int c0 = c + 8 <= columns ? c : columns - 8;
			ISA(transpose8)(to + c0 * ts + r0, ts, from + r0 * fs + c0, fs);
		}
	}
}

// load copies a board x of c channels into to [cells][pad(c)], with zeros in the padding and wherever mask is not positive.
// flat [c*cells] is scratch memory.
TARGET static void ISA(load)(float *to, float *flat, const float *x, const float *mask, int c, int cells, int last) {
	int cp = pad(c);
	if (mask) {
		for (long j = 0; j < (long)c * cells; j++) flat[j] = mask[j] <= 0 ? 0 : x[j];
		x = flat;
	}
	if (last)
		for (int cell = 0; cell < cells; cell++) memcpy(to + (long)cell * cp, x + (long)cell * c, 4 * c);
	else
		ISA(transpose)(to, cp, x, cells, c, cells);
	if (c < cp)
		for (int cell = 0; cell < cells; cell++) memset(to + (long)cell * cp + c, 0, 4 * (cp - c));
}

// store copies a board [cells][pad(c)] to y, and applies bias, add, relu and mask on the way. y may be add.
TARGET static void ISA(store)(float *y, float *from, float *flat, const float *bias, const float *add, const float *mask,
	int relu, int c, int cells, int last) {
	long cp = pad(c), all = (long)c * cells;
	if (bias)
		for (int cell = 0; cell < cells; cell++)
			for (int j = 0; j < c; j++) from[cell * cp + j] += bias[j];
	if (!last)
		ISA(transpose)(flat, cells, from, cp, cells, c);
	else if (c < cp)
		for (int cell = 0; cell < cells; cell++) memcpy(flat + (long)cell * c, from + cell * cp, 4 * c);
	else
		flat = from;
	if (add)
		for (long j = 0; j < all; j++) flat[j] += add[j];
	if (relu)
		for (long j = 0; j < all; j++) flat[j] = flat[j] < 0 ? 0 : flat[j];
	if (mask)
		for (long j = 0; j < all; j++) flat[j] = mask[j] <= 0 ? 0 : flat[j];
	memcpy(y, flat, 4 * all);
}

// input_transform is v = B' d B for each tile of a board [cells][cp] with a row of zeros after it.
TARGET static void ISA(input_transform)(float *v, long vs, const float *board, int cp, int h, int w) {
	for (int r = 0; r < h; r += 2)
		for (int c = 0; c < w; c += 2, v += cp) {
			const float *from[16];
			UNROLL for (int t = 0; t < 16; t++) {
				int y = r + t / 4 - 1, x = c + t % 4 - 1;
				from[t] = board + (long)cp * (y < 0 || y >= h || x < 0 || x >= w ? h * w : y * w + x);
			}
			for (int j = 0; j < cp; j += WIDTH) {
				vec d[16], e[16];
				UNROLL for (int t = 0; t < 16; t++) d[t] = *(const vec *)(from[t] + j);
				UNROLL for (int t = 0; t < 4; t++) {
					e[t] = d[t] - d[8 + t], e[4 + t] = d[4 + t] + d[8 + t];
					e[8 + t] = d[8 + t] - d[4 + t], e[12 + t] = d[4 + t] - d[12 + t];
				}
				UNROLL for (int t = 0; t < 16; t += 4) {
					*(vec *)(v + t * vs + j) = e[t] - e[t + 2];
					*(vec *)(v + (t + 1) * vs + j) = e[t + 1] + e[t + 2];
					*(vec *)(v + (t + 2) * vs + j) = e[t + 2] - e[t + 1];
					*(vec *)(v + (t + 3) * vs + j) = e[t + 1] - e[t + 3];
				}
			}
		}
}

// output_transform is board = A' m A. Outputs off the board are written to the row after it.
TARGET static void ISA(output_transform)(float *board, const float *m, long ms, int cp, int h, int w) {
	for (int r = 0; r < h; r += 2)
		for (int c = 0; c < w; c += 2, m += cp) {
			float *to[4];
			for (int t = 0; t < 4; t++) {
				int y = r + t / 2, x = c + t % 2;
				to[t] = board + (long)cp * (y >= h || x >= w ? h * w : y * w + x);
			}
			for (int j = 0; j < cp; j += WIDTH) {
				vec e[8];
				UNROLL for (int t = 0; t < 4; t++) {
					vec a = *(const vec *)(m + t * ms + j), b = *(const vec *)(m + (4 + t) * ms + j);
					vec x = *(const vec *)(m + (8 + t) * ms + j), y = *(const vec *)(m + (12 + t) * ms + j);
					e[t] = a + b + x, e[4 + t] = b - x - y;
				}
				UNROLL for (int t = 0; t < 2; t++) {
					*(vec *)(to[2 * t] + j) = e[4 * t] + e[4 * t + 1] + e[4 * t + 2];
					*(vec *)(to[2 * t + 1] + j) = e[4 * t + 1] - e[4 * t + 2] - e[4 * t + 3];
				}
			}
		}
}

// gradient_transform is m = A dy A' for each tile of a board [cells][cp] with a row of zeros after it.
TARGET static void ISA(gradient_transform)(float *m, long ms, const float *board, int cp, int h, int w) {
	for (int r = 0; r < h; r += 2)
		for (int c = 0; c < w; c += 2, m += cp) {
			const float *from[4];
			for (int t = 0; t < 4; t++) {
				int y = r + t / 2, x = c + t % 2;
				from[t] = board + (long)cp * (y >= h || x >= w ? h * w : y * w + x);
			}
			for (int j = 0; j < cp; j += WIDTH) {
				vec d[4], e[8];
				UNROLL for (int t = 0; t < 4; t++) d[t] = *(const vec *)(from[t] + j);
				UNROLL for (int t = 0; t < 2; t++)
					e[t] = d[t], e[2 + t] = d[t] + d[2 + t], e[4 + t] = d[t] - d[2 + t], e[6 + t] = -d[2 + t];
				UNROLL for (int t = 0; t < 4; t++) {
					*(vec *)(m + 4 * t * ms + j) = e[2 * t];
					*(vec *)(m + (4 * t + 1) * ms + j) = e[2 * t] + e[2 * t + 1];
					*(vec *)(m + (4 * t + 2) * ms + j) = e[2 * t] - e[2 * t + 1];
					*(vec *)(m + (4 * t + 3) * ms + j) = -e[2 * t + 1];
				}
			}
		}
}

// load_block loads and transforms boards, by input_transform (outputs = 0) or gradient_transform (outputs = 1). It adds up
// their channels in sum, unless sum is NULL.
TARGET static void ISA(load_block)(float *v, long vs, float *sum, float *scratch, const layout *l, const float *x, const float *mask,
	int boards, int c, int outputs, const conv_dims *d) {
	int cells = d->h * d->w, cp = pad(c);
	for (int n = 0; n < boards; n++) {
		long at = (long)n * c * cells;
		float *board = d->k == 3 ? scratch : v + (long)n * cells * cp;
		ISA(load)(board, scratch + l->flat, x + at, mask ? mask + at : 0, c, cells, d->last);
		if (sum)
			for (int cell = 0; cell < cells; cell++)
				for (int j = 0; j < c; j++) sum[j] += board[(long)cell * cp + j];
		if (d->k == 1) continue;
		memset(board + (long)cells * cp, 0, 4 * cp);
		float *to = v + (long)n * tiles(d) * cp;
		if (outputs)
			ISA(gradient_transform)(to, vs, board, cp, d->h, d->w);
		else
			ISA(input_transform)(to, vs, board, cp, d->h, d->w);
	}
}

// prefetch prefetches one of `shares` equal shares of a block of floats, so that it is in the cache when the products are
// done. The block may be NULL, and may extend beyond its buffer: prefetching never faults.
INLINE void ISA(prefetch)(const float *x, long floats, int share, int shares) {
	if (!x) return;
	for (long j = floats * share / shares; j < floats * (share + 1) / shares; j += 16) __builtin_prefetch(x + j, 0, 2);
}

// forward and sums are conv_forward and conv_sums of fast.h.
TARGET static void ISA(forward)(float *y, const float *x, const float *x_mask, const float *u, const float *bias,
	const float *add, const float *y_mask, float *scratch, const conv_dims *d) {
	layout l = carve(d);
	float *v = scratch + l.v, *m = scratch + l.m;
	int ip = pad(d->i), op = pad(d->o), cells = d->h * d->w;
	for (int n = 0; n < d->n; n += d->block) {
		int boards = d->n - n < d->block ? d->n - n : d->block, rows = boards * tiles(d);
		long in = (long)n * d->i * cells, out = (long)n * d->o * cells, size = (long)boards * cells;
		ISA(load_block)(v, l.vs, 0, scratch, &l, x + in, x_mask ? x_mask + in : 0, boards, d->i, 0, d);
		for (int o = 0; o < op; o += PANEL) {
			int width = op - o < PANEL ? op - o : PANEL;
			for (int t = 0; t < points(d); t++) {
				if (o == 0) {
					ISA(prefetch)(y + out, size * d->o, t, points(d));
					ISA(prefetch)(add ? add + out : 0, size * d->o, t, points(d));
					ISA(prefetch)(y_mask ? y_mask + out : 0, size * d->o, t, points(d));
					if (n + d->block < d->n) ISA(prefetch)(x + in + size * d->i, size * d->i, t, points(d));
				}
				ISA(product)(rows, width, m + t * l.ms + o, op, v + t * l.vs, ip, 1, u + at_weight(d, t, 0, o), width,
					d->i, 0);
			}
		}
		for (int j = 0; j < boards; j++) {
			float *board = scratch, *from = m + (long)j * tiles(d) * op;
			if (d->k == 3)
				ISA(output_transform)(board, from, l.ms, op, d->h, d->w);
			else
				board = from;
			long at = (long)(n + j) * d->o * cells;
			ISA(store)(y + at, board, scratch + l.flat, bias, add ? add + at : 0, y_mask ? y_mask + at : 0, d->relu, d->o, cells,
				d->last);
		}
	}
}

TARGET static void ISA(sums)(float *sums, float *dbias, const float *x, const float *dy, const float *y, float *scratch,
	const conv_dims *d) {
	layout l = carve(d);
	float *v = scratch + l.v, *m = scratch + l.m;
	int ip = pad(d->i), op = pad(d->o), cells = d->h * d->w;
	memset(dbias, 0, 4 * d->o);
	if (d->n == 0) memset(sums, 0, 4 * conv_sizes(d).sums);
	for (int n = 0; n < d->n; n += d->block) {
		int boards = d->n - n < d->block ? d->n - n : d->block, depth = boards * tiles(d);
		long in = (long)n * d->i * cells, out = (long)n * d->o * cells, size = (long)boards * cells;
		ISA(load_block)(v, l.vs, 0, scratch, &l, x + in, 0, boards, d->i, 0, d);
		ISA(load_block)(m, l.ms, dbias, scratch, &l, dy + out, y ? y + out : 0, boards, d->o, 1, d);
		for (int t = 0; t < points(d); t++) {
			if (n + d->block < d->n) {
				ISA(prefetch)(x + in + size * d->i, size * d->i, t, points(d));
				ISA(prefetch)(dy + out + size * d->o, size * d->o, t, points(d));
			}
			for (int o = 0; o < op; o += PANEL)
				ISA(product)(d->i, op - o < PANEL ? op - o : PANEL, sums + (long)t * d->i * op + o, op, v + t * l.vs, 1, ip,
					m + t * l.ms + o, op, depth, n > 0);
		}
	}
}

// ceiling is conv_ceiling of fast.h. Its 12 sums hide the latency of an instruction.
TARGET static double ISA(ceiling)(long rounds) {
	vec sum[12];
	vec a = (vec){0} + 0.999f, b = (vec){0} + 0.001f;
	UNROLL for (int j = 0; j < 12; j++) sum[j] = (vec){0} + (float)j;
	for (long r = 0; r < rounds; r++)
		UNROLL for (int j = 0; j < 12; j++) sum[j] = sum[j] * a + b;
	float all = 0;
	for (int j = 0; j < 12; j++)
		for (int l = 0; l < WIDTH; l++) all += sum[j][l];
	return all == 0 ? 0 : 2.0 * 12 * WIDTH * rounds;
}

#undef vec
#undef INLINE
#undef UNROLL
#undef VECS
