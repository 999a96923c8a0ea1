// The kernels for at most 256 channels on Hopper: 3 boards of 7x6 at a time, in 225 KiB of shared memory.
#include "hopper256.h"

KERNEL(hopper_256, 384)(Job job) { hopper_wide<Hopper256<1>>(job); }

// Two blocks share the stream of weights.
CLUSTER_KERNEL(hopper_256_cluster, 384, 2)(Job job) { hopper_wide<Hopper256<2>>(job); }
