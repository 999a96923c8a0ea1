// The kernels for at most 128 channels; see tower64.cu. They have 256 and 128 rows.
#include "wide.h"

KERNEL(tower_128, 256)(Job job) { tower<Shape<128, 8, 64, 2>>(job); }
KERNEL(tower_128_half, 128)(Job job) { tower<Shape<128, 4, 64, 2>>(job); }

// For few boards: one of 7x6 at a time.
KERNEL(wide_128, 256)(Job job) { wide<Wide<128, 3, 2, 16>>(job); }
