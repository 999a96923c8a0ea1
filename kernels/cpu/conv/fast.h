// The fast paths of package conv. They need a processor with AVX-512 (F, DQ, VL), or AVX2 and FMA. fast.c says how they
// work.

// Sizes of a layer as the running pass sees it: an input gradient is a convolution from its O to its I channels.
typedef struct {
	int n;          // boards in this call
	int block;      // boards transformed together
	int i, o, h, w; // channels in and out, rows, columns
	int k;          // 3 or 1, the kernel's rows and columns
	int last;       // whether channels are last
	int relu;       // whether a ReLU follows
	int wide;       // whether to use AVX-512 instead of AVX2
} conv_dims;

// conv_sizes returns the number of floats in the scratch memory of the functions below, in the transformed weights, and in a
// partial weight gradient.
typedef struct { long scratch, weights, sums; } conv_lengths;
conv_lengths conv_sizes(const conv_dims *d);

// conv_weights transforms weights for the input channels from i0 to i1-1. Element t of the kernel from channel i to channel
// o is weight[o*so + i*si + t]; with flip the elements are in reverse order.
void conv_weights(float *u, const float *weight, long so, long si, int flip, int i0, int i1, const conv_dims *d);

// conv_gradients adds up partial weight gradients, in order, in the memory of the first, and transforms the sum back into
// dweight, for the input channels from i0 to i1-1.
void conv_gradients(float *dweight, float *sums, int partials, int i0, int i1, const conv_dims *d);

// conv_forward is y = relu(conv(x where x_mask > 0) + bias + add) where y_mask > 0. x_mask, bias, add and y_mask may be
// NULL.
void conv_forward(float *y, const float *x, const float *x_mask, const float *u, const float *bias, const float *add,
	const float *y_mask, float *scratch, const conv_dims *d);

// conv_sums computes from dy (where y > 0, unless y is NULL) and x the transformed gradient with respect to the weights, and
// the gradient with respect to the bias.
void conv_sums(float *sums, float *dbias, const float *x, const float *dy, const float *y, float *scratch,
	const conv_dims *d);

// conv_ceiling does multiplications and additions in registers alone, the most that the kernels could do, and returns their
// number.
double conv_ceiling(long rounds, int wide);
