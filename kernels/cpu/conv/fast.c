//go:build cgo && amd64

// Convolutions by F(2x2,3x3) of Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2015, after
// Winograd. A board is cut into tiles of 2x2 outputs, each of which depends on 4x4 inputs d:
//
//	outputs = A' [ sum over i of (G w G') * (B' d B) ] A
//
// where * is element by element. So each of the 16 elements is a matrix product [tiles, I] x [I, O]. That costs 16
// multiplications per tile and pair of channels, and the plain loop takes 36. All entries of A and B are 0, 1 and -1, and
// those of G are 0, 1/2 and 1, so the error stays near that of the plain loop. The gradient with respect to the weights is
// the transposed formula,
//
//	dw = G' [ sum over tiles of (B' d B) * (A dy A') ] G
//
// and the gradient with respect to the input is a convolution of dy with the kernels rotated by 180 degrees. A 1x1 kernel is
// just the matrix product, with cells in place of tiles.
//
// Boards are converted to the order [cell][channel], with channels padded to whole vectors, before they are transformed. The
// transformed data of a few boards ("a block") stay in the processor's second-level cache between the three steps.

#include <immintrin.h>
#include <string.h>

#include "fast.h"

enum {
	LANES = 16,   // channels are padded to multiples of this
	PANEL = 64,   // output channels whose weights are stored together
	ROWS = 6,     // rows of a matrix product that are in registers at once
	SKEW = LANES, // keeps the 16 matrices of a block from starting in the same cache set
};

static int pad(int c) { return (c + LANES - 1) / LANES * LANES; }
static int points(const conv_dims *d) { return d->k == 3 ? 16 : 1; }
static int tiles(const conv_dims *d) { return d->k == 3 ? (d->h + 1) / 2 * ((d->w + 1) / 2) : d->h * d->w; }

// Offsets in scratch memory: at its start a board in order [cell][channel] with a row of zeros after it, then the same board
// transposed, then a block's transformed input and output.
typedef struct {
	long flat, v, m, size;
	long vs, ms; // distances between the 16 matrices
} layout;

static layout carve(const conv_dims *d) {
	long cells = (long)d->h * d->w, c = pad(d->i > d->o ? d->i : d->o), rows = (long)tiles(d) * d->block;
	layout l = {.vs = rows * pad(d->i) + SKEW, .ms = rows * pad(d->o) + SKEW};
	l.flat = (cells + 1) * c;
	l.v = l.flat + cells * c;
	l.m = l.v + points(d) * l.vs;
	l.size = l.m + points(d) * l.ms;
	return l;
}

conv_lengths conv_sizes(const conv_dims *d) {
	long matrices = (long)points(d) * d->i * pad(d->o);
	return (conv_lengths){carve(d).size, matrices, matrices};
}

// Weights are stored as [panel][point][i][output channel of the panel].
static long at_weight(const conv_dims *d, int point, int i, int o) {
	int panel = o / PANEL * PANEL, width = pad(d->o) - panel;
	if (width > PANEL) width = PANEL;
	return (long)panel * points(d) * d->i + ((long)point * d->i + i) * width + (o - panel);
}

#define ISA(name) name##_avx512
#define TARGET __attribute__((target("avx512f,avx512dq,avx512vl,avx2,fma,prefer-vector-width=512")))
#define WIDTH 16
#include "fast_isa.h"
#undef ISA
#undef TARGET
#undef WIDTH

#define ISA(name) name##_avx2
#define TARGET __attribute__((target("avx2,fma")))
#define WIDTH 8
#include "fast_isa.h"

#define DISPATCH(name, ...) (d->wide ? name##_avx512(__VA_ARGS__) : name##_avx2(__VA_ARGS__))

void conv_weights(float *u, const float *weight, long so, long si, int flip, int i0, int i1, const conv_dims *d) {
	DISPATCH(weights, u, weight, so, si, flip, i0, i1, d);
}

void conv_gradients(float *dweight, float *sums, int partials, int i0, int i1, const conv_dims *d) {
	DISPATCH(gradients, dweight, sums, partials, i0, i1, d);
}

void conv_forward(float *y, const float *x, const float *x_mask, const float *u, const float *bias, const float *add,
	const float *y_mask, float *scratch, const conv_dims *d) {
	DISPATCH(forward, y, x, x_mask, u, bias, add, y_mask, scratch, d);
}

void conv_sums(float *sums, float *dbias, const float *x, const float *dy, const float *y, float *scratch,
	const conv_dims *d) {
	DISPATCH(sums, sums, dbias, x, dy, y, scratch, d);
}

double conv_ceiling(long rounds, int wide) { return wide ? ceiling_avx512(rounds) : ceiling_avx2(rounds); }
