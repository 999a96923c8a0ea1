//go:build cgo

// float32 in vectors of 4.
#include "conv.h"
#include "vector/neon_arm64.h"

#define NAME(x) x##_neon
#define TARGET // NEON is on every arm64
#define PANEL 4
#define MAC FMA
#define STORE_PAIRS(p, v)

#include "direct.h"
#include "sparse.h"
#include "heads.h"
#include "winograd.h"
