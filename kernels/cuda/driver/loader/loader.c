/* The program is linked with this library instead of the driver's. Each function of cuda.h is a jump through a table
 * (trampolines.S). This file fills the table. All symbols are hidden, so that a loaded driver cannot use ours instead of
 * its own. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "cuda.h"
#include "evald_cuda_loader.h"

#define HIDDEN __attribute__((visibility("hidden")))

static const char *const names[] = {
#define F(name, parameters) #name,
#include "cuda_functions.h"
#undef F
};

enum { count = sizeof names / sizeof *names };

static CUresult not_opened(void) { return CUDA_ERROR_NOT_INITIALIZED; }

/* For functions that the library lacks: a driver may be older or newer than a function. */
static CUresult not_supported(void) { return CUDA_ERROR_NOT_SUPPORTED; }

HIDDEN void *evald_cuda_table[count] = {[0 ... count - 1] = (void *)not_opened};

/* gorgonia.org/cu calls cuInit when the program starts, and ends the program if it fails. The driver's cuInit takes long
 * and needs a device, so evald_cuda_open calls that one. */
HIDDEN CUresult cuInit(unsigned flags) {
	(void)flags;
	return CUDA_SUCCESS;
}

static void explain(void *library, CUresult result, char *why, size_t size) {
	CUresult (*name)(CUresult, const char **) = dlsym(library, "cuGetErrorName");
	CUresult (*text)(CUresult, const char **) = dlsym(library, "cuGetErrorString");
	const char *n = NULL, *t = NULL;
	if (name) name(result, &n);
	if (text) text(result, &t);
	snprintf(why, size, "%s (%d): %s", n ? n : "error", (int)result, t ? t : "no text");
}

/* The driver asks the loader for its compiler of PTX by name alone. If the driver was found by a path, the loader may not
 * find that name, so the library beside the driver is opened first: the loader then knows the name. If it is missing, the
 * driver works without it. */
static void open_compiler(const char *driver) {
	char path[4096];
	const char *end = strrchr(driver, '/');
	if (!end) return;
	int n = snprintf(path, sizeof path, "%.*s/libnvidia-ptxjitcompiler.so.1", (int)(end - driver), driver);
	if (n > 0 && (size_t)n < sizeof path) dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

HIDDEN int evald_cuda_open(const char *name, char *why, size_t size) {
	void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		snprintf(why, size, "%s", dlerror());
		return -1;
	}
	CUresult (*init)(unsigned) = dlsym(library, "cuInit");
	if (!init) {
		snprintf(why, size, "%s", dlerror());
		dlclose(library);
		return -1;
	}
	open_compiler(name);
	CUresult result = init(0);
	if (result != CUDA_SUCCESS) { /* the library stays open: the driver may have started threads */
		explain(library, result, why, size);
		return result;
	}
	for (int i = 0; i < count; i++) {
		void *function = dlsym(library, names[i]);
		evald_cuda_table[i] = function ? function : (void *)not_supported;
	}
	return 0;
}
