// Stores the sums from registers, with the macros of direct.h.

#include "vector/inline.h"

// store adds, applies relu and stores the vector of outputs at index `at` of [cell][width].
INLINE NAME(store)(const conv *c, int64_t at, VEC y) {
	if (c->add) y = ADD(y, LOAD(c->add + at));
	if (c->relu) y = RELU(y);
	if (c->dst) STORE(c->dst + at, y);
	if (c->pairs) STORE_PAIRS((uint16_t *)c->pairs + at, y);
}

// LAST_INT8 returns the vector of outputs from o on for their sums of bytes (int8.go).
#define LAST_INT8(c, o, sum) FMA_EACH(LOAD((c)->bias + (o)), FROM_INT32(sum), LOAD((c)->scale + (o)))
