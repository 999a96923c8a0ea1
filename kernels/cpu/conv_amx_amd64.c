//go:build cgo

// bfloat16 multiplied by the tiles of AMX.
#include "conv.h"
#include "vector/avx512_amd64.h"

#define NAME(x) x##_amx
#define TARGET __attribute__((target("amx-tile,amx-bf16,avx512f,avx512bw,avx512vl,avx512bf16")))

#include "tiles_amd64.h"
