//go:build cgo

// Bytes, multiplied as matrices of 2x8 by 8x2 and summed in int32: the first convolutions of blocks (int8.go).
#include "conv.h"
#include "vector/neon_arm64.h"

#define NAME(x) x##_neoni8mm
#define TARGET __attribute__((target("arch=armv8.2-a+bf16+i8mm")))
#define PANEL 4
#define MATRICES
#define MAC MMLA_INT8
#define STORE_PAIRS STORE_BF16

#include "int8.h"
