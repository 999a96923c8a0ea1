// The vectors of NEON: 4 floats. doc.go lists the macros.
#include <arm_neon.h>

#define VEC float32x4_t
#define LANES 4
#define REGISTER "w"
#define LOAD(p) vld1q_f32(p)
#define STORE(p, v) vst1q_f32(p, v)
#define SPREAD(p) scalar(p)
#define FMA(sum, a, b) vfmaq_n_f32(sum, b, a)
#define ADD(a, b) vaddq_f32(a, b)
#define RELU(v) vmaxq_f32(vdupq_n_f32(0), v) // of zero and NaN this is NaN
#define NONZERO(v) (15 & ~vaddvq_u32(vandq_u32(vceqzq_f32(v), (uint32x4_t){1, 2, 4, 8})))
#define ABOVE(v, w) (15 & ~vaddvq_u32(vandq_u32(vcleq_f32(v, w), (uint32x4_t){1, 2, 4, 8})))

// For vectors of 2 rows of 4 bfloat16, on processors with FEAT_BF16: MMLA_BF16(sum, a, b) is the 2x2 sums plus a times the transpose of b,
// and STORE_BF16 stores v rounded to bfloat16 at p, 2 bytes each. PAIR has a row from each of two places, LOWS and HIGHS have
// a half of each of two vectors.
#define MMLA_BF16(sum, a, b) vbfmmlaq_f32(sum, vreinterpretq_bf16_f32(a), vreinterpretq_bf16_f32(b))
#define STORE_BF16(p, v) vst1_bf16((bfloat16_t *)(p), vcvt_bf16_f32(v))
#define PAIR(p, q) vcombine_f32(vld1_f32(p), vld1_f32(q))
#define LOWS(a, b) vcombine_f32(vget_low_f32(a), vget_low_f32(b))
#define HIGHS(a, b) vcombine_f32(vget_high_f32(a), vget_high_f32(b))

// scalar loads one float, which FMA multiplies with a whole vector (FMLA by element). Loading it into all lanes of a vector
// (LD1R) would cost an arithmetic instruction on many processors. The empty asm keeps clang from doing that, and it is
// volatile to keep gcc from loading all factors at once, for which there are no registers.
static inline __attribute__((always_inline)) float scalar(const float *p) {
	float x = *p;
	__asm__ volatile("" : "+w"(x));
	return x;
}
