//go:build cgo

// bfloat16, multiplied in pairs and summed in float32, in vectors of 16 sums.
#include "conv.h"
#include "vector/avx512_amd64.h"

#define NAME(x) x##_avx512bf16
#define TARGET __attribute__((target("avx512f,avx512bf16")))
#define PANEL 4
#define MAC DOT_BF16
#define STORE_PAIRS STORE_BF16
#define LOWER LOWER_HALVES

#include "direct.h"
#include "sparse.h"
