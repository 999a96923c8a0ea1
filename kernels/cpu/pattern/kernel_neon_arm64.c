//go:build cgo

// NEON, which every arm64 has. All inputs of products are at most 127, so they are signed bytes too.
#include "pattern.h"
#include <arm_neon.h>

#define NAME(x) x##_neon
#define TARGET
#define V16 int16x8_t
#define N16 8
#define LOAD16(p) vld1q_s16(p)
#define STORE16(p, v) vst1q_s16(p, v)
#define ADD16 vaddq_s16
#define CLAMP(x) vreinterpretq_u16_s16(vminq_s16(vmaxq_s16(x, vdupq_n_s16(0)), vdupq_n_s16(255)))
#define ACTIVATE(p, x, y) vst1_u8(p, vmovn_u16(vshrq_n_u16(vmulq_u16(CLAMP(x), CLAMP(y)), 9)))
#define V32 int32x4_t
#define N32 4
#define LOAD32(p) vld1q_s32(p)
#define STORE32(p, v) vst1q_s32(p, v)
#define DOT(sum, x, w) vaddq_s32(sum, dot(vreinterpretq_s8_s32(x), vreinterpretq_s8_s32(w)))
#define SPREAD(p) vreinterpretq_s32_u32(vdupq_n_u32(four(p)))
#define HIDDEN(p, v) bytes4(p, vminq_s32(vmaxq_s32(vshrq_n_s32(v, 6), vdupq_n_s32(0)), vdupq_n_s32(127)))

#include <string.h>

static inline uint32_t four(const uint8_t *p) {
	uint32_t x;
	memcpy(&x, p, sizeof x);
	return x;
}

static inline int32x4_t dot(int8x16_t x, int8x16_t w) {
	int16x8_t low = vmull_s8(vget_low_s8(x), vget_low_s8(w)), high = vmull_high_s8(x, w);
	return vpaddq_s32(vpaddlq_s16(low), vpaddlq_s16(high));
}

static inline void bytes4(uint8_t *p, int32x4_t v) {
	int16x4_t words = vmovn_s32(v);
	uint32_t x = vget_lane_u32(vreinterpret_u32_s8(vmovn_s16(vcombine_s16(words, words))), 0);
	memcpy(p, &x, sizeof x);
}

#include "kernel.h"
