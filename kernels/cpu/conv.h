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
	const float *scale;   // [width], or null: see layer.scale in conv.go
	int64_t width;
	const float *add; // [cell][width] or null
	float *dst;       // [cell][width] or null
	void *pairs;      // [cell][width] bfloat16 or null
	int64_t relu;
} conv;

// The struct of sparse.go.
typedef struct {
	const int32_t *cells; // [cell_count]
	const int32_t *spans; // [cell_count][3][2]
	int64_t cell_count, columns, positions, padded, width, row, full, few;
	const float *src;            // [position][padded cell][width]
	const float *weights, *bias; // [input][tap][row], [width]
	int64_t add;
	float *dst;        // [position][padded cell][width]
	void *pairs;       // the same in bfloat16, or null
	int32_t *nonzeros; // [positions]
	float *values, *around;
	int32_t *places, *at, *starts;
} sparse;

void conv_avx2(conv c);
void conv_avx512(conv c);
void conv_avx512bf16(conv c);
void conv_amx(conv c);
void conv_amx_emulated(conv c);
void conv_neon(conv c);
void conv_neonbf16(conv c);

// The struct of int8.go.
typedef struct {
	const int32_t *cells, *taps;
	const uint16_t *near; // [near_count]: those of one position
	int64_t cell_count, near_count, width, words, row, full;
	const float *src;           // [cell][width]
	const float *each, *ranges; // [width]
	const float *weights;       // [input][tap][row]
	uint8_t *dst;               // [cell][words] of four bytes
	float *sums;                // [cell][width]
} quantize;

void conv_avxvnni(conv c);
void conv_neoni8mm(conv c);
void conv_avx512vnni(conv c);
void quantize_avxvnni(quantize q);
void quantize_neoni8mm(quantize q);
void quantize_avx512vnni(quantize q);

void sparse_avx2(sparse s);
void sparse_avx512(sparse s);
void sparse_avxvnni(sparse s);
void sparse_avx512vnni(sparse s);
void sparse_avx512bf16(sparse s);
void sparse_neon(sparse s);
void sparse_neonbf16(sparse s);

// The struct of heads.go.
typedef struct {
	const int32_t *cells; // [positions][cell_count]
	int64_t cell_count, positions, channels, stride, width;
	const float *src; // [cell][stride]
	float *dst;       // [positions][width]
} pool;

void pool_avx2(pool p);
void pool_avx512(pool p);
void pool_neon(pool p);

// The structs of winograd.go.
typedef struct {
	int32_t rows, columns, in[36], out[16], at[36];
} winograd_tile;

typedef struct {
	const winograd_tile *tiles;
	int64_t tile_count, positions, cells, width, words, from, to;
	const int32_t *each, *first, *slots;
	const float *src, *bias, *add;
	const float *weights, *zeros; // [36][words][width], [width]
	float *points, *products, *dst;
} winograd;

void winograd_in_avx2(winograd w);
void winograd_in_avx512(winograd w);
void winograd_in_neon(winograd w);
void winograd_products_avx2(winograd w);
void winograd_products_avx512(winograd w);
void winograd_products_neon(winograd w);
void winograd_out_avx2(winograd w);
void winograd_out_avx512(winograd w);
void winograd_out_neon(winograd w);

// Each peak executes n rounds of independent multiply-add instructions in registers; a round has one for each sum of a tile.
void peak_avx2(int64_t n);
void peak_avx512(int64_t n);
void peak_avx512bf16(int64_t n);
void peak_avxvnni(int64_t n);
void peak_avx512vnni(int64_t n);
void peak_neon(int64_t n);
void peak_neonbf16(int64_t n);
void peak_neoni8mm(int64_t n);
// n * 4 tile multiplications
void peak_amx(int64_t n);
void peak_amx_emulated(int64_t n);

#endif
