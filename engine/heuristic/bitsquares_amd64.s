#include "textflag.h"

// Lanes of two registers with two positions each: own.Lo is word 0, all.Lo word 2 of four.
DATA ownWords<>+0(SB)/8, $0
DATA ownWords<>+8(SB)/8, $4
DATA ownWords<>+16(SB)/8, $8
DATA ownWords<>+24(SB)/8, $12
DATA ownWords<>+32(SB)/8, $0
DATA ownWords<>+40(SB)/8, $4
DATA ownWords<>+48(SB)/8, $8
DATA ownWords<>+56(SB)/8, $12
GLOBL ownWords<>(SB), RODATA|NOPTR, $64

DATA allWords<>+0(SB)/8, $2
DATA allWords<>+8(SB)/8, $6
DATA allWords<>+16(SB)/8, $10
DATA allWords<>+24(SB)/8, $14
DATA allWords<>+32(SB)/8, $2
DATA allWords<>+40(SB)/8, $6
DATA allWords<>+48(SB)/8, $10
DATA allWords<>+56(SB)/8, $14
GLOBL allWords<>(SB), RODATA|NOPTR, $64

// SIDE counts one side's lines of one direction in all eight lanes, as lines4 does: shifts by X10, X11 and X12 are
// the direction's step once, twice and three times; COUNT adds to or takes from odd Z24, many Z25, three Z26, all Z27.
#define SIDE(STONES, OPEN, COUNT) \
	VPSRLQ      X10, OPEN, Z4         \
	VPANDQ      OPEN, Z4, Z4          \
	VPSRLQ      X11, Z4, Z5           \
	VPANDQ      Z4, Z5, Z4            \
	VPSRLQ      X10, STONES, Z5       \
	VPSRLQ      X11, STONES, Z6       \
	VPSRLQ      X12, STONES, Z7       \
	VMOVDQA64   STONES, Z8            \
	VPTERNLOGQ  $0x96, Z5, Z6, Z8     \
	VPTERNLOGQ  $0xe8, STONES, Z6, Z5 \
	VPXORQ      Z8, Z7, Z9            \
	VPANDQ      Z8, Z7, Z8            \
	VPXORQ      Z5, Z8, Z6            \
	VPANDQ      Z5, Z8, Z5            \
	VPANDQ      Z4, Z9, Z9            \
	VPANDQ      Z4, Z6, Z7            \
	VPANDQ      Z9, Z6, Z6            \
	VPANDQ      Z4, Z5, Z5            \
	VPOPCNTQ    Z9, Z9                \
	VPOPCNTQ    Z7, Z7                \
	VPOPCNTQ    Z6, Z6                \
	VPOPCNTQ    Z5, Z5                \
	COUNT       Z9, Z24, Z24          \
	COUNT       Z7, Z25, Z25          \
	COUNT       Z6, Z26, Z26          \
	COUNT       Z5, Z27, Z27

// func scoreGroups(ps *game.Position, groups int, full uint64, shifts *[4]uint, weight *[129]float64, out *float64)
TEXT ·scoreGroups(SB), NOSPLIT, $0-48
	MOVQ         ps+0(FP), SI
	MOVQ         groups+8(FP), CX
	VPBROADCASTQ full+16(FP), Z31
	MOVQ         shifts+24(FP), DX
	MOVQ         weight+32(FP), BX
	MOVQ         out+40(FP), DI
	VMOVDQU64    ownWords<>(SB), Z30
	VMOVDQU64    allWords<>(SB), Z29
	VBROADCASTSD 8(BX), Z16
	VBROADCASTSD 16(BX), Z17
	VBROADCASTSD 24(BX), Z18
	VBROADCASTSD 32(BX), Z19

group:
	// Eight positions of 32 bytes into own Z0 and other Z1, the cells open to each in Z2 and Z3.
	VMOVDQU64    (SI), Z0
	VMOVDQU64    128(SI), Z2
	VMOVDQA64    Z0, Z1
	VMOVDQA64    Z2, Z3
	VPERMT2Q     64(SI), Z30, Z0
	VPERMT2Q     192(SI), Z30, Z2
	VPERMT2Q     64(SI), Z29, Z1
	VPERMT2Q     192(SI), Z29, Z3
	VINSERTI64X4 $1, Y2, Z0, Z0
	VINSERTI64X4 $1, Y3, Z1, Z1
	VPXORQ       Z0, Z1, Z1
	VPANDNQ      Z31, Z1, Z2
	VPANDNQ      Z31, Z0, Z3

	VPXORQ Z24, Z24, Z24
	VPXORQ Z25, Z25, Z25
	VPXORQ Z26, Z26, Z26
	VPXORQ Z27, Z27, Z27
	XORQ   AX, AX

direction:
	MOVQ  (DX)(AX*8), R8
	VMOVQ R8, X10
	LEAQ  (R8)(R8*1), R9
	VMOVQ R9, X11
	ADDQ  R8, R9
	VMOVQ R9, X12
	SIDE(Z0, Z2, VPADDQ)
	SIDE(Z1, Z3, VPSUBQ)
	INCQ  AX
	CMPQ  AX, $4
	JNE   direction

	// The sum in the order of Bitsquares.Score, so that both give the same bits.
	VPSUBQ    Z26, Z24, Z24
	VPSUBQ    Z26, Z25, Z25
	VCVTQQ2PD Z24, Z24
	VCVTQQ2PD Z25, Z25
	VCVTQQ2PD Z26, Z26
	VCVTQQ2PD Z27, Z27
	VMULPD    Z16, Z24, Z24
	VMULPD    Z17, Z25, Z25
	VMULPD    Z18, Z26, Z26
	VMULPD    Z19, Z27, Z27
	VADDPD    Z25, Z24, Z24
	VADDPD    Z26, Z24, Z24
	VADDPD    Z27, Z24, Z24
	VMOVUPD   Z24, (DI)
	ADDQ      $256, SI
	ADDQ      $64, DI
	DECQ      CX
	JNZ       group
	VZEROUPPER
	RET
