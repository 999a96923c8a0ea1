// The fast paths of package conv, which need a processor with AVX-512 (F, DQ, VL) or AVX2 and FMA; see fast.c for how
// they work.

// Sizes of a layer, seen from the pass that runs: an input gradient is a convolution from its O to its I channels.
typedef struct {
	int n;          // boards in this call
	int block;      // boards that are transformed together
	int i, o, h, w; // channels in and out, rows, columns
	int k;          // 3 or 1, the side of the kernel
	int last;       // channels last?
	int relu;       // ReLU at the end?
	int wide;       // use AVX-512, not AVX2?
} conv_dims;

// conv_sizes tells how many floats of scratch memory the functions below need, how many transformed weights take, and
// how many a partial weight gradient.
typedef struct { long scratch, weights, sums; } conv_lengths;
conv_lengths conv_sizes(const conv_dims *d);

// conv_weights transforms weights for the input channels from i0 up to i1. Element t of the kernel from channel i to
// channel o is weight[o*so + i*si + t], or with flip that from the kernel's other end.
void conv_weights(float *u, const float *weight, long so, long si, int flip, int i0, int i1, const conv_dims *d);

// conv_gradients adds up partial weight gradients, in their order, in the memory of the first, and transforms the sum
// back into dweight, for the input channels from i0 up to i1.
void conv_gradients(float *dweight, float *sums, int partials, int i0, int i1, const conv_dims *d);

// conv_forward is y = relu(conv(x where x_mask > 0) + bias + add) where y_mask > 0, of which all but x may be NULL.
void conv_forward(float *y, const float *x, const float *x_mask, const float *u, const float *bias, const float *add,
	const float *y_mask, float *scratch, const conv_dims *d);

// conv_sums finds from dy (where y > 0, unless y is NULL) and x the transformed gradient by the weights, and that by the
// bias.
void conv_sums(float *sums, float *dbias, const float *x, const float *dy, const float *y, float *scratch,
	const conv_dims *d);

// conv_ceiling does multiplications and additions in registers alone, the most that the kernels could do, and returns
// how many.
double conv_ceiling(long rounds, int wide);
