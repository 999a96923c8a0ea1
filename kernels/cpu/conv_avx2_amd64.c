//go:build cgo

// float32 in vectors of 8.
#include <immintrin.h>

#include "conv_amd64.h"

#define NAME(x) x##_avx2
#define TARGET __attribute__((target("avx2,fma")))
#define VEC __m256
#define LANES 8
#define PANEL 2
#define LOAD(p) _mm256_loadu_ps(p)
#define STORE(p, v) _mm256_storeu_ps(p, v)
#define SPREAD(p) _mm256_broadcast_ss(p)
#define ADD(a, b) _mm256_add_ps(a, b)
#define RELU(v) _mm256_max_ps(_mm256_setzero_ps(), v) // with zero and NaN the second operand is taken: NaN stays
#define MAC(sum, a, b) _mm256_fmadd_ps(a, b, sum)
#define STORE_PAIRS(p, v)

#include "template_amd64.h"
#include "winograd_amd64.h"
