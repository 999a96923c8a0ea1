// The kernels for at most 256 channels on Hopper: 3 boards of 7x6 at a time, in 225 KiB of shared memory.
#include "few.h"
#include "hopper256.h"

KERNEL(hopper_256, 384)(Job job) { hopper_wide<Hopper256>(job); }

// For few boards: one at a time, whose outputs four blocks share.
CLUSTER_KERNEL(few_256, 160, 4)(Job job) { few<Few<256>>(job); }
