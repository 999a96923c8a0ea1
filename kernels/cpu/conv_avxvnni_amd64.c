//go:build cgo

// Bytes, multiplied in fours and summed in int32, in vectors of 8 sums: the first convolutions of blocks (int8.go).
#include "conv.h"
#include "vector/avx2_amd64.h"

#define NAME(x) x##_avxvnni
#define TARGET __attribute__((target("avx2,fma,avxvnni")))
#define PANEL 2
#define MAC DOT_INT8
#define STORE_PAIRS(p, v)
#define LOWER LOWER_HALVES

#include "int8.h"
