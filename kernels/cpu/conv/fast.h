// The fast paths of package conv; see fast.c for how they work.

// Sizes of a layer, seen from the pass that runs: an input gradient is a convolution from its O to its I channels.
typedef struct {
	int n;          // boards in this call
	int block;      // boards that are transformed together
	int i, o, h, w; // channels in and out, rows, columns
	int k;          // 3 or 1, the side of the kernel
	int last;       // channels last?
	int relu;       // ReLU at the end?
} conv_dims;

// conv_sizes tells how many floats of scratch memory the functions below need, how many transformed weights take, and
// how many a partial weight gradient.
typedef struct { long scratch, weights, sums; } conv_lengths;
conv_lengths conv_sizes(const conv_dims *d);

// conv_weights transforms weights for the input channels from i0 up to i1. Element t of the kernel from channel i to
// channel o is weight[o*so + i*si + t], or with flip that from the kernel's other end.
void conv_weights(float *u, const float *weight, long so, long si, int flip, int i0, int i1, const conv_dims *d);

// conv_gradients adds up partial weight gradients, in their order, and transforms the sum back into dweight, for the
// input channels from i0 up to i1.
void conv_gradients(float *dweight, const float *sums, int partials, int i0, int i1, const conv_dims *d);

// Two forms of each, for two sets of instructions.
//
// conv_forward: y = relu(conv(x where x_mask > 0) + bias + add) where y_mask > 0, of which all but x may be NULL.
// conv_sums: sums = the transformed weight gradient, and dbias, of dy (where y > 0) and x.
#define CONV_DECLARE(isa) \
	void conv_forward_##isa(float *y, const float *x, const float *x_mask, const float *u, const float *bias, \
		const float *add, const float *y_mask, float *scratch, const conv_dims *d); \
	void conv_sums_##isa(float *sums, float *dbias, const float *x, const float *dy, const float *y, float *scratch, \
		const conv_dims *d);
CONV_DECLARE(avx512)
CONV_DECLARE(avx2)
