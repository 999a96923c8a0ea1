//go:build cgo

// The amx path with tiles in plain C.
#include "conv.h"
#include "vector/avx512_amd64.h"

#define NAME(x) x##_amx_emulated
#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))

#include "tiles_emulated_amd64.h"

#include "tiles_amd64.h"
