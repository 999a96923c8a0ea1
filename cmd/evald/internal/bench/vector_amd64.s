#include "textflag.h"

// func spinVector(n int)
// Sixteen 512-bit operations a turn that do not wait for each other.
TEXT ·spinVector(SB), NOSPLIT, $0-8
	MOVQ n+0(FP), CX

turn:
	VPADDQ Z0, Z0, Z0
	VPXORQ Z1, Z17, Z1
	VPADDQ Z2, Z2, Z2
	VPXORQ Z3, Z17, Z3
	VPADDQ Z4, Z4, Z4
	VPXORQ Z5, Z17, Z5
	VPADDQ Z6, Z6, Z6
	VPXORQ Z7, Z17, Z7
	VPADDQ Z8, Z8, Z8
	VPXORQ Z9, Z17, Z9
	VPADDQ Z10, Z10, Z10
	VPXORQ Z11, Z17, Z11
	VPADDQ Z12, Z12, Z12
	VPXORQ Z13, Z17, Z13
	VPADDQ Z14, Z14, Z14
	VPXORQ Z15, Z17, Z15
	DECQ   CX
	JNZ    turn
	VZEROUPPER
	RET
