// One kernel of tower64.cu, for builds that take long.
#include "../tower.h"

KERNEL(tower_64_quarter, 64)(Job job) { tower<Shape<64, 2, 64, 2>>(job); }
