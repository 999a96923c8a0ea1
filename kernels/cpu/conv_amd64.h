// The operation that doc.go defines, as conv.go's struct of the same name calls it.
#ifndef CONV_AMD64_H
#define CONV_AMD64_H

#include <stdint.h>

typedef struct {
	const int32_t *cells, *taps;
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

void conv_avx2(conv c);
void conv_avx512(conv c);
void conv_avx512bf16(conv c);
void conv_amx(conv c);
void conv_amx_emulated(conv c);

// Each peak does n * 12 independent multiply-add instructions in registers.
void peak_avx2(int64_t n);
void peak_avx512(int64_t n);
void peak_avx512bf16(int64_t n);
void peak_amx(int64_t n); // 4 tile multiplications a turn

#endif
