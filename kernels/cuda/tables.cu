// The kernels for networks of pattern tables. The host pads a network with zeros to the next number of lanes (Tables in kernels.go).
#include "tables.h"

RESIDENT_KERNEL(tables_128, 256, 2)(Job job) { tables<TableShape<128, 1, 1>>(job); }
RESIDENT_KERNEL(tables_256, 256, 2)(Job job) { tables<TableShape<256, 1, 1>>(job); }
RESIDENT_KERNEL(tables_512, 256, 2)(Job job) { tables<TableShape<512, 1, 1>>(job); }

// For rows that are not bytes times a factor.
RESIDENT_KERNEL(tables_128_words, 256, 2)(Job job) { tables<TableShape<128, 2, 1>>(job); }
RESIDENT_KERNEL(tables_256_words, 256, 2)(Job job) { tables<TableShape<256, 2, 1>>(job); }
RESIDENT_KERNEL(tables_512_words, 256, 2)(Job job) { tables<TableShape<512, 2, 2>>(job); }
