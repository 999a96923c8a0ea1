//go:build cgo

// bfloat16, multiplied by the tiles of AMX.
#include "conv.h"
#include "vector/avx512_amd64.h"

#define NAME(x) x##_amx
#define TARGET __attribute__((target("amx-tile,amx-bf16,avx512f,avx512bw,avx512vl,avx512bf16")))

#ifdef _WIN32 // where this path is never taken, and gcc's strides of tiles have 32 bits, which the assembler refuses
#include "tiles_emulated_amd64.h"
#endif
#include "tiles_amd64.h"
