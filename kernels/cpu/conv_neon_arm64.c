//go:build cgo

// float32 in vectors of 4.
#include "conv.h"
#include "vector_neon_arm64.h"

#define NAME(x) x##_neon
#define TARGET // NEON is on every arm64
#define PANEL 4
#define MAC(sum, a, b) FMA(sum, a, b)
#define STORE_PAIRS(p, v)

#include "microkernel.h"
#include "sparse.h"
#include "winograd.h"
