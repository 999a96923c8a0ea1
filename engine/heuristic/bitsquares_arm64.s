#include "textflag.h"

// Instructions that Go's assembler lacks, on registers by their numbers: d = n shifted left by m, or right if m is negative;
// sums of neighbouring signed bytes, halves and words; int64 to float64; and float64 products and sums.
#define USHL(m, n, d)    WORD $(0x6ee04400 | (m)<<16 | (n)<<5 | (d))
#define SADDLP(s, n, d)  WORD $(0x4e202800 | (s)<<22 | (n)<<5 | (d))
#define SCVTF(n, d)      WORD $(0x4e61d800 | (n)<<5 | (d))
#define FMUL(m, n, d)    WORD $(0x6e60dc00 | (m)<<16 | (n)<<5 | (d))
#define FADD(m, n, d)    WORD $(0x4e60d400 | (m)<<16 | (n)<<5 | (d))

// SIDE counts one side's lines of one direction in both lanes, as lines4 does. V10, V11 and V12 shift right by the
// direction's step once, twice and three times. COUNT adds to or takes from odd V24, many V25, three V26, all V27, which
// have a count in each byte: at most 8 a direction. s and o are the numbers of STONES and OPEN.
#define SIDE(STONES, s, OPEN, o, COUNT) \
	USHL(10, o, 4)                      \
	VAND  OPEN.B16, V4.B16, V4.B16      \
	USHL(11, 4, 5)                      \
	VAND  V4.B16, V5.B16, V4.B16        \
	USHL(10, s, 5)                      \
	USHL(11, s, 6)                      \
	USHL(12, s, 7)                      \
	VEOR  STONES.B16, V5.B16, V8.B16    \
	VAND  STONES.B16, V5.B16, V5.B16    \
	VEOR  V6.B16, V7.B16, V9.B16        \
	VAND  V6.B16, V7.B16, V6.B16        \
	VAND  V8.B16, V9.B16, V7.B16        \
	VEOR  V8.B16, V9.B16, V8.B16        \
	VEOR  V5.B16, V6.B16, V9.B16        \
	VORR  V7.B16, V9.B16, V9.B16        \
	VAND  V5.B16, V6.B16, V6.B16        \
	VAND  V4.B16, V8.B16, V8.B16        \
	VAND  V4.B16, V9.B16, V9.B16        \
	VAND  V8.B16, V9.B16, V7.B16        \
	VAND  V4.B16, V6.B16, V6.B16        \
	VCNT  V8.B16, V8.B16                \
	VCNT  V9.B16, V9.B16                \
	VCNT  V7.B16, V7.B16                \
	VCNT  V6.B16, V6.B16                \
	COUNT V8.B16, V24.B16, V24.B16      \
	COUNT V9.B16, V25.B16, V25.B16      \
	COUNT V7.B16, V26.B16, V26.B16      \
	COUNT V6.B16, V27.B16, V27.B16

// WIDEN sums the bytes of each lane.
#define WIDEN(n)     \
	SADDLP(0, n, n) \
	SADDLP(1, n, n) \
	SADDLP(2, n, n)

// func scoreGroups(ps *game.Position, groups int, full uint64, shifts *[4]uint, weight *[129]float64, out *float64)
TEXT ·scoreGroups(SB), NOSPLIT, $0-48
	MOVD ps+0(FP), R0
	MOVD groups+8(FP), R1
	MOVD full+16(FP), R2
	MOVD shifts+24(FP), R3
	MOVD weight+32(FP), R4
	MOVD out+40(FP), R5
	VDUP R2, V31.D2
	ADD  $8, R4
	VLD1 (R4), [V20.D2, V21.D2]
	VDUP V20.D[0], V16.D2
	VDUP V20.D[1], V17.D2
	VDUP V21.D[0], V18.D2
	VDUP V21.D[1], V19.D2

group:
	// Two positions of 32 bytes into own V0 and other V1, the cells open to each in V2 and V3.
	VLD1.P 64(R0), [V4.D2, V5.D2, V6.D2, V7.D2]
	VZIP1  V6.D2, V4.D2, V0.D2
	VZIP1  V7.D2, V5.D2, V1.D2
	VEOR   V0.B16, V1.B16, V1.B16
	VAND   V31.B16, V1.B16, V2.B16
	VEOR   V31.B16, V2.B16, V2.B16
	VAND   V31.B16, V0.B16, V3.B16
	VEOR   V31.B16, V3.B16, V3.B16

	VEOR V24.B16, V24.B16, V24.B16
	VEOR V25.B16, V25.B16, V25.B16
	VEOR V26.B16, V26.B16, V26.B16
	VEOR V27.B16, V27.B16, V27.B16
	MOVD $4, R6
	MOVD R3, R7

direction:
	MOVD.P 8(R7), R8
	NEG    R8, R8
	VDUP   R8, V10.D2
	VADD   V10.D2, V10.D2, V11.D2
	VADD   V10.D2, V11.D2, V12.D2
	SIDE(V0, 0, V2, 2, VADD)
	SIDE(V1, 1, V3, 3, VSUB)
	SUBS   $1, R6
	BNE    direction

	// The sum in the order of Bitsquares.Score, so that both give the same bits.
	WIDEN(24)
	WIDEN(25)
	WIDEN(26)
	WIDEN(27)
	VSUB V26.D2, V24.D2, V24.D2
	VSUB V26.D2, V25.D2, V25.D2
	SCVTF(24, 24)
	SCVTF(25, 25)
	SCVTF(26, 26)
	SCVTF(27, 27)
	FMUL(16, 24, 24)
	FMUL(17, 25, 25)
	FMUL(18, 26, 26)
	FMUL(19, 27, 27)
	FADD(25, 24, 24)
	FADD(26, 24, 24)
	FADD(27, 24, 24)
	VST1.P [V24.D2], 16(R5)
	SUBS   $1, R1
	BNE    group
	RET
