// The AVX-512 vectors for microkernel.h: 16 floats.
#include <immintrin.h>

#define VEC __m512
#define LANES 16
#define REGISTER "v"
#define LOAD(p) _mm512_loadu_ps(p)
#define STORE(p, v) _mm512_storeu_ps(p, v)
#define SPREAD(p) _mm512_set1_ps(*(p))
#define SPREAD_FLOAT(p) _mm512_set1_ps(*(p))
#define FMA(sum, a, b) _mm512_fmadd_ps(a, b, sum)
#define NONZERO(v) _mm512_cmp_ps_mask(v, _mm512_setzero_ps(), _CMP_NEQ_UQ)
#define ADD(a, b) _mm512_add_ps(a, b)
#define RELU(v) _mm512_max_ps(_mm512_setzero_ps(), v) // with zero and NaN the second operand is taken: NaN stays
