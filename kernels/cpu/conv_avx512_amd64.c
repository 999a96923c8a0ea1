//go:build cgo

// float32 in vectors of 16.
#include <immintrin.h>

#include "conv_amd64.h"

#define NAME(x) x##_avx512
#define TARGET __attribute__((target("avx512f")))
#define VEC __m512
#define LANES 16
#define PANEL 4
#define LOAD(p) _mm512_loadu_ps(p)
#define STORE(p, v) _mm512_storeu_ps(p, v)
#define SPREAD(p) _mm512_set1_ps(*(p))
#define ADD(a, b) _mm512_add_ps(a, b)
#define RELU(v) _mm512_max_ps(_mm512_setzero_ps(), v) // of zero and NaN the second is taken: NaN
#define MAC(sum, a, b) _mm512_fmadd_ps(a, b, sum)
#define STORE_PAIRS(p, v)

#include "template_amd64.h"
