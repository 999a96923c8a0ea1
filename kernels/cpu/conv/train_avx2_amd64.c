//go:build cgo

// float32 in vectors of 8.
#include "../vector/avx2_amd64.h"

#define NAME(x) x##_avx2
#define TARGET __attribute__((target("avx2,fma")))
#define PANEL 2

#include "train_kernels.h"
