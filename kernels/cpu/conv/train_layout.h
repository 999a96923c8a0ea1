// Convolutions by F(2x2,3x3) of Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2015, after
// Winograd. A board is cut into tiles of 2x2 outputs, each of which depends on 4x4 inputs d:
//
//	outputs = A' [ sum over i of (G w G') * (B' d B) ] A
//
// where * is element by element. Each of the 16 elements is a matrix product [tiles, I] x [I, O]. That takes 16 multiplications
// per tile and pair of channels, and the plain loop 36. All entries of A and B are 0, 1 and -1, and those of G are 0, 1/2 and 1,
// so the error stays near that of the plain loop. The gradient with respect to the weights is the transposed formula,
//
//	dw = G' [ sum over tiles of (B' d B) * (A dy A') ] G
//
// and the gradient with respect to the input is a convolution of dy with the kernels rotated by 180 degrees. A 1x1 kernel is
// just the matrix product, with cells in place of tiles.
//
// Channels are padded to a multiple of GROUP before boards are transformed. The transformed data of a few boards ("a block") stay
// in the second-level cache between the three steps.

#include <string.h>

#include "train.h"

enum {
	GROUP = 16,   // channels are padded to multiples of this: whole vectors on every path
	WIDE = 64,    // output channels whose weights are stored together
	SKEW = GROUP, // keeps the 16 matrices of a block from starting in the same cache set
};

static inline int pad(int c) { return (c + GROUP - 1) / GROUP * GROUP; }
static inline int points(const train_dims *d) { return d->k == 3 ? 16 : 1; }
static inline int tiles(const train_dims *d) { return d->k == 3 ? (d->h + 1) / 2 * ((d->w + 1) / 2) : d->h * d->w; }

// runs_of returns the number of pieces in which the cells of a board are copied between rows of c and of pad(c) channels: one
// piece if the two are equal.
static inline int runs_of(int c, int cells) { return c == pad(c) ? 1 : cells; }

// Offsets in scratch memory: at its start a board with a row of zeros after it, then a block's transformed input and output.
typedef struct {
	int64_t v, m, size;
	int64_t vs, ms; // distances between the 16 matrices
} layout;

static inline layout carve(const train_dims *d) {
	int64_t rows = (int64_t)tiles(d) * d->block;
	layout l = {.vs = rows * pad(d->i) + SKEW, .ms = rows * pad(d->o) + SKEW};
	l.v = (int64_t)(d->h * d->w + 1) * pad(d->i > d->o ? d->i : d->o);
	l.m = l.v + points(d) * l.vs;
	l.size = l.m + points(d) * l.ms;
	return l;
}

// Weights are stored as [panel][point][i][output channel of the panel].
static inline int64_t at_weight(const train_dims *d, int point, int i, int o) {
	int panel = o / WIDE * WIDE, width = pad(d->o) - panel;
	if (width > WIDE) width = WIDE;
	return (int64_t)panel * points(d) * d->i + ((int64_t)point * d->i + i) * width + (o - panel);
}
