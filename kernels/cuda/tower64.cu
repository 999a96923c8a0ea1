// The kernels for at most 64 channels. kernels.go lists them for the host.
#include "tower.h"

// 512 rows, 12 boards of 7x6, where a block of threads may have 227 KiB of shared memory (Hopper); 256 where it has 163 KiB
// (A100), and two such blocks fit a multiprocessor of Hopper; 128 where it has 99 KiB (other GPUs since sm_80).
KERNEL(tower_64, 256)(Job job) { tower<Shape<64, 8, 64, 4>>(job); }
KERNEL(tower_64_half, 128)(Job job) { tower<Shape<64, 4, 64, 2>>(job); }
KERNEL(tower_64_quarter, 64)(Job job) { tower<Shape<64, 2, 64, 2>>(job); }
