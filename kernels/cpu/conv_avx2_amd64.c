//go:build cgo

// float32 in vectors of 8.
#include "conv.h"
#include "vector_avx2_amd64.h"

#define NAME(x) x##_avx2
#define TARGET __attribute__((target("avx2,fma")))
#define PANEL 2
#define MAC(sum, a, b) FMA(sum, a, b)
#define STORE_PAIRS(p, v)

#include "microkernel.h"
#include "sparse.h"
#include "winograd.h"
