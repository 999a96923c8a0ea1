//go:build cgo

// Bytes, multiplied in fours and summed in int32, in vectors of 16 sums: the first convolutions of blocks (int8.go).
#include "conv.h"
#include "vector/avx512_amd64.h"

#define NAME(x) x##_avx512vnni
#define TARGET __attribute__((target("avx512f,avx512vnni")))
#define PANEL 4
#define MAC DOT_INT8
#define STORE_PAIRS(p, v)
#define LOWER LOWER_HALVES

#include "int8.h"
