/* Opens the CUDA driver while the program runs. */
#ifndef EVALD_CUDA_LOADER_H
#define EVALD_CUDA_LOADER_H

#include <stddef.h>

/* Opens the library of that name or path and initialises its driver. Returns
 *   0: from then on the functions of cuda.h are the library's;
 *   > 0: cuInit's error, with its name and text in why;
 *   -1: it is not a driver library, with the system's message in why.
 * Until it returns 0, cuInit succeeds without doing anything and every other function returns
 * CUDA_ERROR_NOT_INITIALIZED. Call it from one thread, and not again after it returned 0. */
int evald_cuda_open(const char *name, char *why, size_t size);

#endif
