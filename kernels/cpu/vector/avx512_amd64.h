// The vectors of AVX-512: 16 floats. doc.go lists the macros.
#include <immintrin.h>

#define VEC __m512
#define LANES 16
#define REGISTER "v"
#define LOAD(p) _mm512_loadu_ps(p)
#define STORE(p, v) _mm512_storeu_ps(p, v)
#define SPREAD(p) _mm512_set1_ps(*(p))
#define FMA(sum, a, b) _mm512_fmadd_ps(a, b, sum)
#define FMA_EACH(sum, a, b) FMA(sum, a, b)
#define ADD(a, b) _mm512_add_ps(a, b)
#define RELU(v) _mm512_max_ps(_mm512_setzero_ps(), v) // with zero and NaN the second operand is taken: NaN stays
#define NONZERO(v) _mm512_cmp_ps_mask(v, _mm512_setzero_ps(), _CMP_NEQ_UQ)
#define ABOVE(v, w) _mm512_cmp_ps_mask(v, w, _CMP_NLE_UQ)
#define COMPRESS(mask, v) _mm512_maskz_compress_ps(mask, v) // the lanes in the mask, packed
#define COUNTING _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)

// For vectors of 16 words of two bfloat16 each: those in the lower halves.
#define LOWER_HALVES(v) (VEC) _mm512_slli_epi32((__m512i)(v), 16)

// For vectors of 16 words of four bytes: sum, int32 in a VEC, plus the four products of each word's unsigned bytes in a with
// signed ones in b; and int32 as float. It is asm because gcc copies the intrinsic's sums until registers run out.
#define DOT_INT8(sum, a, b) dot_int8_avx512(sum, a, b)

static inline __attribute__((always_inline, target("avx512vnni"))) __m512 dot_int8_avx512(__m512 sum, __m512 a, __m512 b) {
	__asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
	return sum;
}

#define FROM_INT32(v) _mm512_cvtepi32_ps((__m512i)(v))

// Each lane of v, none negative, rounded to the nearest of 0 to 255, ties to even, at p, a byte each. NaN becomes 255.
#define STORE_UINT8(p, v) _mm_storeu_si128((__m128i *)(p), _mm512_cvtusepi32_epi8(_mm512_cvtps_epi32(v)))

// For vectors of 16 pairs of bfloat16: sum plus both products of each pair, and v rounded to bfloat16 at p, 2 bytes each.
#define DOT_BF16(sum, a, b) _mm512_dpbf16_ps(sum, (__m512bh)(a), (__m512bh)(b))
#define STORE_BF16(p, v) _mm256_storeu_si256((__m256i *)(p), (__m256i)_mm512_cvtneps_pbh(v))
