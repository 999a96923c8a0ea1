// The kernel for at most 128 channels on Hopper: 8 boards at a time, in 216 KiB of shared memory.
#include "hopper.h"

KERNEL(hopper_128, 384)(Job job) { hopper<Hopper<128>>(job); }
