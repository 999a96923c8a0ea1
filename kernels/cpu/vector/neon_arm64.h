// The vectors of NEON: 4 floats. doc.go lists the macros.
#include <arm_neon.h>

#define VEC float32x4_t
#define LANES 4
#define REGISTER "w"
#define LOAD(p) vld1q_f32(p)
#define STORE(p, v) vst1q_f32(p, v)
#define SPREAD(p) scalar(p)
#define FMA(sum, a, b) vfmaq_n_f32(sum, b, a)
#define FMA_EACH(sum, a, b) vfmaq_f32(sum, a, b)
#define ADD(a, b) vaddq_f32(a, b)
#define RELU(v) vmaxq_f32(vdupq_n_f32(0), v) // of zero and NaN this is NaN
#define NONZERO(v) (15 & ~vaddvq_u32(vandq_u32(vceqzq_f32(v), (uint32x4_t){1, 2, 4, 8})))
#define ABOVE(v, w) (15 & ~vaddvq_u32(vandq_u32(vcleq_f32(v, w), (uint32x4_t){1, 2, 4, 8})))

// For vectors of 2 rows of 4 bfloat16, on processors with FEAT_BF16: MMLA_BF16(sum, a, b) is the 2x2 sums plus a times the
// transpose of b, and STORE_BF16 stores v rounded to bfloat16 at p, 2 bytes each. PAIR joins rows from two places; LOWS and HIGHS
// join halves of two vectors.
#define MMLA_BF16(sum, a, b) vbfmmlaq_f32(sum, vreinterpretq_bf16_f32(a), vreinterpretq_bf16_f32(b))
#define STORE_BF16(p, v) vst1_bf16((bfloat16_t *)(p), vcvt_bf16_f32(v))
#define PAIR(p, q) vcombine_f32(vld1_f32(p), vld1_f32(q))
#define LOWS(a, b) vcombine_f32(vget_low_f32(a), vget_low_f32(b))
#define HIGHS(a, b) vcombine_f32(vget_high_f32(a), vget_high_f32(b))

// For vectors of 2 rows of 8 bytes, on processors with FEAT_I8MM: sum, int32 in a VEC, plus the 2x2 products of unsigned bytes in
// a with the transpose of signed ones in b; and int32 as float.
#define MMLA_INT8(sum, a, b) \
	vreinterpretq_f32_s32(vusmmlaq_s32(vreinterpretq_s32_f32(sum), vreinterpretq_u8_f32(a), vreinterpretq_s8_f32(b)))
#define FROM_INT32(v) vcvtq_f32_s32(vreinterpretq_s32_f32(v))

// Each lane of v, none negative, rounded to the nearest of 0 to 255, ties to even, at p, a byte each. NaN becomes 255.
#define STORE_UINT8(p, v) store_uint8(p, v)

static inline __attribute__((always_inline)) void store_uint8(uint8_t *p, float32x4_t v) {
	uint16x4_t numbers = vmovn_u32(vcvtnq_u32_f32(vminnmq_f32(v, vdupq_n_f32(255)))); // of a number and NaN, minnm is the number
	uint32_t word = vget_lane_u32(vreinterpret_u32_u8(vmovn_u16(vcombine_u16(numbers, numbers))), 0);
	__builtin_memcpy(p, &word, 4);
}

// scalar loads one float, which FMA multiplies with a whole vector (FMLA by element). Loading it into all lanes of a vector
// (LD1R) would cost an arithmetic instruction on many processors. The empty asm keeps clang from doing that, and it is
// volatile to keep gcc from loading all factors at once, for which there are no registers.
static inline __attribute__((always_inline)) float scalar(const float *p) {
	float x = *p;
	__asm__ volatile("" : "+w"(x));
	return x;
}
