//go:build cgo && (amd64 || arm64)

// Shared by all paths: the sizes, and calls of the requested path. train_layout.h explains the kernels.

#include "train_layout.h"

train_lengths train_sizes(const train_dims *d) {
	int64_t matrices = (int64_t)points(d) * d->i * pad(d->o);
	return (train_lengths){carve(d).size, matrices, matrices};
}

static const train_path *path(const train_dims *d) { return (const train_path *)d->path; }

void train_weights(float *u, const float *weight, int64_t so, int64_t si, int flip, int i0, int i1, const train_dims *d) {
	path(d)->weights(u, weight, so, si, flip, i0, i1, d);
}

void train_gradients(float *dweight, float *sums, int partials, int i0, int i1, const train_dims *d) {
	path(d)->gradients(dweight, sums, partials, i0, i1, d);
}

void train_forward(float *y, const float *x, const float *x_mask, const float *u, const float *bias, const float *add,
	const float *y_mask, float *scratch, const train_dims *d) {
	path(d)->forward(y, x, x_mask, u, bias, add, y_mask, scratch, d);
}

void train_sums(float *sums, float *dbias, const float *x, const float *dy, const float *y, float *scratch,
	const train_dims *d) {
	path(d)->sums(sums, dbias, x, dy, y, scratch, d);
}
