// A model of AMX's tile instructions in plain C, so that the code around them can be tested on processors without AMX. Include
// this before tiles_amd64.h. Only the tile instructions are replaced.
#include <stdlib.h>
#include <string.h>

#undef _tile_loadconfig
#undef _tile_release
#undef _tile_loadd
#undef _tile_stored
#undef _tile_zero
#undef _tile_dpbf16ps
#define _tile_loadconfig(p) load_config(p)
#define _tile_release() memset(&model, 0, sizeof model)
#define _tile_loadd(tile, base, stride) load_tile(tile, base, stride)
#define _tile_stored(tile, base, stride) store_tile(tile, base, stride)
#define _tile_zero(tile) memset(model.data[tile], 0, sizeof model.data[tile])
#define _tile_dpbf16ps(sum, a, b) multiply_bf16(sum, a, b)

// model is the processor's state: a tile has up to 16 rows of up to 64 bytes. Released tiles have no rows, so code that forgets
// to configure them computes nothing. Each thread has its own state, which is not freed when the thread ends. initial-exec: the
// default model of thread-local memory would need the dynamic linker as a library. Only a pointer: a program that loads evald as
// a library has little room for such memory.
struct tiles {
	int rows[8], bytes[8];
	uint8_t data[8][16][64];
};
static _Thread_local struct tiles *held __attribute__((tls_model("initial-exec")));

static struct tiles *state(void) {
	if (held == NULL && (held = calloc(1, sizeof *held)) == NULL) abort();
	return held;
}

#define model (*state())

static void load_config(const void *config) {
	const uint8_t *c = config;
	memset(&model, 0, sizeof model);
	if (c[0] != 1) return; // unknown palette
	for (int t = 0; t < 8; t++) {
		model.bytes[t] = c[16 + 2 * t] | c[17 + 2 * t] << 8;
		model.rows[t] = c[48 + t];
	}
}

static void load_tile(int t, const void *base, int64_t stride) {
	memset(model.data[t], 0, sizeof model.data[t]);
	for (int r = 0; r < model.rows[t]; r++) memcpy(model.data[t][r], (const uint8_t *)base + r * stride, model.bytes[t]);
}

static void store_tile(int t, void *base, int64_t stride) {
	for (int r = 0; r < model.rows[t]; r++) memcpy((uint8_t *)base + r * stride, model.data[t][r], model.bytes[t]);
}

static float number(const uint8_t *bfloat16) {
	uint32_t bits = (uint32_t)bfloat16[0] << 16 | (uint32_t)bfloat16[1] << 24;
	float x;
	memcpy(&x, &bits, 4);
	return x;
}

// multiply_bf16 adds to sum[m][n] the products of the pairs a[m][k] and b[k][n], each of two bfloat16, in the order of k.
static void multiply_bf16(int sum, int a, int b) {
	for (int m = 0; m < model.rows[sum]; m++) {
		for (int n = 0; n < model.bytes[sum] / 4; n++) {
			float total;
			memcpy(&total, &model.data[sum][m][4 * n], 4);
			for (int k = 0; k < model.bytes[a] / 4; k++) {
				const uint8_t *x = &model.data[a][m][4 * k], *y = &model.data[b][k][4 * n];
				total += number(x) * number(y);
				total += number(x + 2) * number(y + 2);
			}
			memcpy(&model.data[sum][m][4 * n], &total, 4);
		}
	}
}
