/* Opens the CUDA driver while the program runs. */
#ifndef EVALD_CUDA_LOADER_H
#define EVALD_CUDA_LOADER_H

#include <stddef.h>

/* Opens the library of that name or path and initialises the driver in it. Returns 0, and from then on the functions
 * of cuda.h are the library's; cuInit's error, and its name and text in why; or -1 where it is no driver library, and
 * what the system says in why. Until it returns 0, cuInit succeeds without doing anything and every other function
 * answers CUDA_ERROR_NOT_INITIALIZED. To be called by one thread, and not again after a 0. */
int evald_cuda_open(const char *name, char *why, size_t size);

#endif
