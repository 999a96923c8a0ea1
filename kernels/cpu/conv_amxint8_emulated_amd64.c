//go:build cgo

// The bytes of the amxint8 path with tiles in plain C.
#include "conv.h"
#include "vector/avx512_amd64.h"

#define NAME(x) x##_amxint8_emulated
#define TARGET __attribute__((target("avx512f,avx512bf16")))
#define DOT_TILES(sum, a, b) _tile_dpbusd(sum, a, b)
#define LAST(c, o, sum) LAST_INT8(c, o, sum)

#include "tiles_emulated_amd64.h"

#include "tiles_amd64.h"
