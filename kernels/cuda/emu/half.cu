// One kernel of tower.h and one of wide.h, for slow builds.
#include "../wide.h"

KERNEL(tower_64_half, 128)(Job job) { tower<Shape<64, 4, 64, 2>>(job); }
KERNEL(wide_64, 128)(Job job) { wide<Wide<64, 3, 2, 16>>(job); }
