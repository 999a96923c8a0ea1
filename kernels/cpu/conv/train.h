// The kernels in C. train_layout.h explains them.
#ifndef TRAIN_H
#define TRAIN_H

#include <stdint.h>

// train_dims is the sizes of a layer as the current pass sees it: an input gradient is a convolution from its O to its I
// channels. It is dims of job.go.
typedef struct {
	uintptr_t path;     // the address of a train_path, as a number because Go does not pass memory with pointers in it
	int32_t n;          // boards in this call
	int32_t block;      // boards transformed together
	int32_t i, o, h, w; // channels in and out, rows, columns
	int32_t k;          // 3 or 1, the kernel's rows and columns
	int32_t relu;       // whether a ReLU follows
} train_dims;

// train_sizes returns the number of floats in the scratch memory of the functions below, in the transformed weights, and in
// a partial weight gradient.
typedef struct { int64_t scratch, weights, sums; } train_lengths;
train_lengths train_sizes(const train_dims *d);

// train_weights transforms weights for the input channels from i0 to i1-1. Element t of the kernel from channel i to channel
// o is weight[o*so + i*si + t]; with flip the elements are in reverse order.
void train_weights(float *u, const float *weight, int64_t so, int64_t si, int flip, int i0, int i1, const train_dims *d);

// train_gradients adds up partial weight gradients, in order, in the memory of the first, and transforms the sum back into
// dweight, for the input channels from i0 to i1-1.
void train_gradients(float *dweight, float *sums, int partials, int i0, int i1, const train_dims *d);

// train_forward is y = relu(conv(x where x_mask > 0) + bias + add) where y_mask > 0. x_mask, bias, add and y_mask may be
// NULL.
void train_forward(float *y, const float *x, const float *x_mask, const float *u, const float *bias, const float *add,
	const float *y_mask, float *scratch, const train_dims *d);

// train_sums computes from dy (where y > 0, unless y is NULL) and x the transformed gradient with respect to the weights, and the
// gradient with respect to the bias.
void train_sums(float *sums, float *dbias, const float *x, const float *dy, const float *y, float *scratch,
	const train_dims *d);

// train_path is the functions above, for one path.
typedef struct {
	void (*weights)(float *, const float *, int64_t, int64_t, int, int, int, const train_dims *);
	void (*gradients)(float *, float *, int, int, int, const train_dims *);
	void (*forward)(float *, const float *, const float *, const float *, const float *, const float *, const float *,
		float *, const train_dims *);
	void (*sums)(float *, float *, const float *, const float *, const float *, float *, const train_dims *);
} train_path;
extern const train_path train_avx2, train_avx512, train_neon;

#endif
