/* Kernels for the fake driver. */
#include "fake.h"

/* y[i] += a * x[i] for i < n, one block after the other. */
int axpy(const unsigned grid[3], const unsigned block[3], unsigned shared, void **arguments) {
	struct { float *y, *x; float a; int n; } *all = arguments[0];
	(void)shared;
	for (unsigned i = 0; i < grid[0] * block[0]; i++)
		if ((int)i < all->n) all->y[i] += all->a * all->x[i];
	return 0;
}

/* Writes one past the end of 16 bytes. */
int overrun(const unsigned grid[3], const unsigned block[3], unsigned shared, void **arguments) {
	(void)grid, (void)block, (void)shared;
	(*(unsigned char **)arguments[0])[16] = 1;
	return 0;
}
