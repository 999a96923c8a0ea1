// The kernels of one set of instructions. The including file must define
//
//	NAME(x), TARGET     the names of the functions, and their instructions
//	V16, N16            a vector of int16 and its length, with LOAD16, STORE16, ADD16
//	ACTIVATE(p, x, y)   stores N16 bytes: clamp(x, 0, 255) * clamp(y, 0, 255) >> 9
//	V32, N32            a vector of int32 and its length, with LOAD32, STORE32
//	DOT(sum, x, w)      sum plus, in each lane, the products of the four bytes of x (unsigned) and w
//	SPREAD(p)           the four bytes at p in every lane
//	HIDDEN(p, v)        stores N32 bytes: clamp(v >> 6, 0, 127)
#include <string.h>

enum { max_lanes = 1024 };

// A layer's outputs are computed BLOCK vectors at a time, so that each input is spread once for all of them.
enum { BLOCK = 4 };

#define SUMS(count)                                                           \
	V32 sum[count];                                                       \
	for (int k = 0; k < count; k++)                                       \
		sum[k] = LOAD32(l->bias + o + k * N32);                       \
	const int8_t *w = l->weight + 4 * o;                                  \
	for (int64_t i = 0; i < l->in; i += 4, w += 4 * l->out) {             \
		V32 x = SPREAD(in + i);                                       \
		for (int k = 0; k < count; k++)                               \
			sum[k] = DOT(sum[k], x, LOAD32((const int32_t *)(w + 4 * k * N32))); \
	}

TARGET static inline void NAME(hidden)(const pattern_layer *l, const uint8_t *in, uint8_t *out) {
	int64_t o = 0;
	for (; o + BLOCK * N32 <= l->out; o += BLOCK * N32) {
		SUMS(BLOCK)
		for (int k = 0; k < BLOCK; k++)
			HIDDEN(out + o + k * N32, sum[k]);
	}
	for (; o < l->out; o += N32) {
		SUMS(1)
		HIDDEN(out + o, sum[0]);
	}
}

// heads computes a position's results from its accumulator.
TARGET static inline void NAME(heads)(const pattern_net *net, const int16_t *acc, int32_t *out) {
	// The last store of a layer may exceed its inputs; the padding to four has weights of 0.
	uint8_t a[max_lanes / 2 + 64], h[max_lanes / 2 + 64];
	int64_t half = (net->lanes - 16) / 2;
	memset(a + half, 0, 4);
	for (int64_t i = 0; i < half; i += N16)
		ACTIVATE(a + i, LOAD16(acc + i), LOAD16(acc + half + i));
	NAME(hidden)(&net->dense[0], a, h);
	NAME(hidden)(&net->dense[1], h, a);
	const pattern_layer *l = &net->dense[2];
	for (int64_t o = 0; o < 16; o += N32) {
		const uint8_t *in = a;
		SUMS(1)
		STORE32(out + o, sum[0]);
	}
	for (int i = 0; i < 16; i++)
		out[i] += 32 * acc[2 * half + i];
}

TARGET void NAME(pattern_forward)(pattern_net net, const int32_t *rows, int64_t each, int64_t n, int32_t *out) {
	int16_t acc[max_lanes + 64];
	memset(acc + net.lanes, 0, 64 * sizeof *acc);
	for (int64_t p = 0; p < n; p++, rows += each, out += 16) {
		if (p + 1 < n)
			for (int64_t k = each; k < 2 * each; k++)
				for (int64_t i = 0; i < net.lanes; i += 32)
					__builtin_prefetch(net.table + rows[k] * net.lanes + i);
		for (int64_t next = 0; next < net.lanes; next += 2 * N16) {
			// For an odd number of vectors of lanes, the last two begin earlier, so that nothing beyond the table is read.
			int64_t i = next + 2 * N16 <= net.lanes ? next : net.lanes - 2 * N16;
			V16 s = LOAD16(net.bias + i), t = LOAD16(net.bias + i + N16);
			for (int64_t k = 0; k < each; k++) {
				const int16_t *row = net.table + rows[k] * net.lanes + i;
				s = ADD16(s, LOAD16(row));
				t = ADD16(t, LOAD16(row + N16));
			}
			STORE16(acc + i, s);
			STORE16(acc + i + N16, t);
		}
		NAME(heads)(&net, acc, out);
	}
}
