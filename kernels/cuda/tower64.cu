// The kernels for at most 64 channels. kernels.go lists them for the host.
#include "wide.h"

// The first kernel has 512 rows, which is 12 boards of 7x6. It needs 163 KiB of shared memory in a block (A100, Hopper). The
// second has 256 rows and needs 99 KiB (other GPUs since sm_80); two such blocks fit on a multiprocessor of Hopper.
KERNEL(tower_64, 256)(Job job) { tower<Shape<64, 8, 64, 4>>(job); }
KERNEL(tower_64_half, 128)(Job job) { tower<Shape<64, 4, 64, 2>>(job); }

// For few boards: one of 7x6 at a time.
KERNEL(wide_64, 128)(Job job) { wide<Wide<64, 3, 2, 16>>(job); }
