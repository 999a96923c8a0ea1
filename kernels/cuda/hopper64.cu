// The kernel for at most 64 channels on Hopper: 16 boards at a time, in 222 KiB of shared memory.
#include "few.h"
#include "hopper.h"

KERNEL(hopper_64, 384)(Job job) { hopper<Hopper<64>>(job); }

// For few boards: 4 at a time.
KERNEL(few_64, 544)(Job job) { few<Few<64>>(job); }
