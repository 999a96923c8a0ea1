//go:build cgo

// float32 in vectors of 4.
#include "../vector/neon_arm64.h"

#define NAME(x) x##_neon
#define TARGET // NEON is on every arm64
#define PANEL 4

#include "train_kernels.h"
