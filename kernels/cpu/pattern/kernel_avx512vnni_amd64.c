//go:build cgo

// AVX-512 with products of bytes (VNNI).
#include "pattern.h"
#include <immintrin.h>

#define NAME(x) x##_avx512vnni
#define TARGET __attribute__((target("avx512f,avx512bw,avx512vnni")))
#define V16 __m512i
#define N16 32
#define LOAD16(p) _mm512_loadu_si512(p)
#define STORE16(p, v) _mm512_storeu_si512(p, v)
#define ADD16 _mm512_add_epi16
#define CLAMP(x) _mm512_min_epi16(_mm512_max_epi16(x, _mm512_setzero_si512()), _mm512_set1_epi16(255))
#define ACTIVATE(p, x, y) _mm256_storeu_si256((__m256i *)(p), _mm512_cvtepi16_epi8(_mm512_srli_epi16(_mm512_mullo_epi16(CLAMP(x), CLAMP(y)), 9)))
#define V32 __m512i
#define N32 16
#define LOAD32(p) _mm512_loadu_si512(p)
#define STORE32(p, v) _mm512_storeu_si512(p, v)
#define DOT(sum, x, w) _mm512_dpbusd_epi32(sum, x, w)
#define SPREAD(p) _mm512_set1_epi32(*(const int32_t *)(p))
#define HIDDEN(p, v) _mm_storeu_si128((__m128i *)(p), _mm512_cvtepi32_epi8(_mm512_min_epi32(_mm512_max_epi32(_mm512_srai_epi32(v, 6), _mm512_setzero_si512()), _mm512_set1_epi32(127))))

#include "kernel.h"
