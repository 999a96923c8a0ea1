// One kernel of tower64.cu, for builds that take long.
#include "../tower.h"

KERNEL(tower_64_half, 128)(Job job) { tower<Shape<64, 4, 64, 2>>(job); }
