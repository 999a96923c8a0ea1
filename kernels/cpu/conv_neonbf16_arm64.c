//go:build cgo

// bfloat16, multiplied as matrices of 2x4 by 4x2 and summed in float32.
#include "conv.h"
#include "vector/neon_arm64.h"

#define NAME(x) x##_neonbf16
#define TARGET __attribute__((target("arch=armv8.2-a+bf16")))
#define PANEL 4
#define MATRICES
#define MAC MMLA_BF16
#define STORE_PAIRS STORE_BF16

#include "direct.h"
#include "sparse.h"
