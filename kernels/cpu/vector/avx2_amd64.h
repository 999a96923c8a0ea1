// The vectors of AVX2 and FMA: 8 floats. doc.go lists the macros.
#include <immintrin.h>
#include <stdint.h>

#define VEC __m256
#define LANES 8
#define REGISTER "v"
#define LOAD(p) _mm256_loadu_ps(p)
#define STORE(p, v) _mm256_storeu_ps(p, v)
#define SPREAD(p) _mm256_broadcast_ss(p)
#define FMA(sum, a, b) _mm256_fmadd_ps(a, b, sum)
#define FMA_EACH(sum, a, b) FMA(sum, a, b)
#define ADD(a, b) _mm256_add_ps(a, b)
#define RELU(v) _mm256_max_ps(_mm256_setzero_ps(), v) // with zero and NaN the second operand is taken: NaN stays
#define NONZERO(v) (unsigned)_mm256_movemask_ps(_mm256_cmp_ps(v, _mm256_setzero_ps(), _CMP_NEQ_UQ))
#define ABOVE(v, w) (unsigned)_mm256_movemask_ps(_mm256_cmp_ps(v, w, _CMP_NLE_UQ))

// For vectors of 8 words of two bfloat16 each: those in the lower halves.
#define LOWER_HALVES(v) (VEC) _mm256_slli_epi32((__m256i)(v), 16)

// For vectors of 8 words of four bytes, on processors with AVX-VNNI: sum, int32 in a VEC, plus the four products of each word's
// unsigned bytes in a with signed ones in b; and int32 as float. It is asm because gcc copies the intrinsic's sums until
// registers run out.
#define DOT_INT8(sum, a, b) dot_int8_avx2(sum, a, b)

static inline __attribute__((always_inline, target("avxvnni"))) __m256 dot_int8_avx2(__m256 sum, __m256 a, __m256 b) {
	__asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(a), "x"(b));
	return sum;
}

#define FROM_INT32(v) _mm256_cvtepi32_ps((__m256i)(v))

// Each lane of v, none negative, rounded to the nearest of 0 to 255, ties to even, at p, a byte each. NaN becomes 255.
#define STORE_UINT8(p, v) store_uint8(p, _mm256_cvtps_epi32(v))

static inline __attribute__((always_inline, target("avx2"))) void store_uint8(uint8_t *p, __m256i v) {
	v = _mm256_min_epu32(v, _mm256_set1_epi32(255));
	__m128i words = _mm_packus_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
	_mm_storel_epi64((__m128i *)p, _mm_packus_epi16(words, words));
}
