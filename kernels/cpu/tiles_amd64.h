// The operation on AMX tiles: 2 runs of 16 cells by 2 times 16 outputs, whose four sums stay in tiles 0 to 3. Tiles 4 and 5
// hold inputs, with a row of 32 channels per cell. Tiles 6 and 7 hold weights, with a row of pairs for 16 outputs.
//
// The processor reads a tile's rows at a constant distance, so a run is 16 consecutive padded cells of a block whose positions
// are side by side (scratch.go): one cell of 16 positions, or some cells of a row of fewer positions, including border cells.
// Only the requested cells are stored. A tap is skipped for a run if it is off the board for all of its cells.
//
// Sums leave tiles through memory. While the tiles compute the next products, vector instructions finish and store the previous
// sums, two cells for each step of four products.
//
// The file that includes this defines NAME and TARGET. Words and width are multiples of 16 and 32.

#define STORE_PAIRS STORE_BF16

#include "store.h"

// tiles configures eight tiles of 16 rows of 64 bytes.
static const struct __attribute__((aligned(64))) {
	uint8_t palette, start_row, reserved[14];
	uint16_t bytes[16];
	uint8_t rows[16];
} tiles = {1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};

// run is the cells of conv.cells, ascending, that one tile of 16 padded cells covers.
typedef struct {
	int64_t first, count; // the first cell, and their number
	uint32_t rows;        // has bit r set if cell first + r is one of them
	uint32_t near;        // the taps that are near any of them
} run;

// next_run returns the run that starts with number m of the cells. It is empty if there are no more cells.
TARGET static inline run NAME(next_run)(const conv *c, int64_t m) {
	const int64_t left = c->cell_count - m;
	if (left == 0) return (run){0};
	const __mmask16 there = left < 16 ? (1 << left) - 1 : 0xffff;
	const __m512i cells = _mm512_maskz_loadu_epi32(there, c->cells + m), before = _mm512_alignr_epi32(cells, cells, 15);
	const __m512i row = _mm512_sub_epi32(cells, _mm512_set1_epi32(c->cells[m]));
	const unsigned follow = there & _mm512_cmpgt_epi32_mask(cells, before) & _mm512_cmplt_epu32_mask(row, _mm512_set1_epi32(16));
	const int64_t count = __builtin_ctz(~(follow | 1));
	const __mmask16 in = (1 << count) - 1;
	run r = {c->cells[m], count, _mm512_mask_reduce_or_epi32(in, _mm512_sllv_epi32(_mm512_set1_epi32(1), row)), ~0u};
	if (c->near) r.near = _mm512_mask_reduce_or_epi32(in, _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(in, c->near + m)));
	return r;
}

// waiting is 32 outputs of two runs whose sums are not stored yet.
typedef struct {
	uint32_t rows;     // of both tiles, those of the second in the upper half
	int64_t at[2];     // index in conv.dst of the outputs of each tile's first row
	int64_t first;     // the first output
	const float *sums; // [output / 16][row of both tiles][output]
} waiting;

// store_next stores the outputs of one cell, if there is one.
INLINE NAME(store_next)(const conv *c, waiting *w) {
	if (w->rows == 0) return;
	int64_t row = __builtin_ctz(w->rows), at = w->at[row / 16] + row % 16 * c->width;
	w->rows &= w->rows - 1;
	const float *bias = c->bias + w->first, *sums = w->sums + row * 16;
	NAME(store)(c, at, ADD(LOAD(bias), LOAD(sums)));
	NAME(store)(c, at + 16, ADD(LOAD(bias + 16), LOAD(sums + 32 * 16)));
}

// multiply computes 32 outputs of two runs into sums, and stores the waiting outputs meanwhile.
INLINE NAME(multiply)(const conv *c, run a, run b, const float *w, float sums[2][2][16][16], waiting *before) {
	_tile_zero(0);
	_tile_zero(1);
	_tile_zero(2);
	_tile_zero(3);
	const int64_t distance = c->stride * 4;
	for (int64_t t = 0; t < c->tap_count; t++, w += c->words * 32) {
		const float *x = c->src + (a.first + c->taps[t]) * c->stride;
		const float *y = c->src + (b.first + c->taps[t]) * c->stride;
		const int in_a = a.near >> t & 1, in_b = b.near >> t & 1;
		for (int64_t word = 0; (in_a || in_b) && word < c->words; word += 16) {
			_tile_loadd(6, w + word * 32, 128);
			_tile_loadd(7, w + word * 32 + 16, 128);
			if (in_a) {
				_tile_loadd(4, x + word, distance);
				_tile_dpbf16ps(0, 4, 6);
				_tile_dpbf16ps(1, 4, 7);
				NAME(store_next)(c, before);
			}
			if (in_b) {
				_tile_loadd(5, y + word, distance);
				_tile_dpbf16ps(2, 5, 6);
				_tile_dpbf16ps(3, 5, 7);
				NAME(store_next)(c, before);
			}
		}
	}
	while (before->rows) NAME(store_next)(c, before);
	_tile_stored(0, sums[0][0], 64);
	_tile_stored(1, sums[1][0], 64);
	_tile_stored(2, sums[0][1], 64);
	_tile_stored(3, sums[1][1], 64);
}

TARGET void NAME(conv)(conv c) {
	float sums[2][2][2][16][16] __attribute__((aligned(64))); // alternating, [output / 16][tile][row][output]
	waiting before = {0};
	int turn = 0;
	_tile_loadconfig(&tiles);
	for (int64_t first = 0; first < c.width; first += 32) {
		for (int64_t m = 0; m < c.cell_count; turn ^= 1) {
			run a = NAME(next_run)(&c, m), b = NAME(next_run)(&c, m + a.count);
			NAME(multiply)(&c, a, b, c.weights + first * c.tap_count * c.words, sums[turn], &before);
			before = (waiting){a.rows | b.rows << 16, {a.first * c.width + first, b.first * c.width + first}, first, sums[turn][0][0][0]};
			m += a.count + b.count;
		}
	}
	while (before.rows) NAME(store_next)(&c, &before);
	_tile_release();
}

// Four independent products, in the same registers as in conv.
TARGET void NAME(peak)(int64_t n) {
	_tile_loadconfig(&tiles);
	_tile_zero(0);
	_tile_zero(1);
	_tile_zero(2);
	_tile_zero(3);
	_tile_zero(4);
	_tile_zero(5);
	_tile_zero(6);
	_tile_zero(7);
	for (; n > 0; n--) {
		_tile_dpbf16ps(0, 4, 6);
		_tile_dpbf16ps(1, 4, 7);
		_tile_dpbf16ps(2, 5, 6);
		_tile_dpbf16ps(3, 5, 7);
	}
	_tile_release();
}
