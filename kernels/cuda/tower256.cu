// The kernel for at most 256 channels; see tower64.cu. It has 128 rows.
#include "tower.h"

KERNEL(tower_256, 256)(Job job) { tower<Shape<256, 8, 32, 2>>(job); }
