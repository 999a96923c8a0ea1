// The operation on AMX tiles: 2 runs of 16 cells by 2 times 16 outputs, whose four sums stay in tiles 0 to 3. Tiles 4 and 5
// hold inputs, with a row of 32 channels per cell. Tiles 6 and 7 hold weights, with a row of pairs for 16 outputs.
//
// The processor reads a tile's rows at a constant distance, so a run is 16 consecutive padded cells, including those of the
// border. On 7x6, whose padded rows have 8 cells, that is two rows of the board. Only the requested cells are stored.
//
// The file that includes this defines NAME and TARGET, and DOT_TILES, which multiplies tiles. If the sums are not of float32, it also
// defines LAST (direct.h), and they begin with zero in place of the bias. Words and width are multiples of 16 and 32.

#define STORE_PAIRS STORE_BF16

#include "store.h"

#ifdef LAST
#define FIRST_TILE(tile, bias) _tile_zero(tile)
#else
#define FIRST_TILE(tile, bias) _tile_loadd(tile, bias, 0) // distance 0 gives every row the bias
#define LAST(c, o, sum) sum
#endif

// tiles is a configuration of eight tiles of 16 rows of 64 bytes.
static const struct __attribute__((aligned(64))) {
	uint8_t palette, start_row, reserved[14];
	uint16_t bytes[16];
	uint8_t rows[16];
} tiles = {1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};

// run is the cells of conv.cells, ascending, that one tile of 16 padded cells covers.
typedef struct {
	const int32_t *cells;
	int64_t count;
} run;

// next_run is the run that starts with the first of the remaining cells.
static run next_run(const int32_t *cells, int64_t left) {
	run r = {cells, 1};
	while (r.count < left && cells[r.count] > cells[r.count - 1] && cells[r.count] < cells[0] + 16) r.count++;
	return r;
}

// multiply computes 32 outputs of two runs into sums.
INLINE NAME(multiply)(const conv *c, run a, run b, const float *w, const float *bias, float sums[2][2][16][16]) {
	FIRST_TILE(0, bias);
	FIRST_TILE(1, bias + 16);
	FIRST_TILE(2, bias);
	FIRST_TILE(3, bias + 16);
	const int64_t distance = c->stride * 4;
	for (int64_t t = 0; t < c->tap_count; t++) {
		const float *x = c->src + (a.cells[0] + c->taps[t]) * c->stride;
		const float *y = c->src + (b.cells[0] + c->taps[t]) * c->stride;
		for (int64_t word = 0; word < c->words; word += 16, w += 16 * 32) {
			_tile_loadd(4, x + word, distance);
			_tile_loadd(6, w, 128);
			_tile_loadd(7, w + 16, 128);
			_tile_loadd(5, y + word, distance);
			DOT_TILES(0, 4, 6);
			DOT_TILES(1, 4, 7);
			DOT_TILES(2, 5, 6);
			DOT_TILES(3, 5, 7);
		}
	}
	_tile_stored(0, sums[0][0], 64);
	_tile_stored(1, sums[0][1], 64);
	_tile_stored(2, sums[1][0], 64);
	_tile_stored(3, sums[1][1], 64);
}

// store_run stores the outputs [first, first+32) of a run.
INLINE NAME(store_run)(const conv *c, run r, int64_t first, float sums[2][16][16]) {
	for (int64_t i = 0; i < r.count; i++) {
		int64_t row = r.cells[i] - r.cells[0], at = r.cells[i] * c->width + first;
		NAME(store)(c, at, LAST(c, first, LOAD(sums[0][row])));
		NAME(store)(c, at + 16, LAST(c, first + 16, LOAD(sums[1][row])));
	}
}

TARGET void NAME(conv)(conv c) {
	float sums[2][2][16][16] __attribute__((aligned(64)));
	_tile_loadconfig(&tiles);
	for (int64_t first = 0; first < c.width; first += 32) {
		for (int64_t m = 0; m < c.cell_count;) {
			run a = next_run(c.cells + m, c.cell_count - m), b = a;
			m += a.count;
			int two = m < c.cell_count; // if false, the second run repeats the first and is not stored
			if (two) {
				b = next_run(c.cells + m, c.cell_count - m);
				m += b.count;
			}
			NAME(multiply)(&c, a, b, c.weights + first * c.tap_count * c.words, c.bias + first, sums);
			NAME(store_run)(&c, a, first, sums[0]);
			if (two) NAME(store_run)(&c, b, first, sums[1]);
		}
	}
	_tile_release();
}

// Four independent products, in the registers of conv.
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
		DOT_TILES(0, 4, 6);
		DOT_TILES(1, 4, 7);
		DOT_TILES(2, 5, 6);
		DOT_TILES(3, 5, 7);
	}
	_tile_release();
}
