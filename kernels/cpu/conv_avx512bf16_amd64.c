//go:build cgo

// bfloat16 multiplied in pairs and summed in float32, in vectors of 16 sums.
#include <immintrin.h>

#include "conv_amd64.h"

#define NAME(x) x##_avx512bf16
#define TARGET __attribute__((target("avx512f,avx512bf16")))
#define VEC __m512
#define LANES 16
#define PANEL 4
#define LOAD(p) _mm512_loadu_ps(p)
#define STORE(p, v) _mm512_storeu_ps(p, v)
#define SPREAD(p) _mm512_set1_ps(*(p))
#define ADD(a, b) _mm512_add_ps(a, b)
#define RELU(v) _mm512_max_ps(_mm512_setzero_ps(), v) // of zero and NaN the second is taken: NaN
#define MAC(sum, a, b) _mm512_dpbf16_ps(sum, (__m512bh)(a), (__m512bh)(b))
#define STORE_PAIRS(p, v) _mm256_storeu_si256((__m256i *)(p), (__m256i)_mm512_cvtneps_pbh(v))

#include "template_amd64.h"
