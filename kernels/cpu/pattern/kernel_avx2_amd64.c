//go:build cgo

// AVX2. The products of two pairs of bytes are summed in an int16 without overflow: 2 * 127 * 128 is less than 2^15.
#include "pattern.h"
#include <immintrin.h>

#define NAME(x) x##_avx2
#define TARGET __attribute__((target("avx2")))
#define V16 __m256i
#define N16 16
#define LOAD16(p) _mm256_loadu_si256((const __m256i *)(p))
#define STORE16(p, v) _mm256_storeu_si256((__m256i *)(p), v)
#define ADD16 _mm256_add_epi16
#define CLAMP(x) _mm256_min_epi16(_mm256_max_epi16(x, _mm256_setzero_si256()), _mm256_set1_epi16(255))
#define ACTIVATE(p, x, y) bytes16(p, _mm256_srli_epi16(_mm256_mullo_epi16(CLAMP(x), CLAMP(y)), 9))
#define V32 __m256i
#define N32 8
#define LOAD32(p) _mm256_loadu_si256((const __m256i *)(p))
#define STORE32(p, v) _mm256_storeu_si256((__m256i *)(p), v)
#define DOT(sum, x, w) _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(x, w), _mm256_set1_epi16(1)))
#define SPREAD(p) _mm256_set1_epi32(*(const int32_t *)(p))
#define HIDDEN(p, v) bytes32(p, _mm256_min_epi32(_mm256_max_epi32(_mm256_srai_epi32(v, 6), _mm256_setzero_si256()), _mm256_set1_epi32(127)))

__attribute__((target("avx2"))) static inline void bytes16(uint8_t *p, __m256i v) {
	_mm_storeu_si128((__m128i *)p, _mm_packus_epi16(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1)));
}

__attribute__((target("avx2"))) static inline void bytes32(uint8_t *p, __m256i v) {
	__m128i words = _mm_packus_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
	_mm_storel_epi64((__m128i *)p, _mm_packus_epi16(words, words));
}

#include "kernel.h"
