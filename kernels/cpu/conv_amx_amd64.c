//go:build cgo

// bfloat16 multiplied by the tiles of AMX.
#include "conv.h"
#include "vector/avx512_amd64.h"

#define NAME(x) x##_amx
#define TARGET __attribute__((target("amx-tile,amx-bf16,avx512f,avx512bf16")))

#include "tiles_amd64.h"

// Four independent products, in the registers of conv_amx.
TARGET void peak_amx(int64_t n) {
	_tile_loadconfig(&tiles);
	_tile_zero(0);
	_tile_zero(1);
	_tile_zero(2);
	_tile_zero(3);
	_tile_zero(4);
	_tile_zero(5);
	_tile_zero(6);
	_tile_zero(7);
	for (; n > 0; n--) {
		_tile_dpbf16ps(0, 4, 6);
		_tile_dpbf16ps(1, 4, 7);
		_tile_dpbf16ps(2, 5, 6);
		_tile_dpbf16ps(3, 5, 7);
	}
	_tile_release();
}
