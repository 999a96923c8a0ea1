// The kernels that keep a network in shared memory. kernels.go lists them for the host.
#include "tower.h"

// A shape holds boards of at most ROWS cells: 512, 256 and 128 for 64, 128 and 256 channels. The smaller ones are for GPUs
// with less shared memory, and two blocks of tower_64_half fit one multiprocessor of Hopper.
KERNEL(tower_64, 256)(Job job) { tower<Shape<64, 8, 64, 4>>(job); }
KERNEL(tower_64_half, 128)(Job job) { tower<Shape<64, 4, 64, 2>>(job); }
KERNEL(tower_128, 256)(Job job) { tower<Shape<128, 8, 64, 2>>(job); }
KERNEL(tower_128_half, 128)(Job job) { tower<Shape<128, 4, 64, 2>>(job); }
KERNEL(tower_256, 256)(Job job) { tower<Shape<256, 8, 32, 2>>(job); }
