//go:build cgo

// bfloat16, multiplied in pairs and summed in float32, in vectors of 16 sums.
#include "conv.h"
#include "vector_avx512_amd64.h"

#define NAME(x) x##_avx512bf16
#define TARGET __attribute__((target("avx512f,avx512bf16")))
#define PANEL 4
#define MAC(sum, a, b) _mm512_dpbf16_ps(sum, (__m512bh)(a), (__m512bh)(b))
#define STORE_PAIRS(p, v) _mm256_storeu_si256((__m256i *)(p), (__m256i)_mm512_cvtneps_pbh(v))

#include "microkernel.h"
#include "sparse.h"
