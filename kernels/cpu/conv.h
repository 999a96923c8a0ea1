// The operation that doc.go defines. The struct is that of the same name in conv.go.
#ifndef CONV_H
#define CONV_H

#include <stdint.h>

typedef struct {
	const int32_t *cells, *taps;
	const uint16_t *near; // [cell_count], or null
	int64_t cell_count, tap_count;
	const float *src; // [cell][stride] words
	int64_t stride, words;
	const float *weights; // [panel][tap][word][outputs of the panel]
	const float *bias;    // [width]
	int64_t width;
	const float *add; // [cell][width] or null
	float *dst;       // [cell][width] or null
	void *pairs;      // [cell][width] bfloat16 or null
	int64_t relu;
} conv;

// The struct of sparse.go.
typedef struct {
	const int32_t *cells, *taps; // cells of one position
	const uint16_t *near;        // [cell_count]
	int64_t cell_count, width, few;
	const float *src;            // [cell][width]
	const float *weights, *bias; // [input][tap][width], [width]
	int64_t add;
	float *dst;  // [cell][width]
	void *pairs; // [cell][width] bfloat16 or null
	int32_t *nonzeros;
} sparse;

void conv_avx2(conv c);
void conv_avx512(conv c);
void conv_avx512bf16(conv c);
void conv_amx(conv c);
void conv_amx_emulated(conv c);
void conv_neon(conv c);
void conv_neonbf16(conv c);

void sparse_avx2(sparse s);
void sparse_avx512(sparse s);
void sparse_avx512bf16(sparse s);
void sparse_neon(sparse s);
void sparse_neonbf16(sparse s);

// The structs of winograd.go.
typedef struct {
	int32_t rows, columns, in[36], out[16], at[36];
} winograd_tile;

typedef struct {
	const winograd_tile *tiles;
	int64_t tile_count, positions, cells, width;
	const int32_t *each; // [36]
	const float *src, *bias, *add;
	float *points, *products, *dst;
} winograd;

void winograd_in_avx2(winograd w);
void winograd_in_avx512(winograd w);
void winograd_in_neon(winograd w);
void winograd_out_avx2(winograd w);
void winograd_out_avx512(winograd w);
void winograd_out_neon(winograd w);

// Each peak executes n rounds of independent multiply-add instructions in registers, as many as a tile has sums.
void peak_avx2(int64_t n);
void peak_avx512(int64_t n);
void peak_avx512bf16(int64_t n);
void peak_neon(int64_t n);
void peak_neonbf16(int64_t n);
void peak_amx(int64_t n); // n * 4 tile multiplications

#endif
