//go:build cgo && amd64

// Convolutions by F(2x2,3x3) of Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2015, after
// Winograd. A board is cut into tiles of 2x2 outputs, each of which depends on 4x4 inputs d:
//
//	outputs = A' [ sum over i of (G w G') * (B' d B) ] A
//
// where * goes element by element. So each of the 16 elements is a product of matrices [tiles, I] x [I, O], which
// costs 16 multiplications a tile and pair of channels where the plain loop takes 36. All entries of A and B are 0, 1
// and -1, and of G 0, 1/2 and 1, so the error stays near that of the plain loop. The gradient by the weights is
// the same formula transposed,
//
//	dw = G' [ sum over tiles of (B' d B) * (A dy A') ] G
//
// and that by the input a convolution of dy with the kernels turned by half a turn. A 1x1 kernel is the product of
// matrices alone, with cells for tiles.
//
// Boards are brought into the order [cell][channel], channels padded to whole vectors, before they are transformed.
// Transformed data of a few boards ("a block") stay in the processor's second cache between the three steps.

#include <immintrin.h>
#include <string.h>

#include "fast.h"

enum {
	LANES = 16,   // channels are padded to multiples of this
	PANEL = 64,   // output channels whose weights lie together
	ROWS = 6,     // rows of a product that are in registers at once
	SKEW = LANES, // keeps the 16 matrices of a block from starting in the same set of the cache
};

static int pad(int c) { return (c + LANES - 1) / LANES * LANES; }
static int points(const conv_dims *d) { return d->k == 3 ? 16 : 1; }
static int tiles(const conv_dims *d) { return d->k == 3 ? (d->h + 1) / 2 * ((d->w + 1) / 2) : d->h * d->w; }

// Where things lie in scratch memory: at its start a board in order [cell][channel] with a row of zeros behind it, then
// the same transposed, then a block's transformed input and output.
typedef struct {
	long flat, v, m, size;
	long vs, ms; // from one of the 16 matrices to the next
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

// Weights lie as [panel][point][i][output channel of the panel].
static long at_weight(const conv_dims *d, int point, int i, int o) {
	int panel = o / PANEL * PANEL, width = pad(d->o) - panel;
	if (width > PANEL) width = PANEL;
	return (long)panel * points(d) * d->i + ((long)point * d->i + i) * width + (o - panel);
}

void conv_weights(float *u, const float *weight, long so, long si, int flip, int i0, int i1, const conv_dims *d) {
	int taps = d->k * d->k;
	for (int i = i0; i < i1; i++)
		for (int o = 0; o < d->o; o += LANES) {
			float g[9][LANES] = {{0}}, e[4][3][LANES];
			int lanes = d->o - o < LANES ? d->o - o : LANES;
			for (int l = 0; l < lanes; l++)
				for (int t = 0; t < taps; t++) g[flip ? taps - 1 - t : t][l] = weight[(o + l) * so + i * si + t];
			if (taps == 1) {
				memcpy(u + at_weight(d, 0, i, o), g[0], sizeof g[0]);
				continue;
			}
			for (int c = 0; c < 3; c++)
				for (int l = 0; l < LANES; l++) {
					float a = g[c][l], b = g[3 + c][l], z = g[6 + c][l];
					e[0][c][l] = a, e[1][c][l] = 0.5f * (a + z + b), e[2][c][l] = 0.5f * (a + z - b), e[3][c][l] = z;
				}
			for (int r = 0; r < 4; r++) {
				float *to[4];
				for (int c = 0; c < 4; c++) to[c] = u + at_weight(d, 4 * r + c, i, o);
				for (int l = 0; l < LANES; l++) {
					float a = e[r][0][l], b = e[r][1][l], z = e[r][2][l];
					to[0][l] = a, to[1][l] = 0.5f * (a + z + b), to[2][l] = 0.5f * (a + z - b), to[3][l] = z;
				}
			}
		}
}

// The partial gradients lie as [partial][point][i][o], o padded.
void conv_gradients(float *dweight, const float *sums, int partials, int i0, int i1, const conv_dims *d) {
	int taps = d->k * d->k, op = pad(d->o);
	long each = conv_sizes(d).sums;
	for (int i = i0; i < i1; i++)
		for (int o = 0; o < d->o; o += LANES) {
			float m[16][LANES] = {{0}}, e[3][4][LANES], g[9][LANES];
			for (int p = 0; p < partials; p++)
				for (int x = 0; x < points(d); x++) {
					const float *from = sums + p * each + ((long)x * d->i + i) * op + o;
					for (int l = 0; l < LANES; l++) m[x][l] += from[l];
				}
			for (int c = 0; c < 4; c++)
				for (int l = 0; l < LANES; l++) {
					float half = 0.5f * (m[4 + c][l] + m[8 + c][l]);
					e[0][c][l] = m[c][l] + half, e[1][c][l] = 0.5f * (m[4 + c][l] - m[8 + c][l]);
					e[2][c][l] = half + m[12 + c][l];
				}
			for (int r = 0; r < 3; r++)
				for (int l = 0; l < LANES; l++) {
					float half = 0.5f * (e[r][1][l] + e[r][2][l]);
					g[3 * r][l] = e[r][0][l] + half, g[3 * r + 1][l] = 0.5f * (e[r][1][l] - e[r][2][l]);
					g[3 * r + 2][l] = half + e[r][3][l];
				}
			if (taps == 1) memcpy(g[0], m[0], sizeof g[0]);
			for (int l = 0; l < LANES && o + l < d->o; l++)
				for (int t = 0; t < taps; t++) dweight[((long)(o + l) * d->i + i) * taps + t] = g[t][l];
		}
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
