/* Kernels for the fake driver. */
#include "fake.h"

/* y[i] += a * x[i] for i < n, one block after the other. */
int axpy(const unsigned grid[3], const unsigned block[3], unsigned shared, void **arguments) {
	float *y = *(float **)arguments[0], *x = *(float **)arguments[1], a = *(float *)arguments[2];
	int n = *(int *)arguments[3];
	(void)shared;
	for (unsigned i = 0; i < grid[0] * block[0]; i++)
		if ((int)i < n) y[i] += a * x[i];
	return 0;
}

/* The same, with its arguments in a struct. */
int axpy_struct(const unsigned grid[3], const unsigned block[3], unsigned shared, void **arguments) {
	struct { float *y, *x; float a; int n; } *all = arguments[0];
	void *each[] = {&all->y, &all->x, &all->a, &all->n};
	return axpy(grid, block, shared, each);
}

/* Writes one past the end of 16 bytes. */
int overrun(const unsigned grid[3], const unsigned block[3], unsigned shared, void **arguments) {
	(void)grid, (void)block, (void)shared;
	(*(unsigned char **)arguments[0])[16] = 1;
	return 0;
}
