//go:build cgo

// float32 in vectors of 16.
#include "conv.h"
#include "vector/avx512_amd64.h"

#define NAME(x) x##_avx512
#define TARGET __attribute__((target("avx512f")))
#define PANEL 4
#define MAC FMA
#define STORE_PAIRS(p, v)

#include "direct.h"
#include "sparse.h"
#include "heads.h"
#include "winograd.h"
