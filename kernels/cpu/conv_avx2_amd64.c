//go:build cgo

// float32 in vectors of 8.
#include "conv.h"
#include "vector/avx2_amd64.h"

#define NAME(x) x##_avx2
#define TARGET __attribute__((target("avx2,fma")))
#define PANEL 2
#define MAC FMA
#define STORE_PAIRS(p, v)

#include "direct.h"
#include "sparse.h"
#include "heads.h"
#include "winograd.h"
