// The vectors of AVX-512: 16 floats. doc.go lists the macros.
#include <immintrin.h>

#define VEC __m512
#define LANES 16
#define REGISTER "v"
#define LOAD(p) _mm512_loadu_ps(p)
#define STORE(p, v) _mm512_storeu_ps(p, v)
#define SPREAD(p) _mm512_set1_ps(*(p))
#define FMA(sum, a, b) _mm512_fmadd_ps(a, b, sum)
#define ADD(a, b) _mm512_add_ps(a, b)
#define RELU(v) _mm512_max_ps(_mm512_setzero_ps(), v) // with zero and NaN the second operand is taken: NaN stays
#define NONZERO(v) _mm512_cmp_ps_mask(v, _mm512_setzero_ps(), _CMP_NEQ_UQ)

// For vectors of 16 pairs of bfloat16: sum plus both products of each pair, and v rounded to bfloat16 at p, 2 bytes each.
#define DOT_BF16(sum, a, b) _mm512_dpbf16_ps(sum, (__m512bh)(a), (__m512bh)(b))
#define STORE_BF16(p, v) _mm256_storeu_si256((__m256i *)(p), (__m256i)_mm512_cvtneps_pbh(v))
