// The vectors of AVX2 and FMA: 8 floats. doc.go lists the macros.
#include <immintrin.h>

#define VEC __m256
#define LANES 8
#define REGISTER "v"
#define LOAD(p) _mm256_loadu_ps(p)
#define STORE(p, v) _mm256_storeu_ps(p, v)
#define SPREAD(p) _mm256_broadcast_ss(p)
#define FMA(sum, a, b) _mm256_fmadd_ps(a, b, sum)
#define ADD(a, b) _mm256_add_ps(a, b)
#define RELU(v) _mm256_max_ps(_mm256_setzero_ps(), v) // with zero and NaN the second operand is taken: NaN stays
#define NONZERO(v) (unsigned)_mm256_movemask_ps(_mm256_cmp_ps(v, _mm256_setzero_ps(), _CMP_NEQ_UQ))
