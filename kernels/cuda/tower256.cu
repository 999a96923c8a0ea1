// The kernels for at most 256 channels; see tower64.cu. They have 128 and 64 rows.
#include "wide.h"

KERNEL(tower_256, 256)(Job job) { tower<Shape<256, 8, 32, 2>>(job); }
KERNEL(tower_256_half, 128)(Job job) { tower<Shape<256, 4, 32, 2>>(job); }

// For few boards: one of 7x6 at a time.
KERNEL(wide_256, 256)(Job job) { wide<Wide<256, 3, 4, 16>>(job); }
