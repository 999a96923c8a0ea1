// The kernel for at most 128 channels on Hopper: 8 boards at a time, in 216 KiB of shared memory.
#include "few.h"
#include "hopper.h"

KERNEL(hopper_128, 384)(Job job) { hopper<Hopper<128>>(job); }

// For few boards: 4 at a time, whose outputs two blocks share.
CLUSTER_KERNEL(few_128, 544, 2)(Job job) { few<Few<128>>(job); }
