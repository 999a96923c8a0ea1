//go:build cgo

// Bytes multiplied by the tiles of AMX: the first convolutions of blocks (int8.go).
#include "conv.h"
#include "vector/avx512_amd64.h"

#define NAME(x) x##_amxint8
#define TARGET __attribute__((target("amx-tile,amx-int8,avx512f,avx512bf16")))
#define DOT_TILES(sum, a, b) _tile_dpbusd(sum, a, b)
#define LAST(c, o, sum) LAST_INT8(c, o, sum)

#include "tiles_amd64.h"
