/* Modules and kernels. Of a module's PTX or machine code only the target and the entries' parameters are read; the kernels are
 * host functions. */
#define _GNU_SOURCE
#include <ctype.h>
#include <dlfcn.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "state.h"

#define DEFAULT_SHARED 49152

/* Reads the sizes of an entry's parameters, from the parenthesis that opens their list. Returns their number, or -1. */
static int parameters(const char *p, size_t sizes[MAX_ARGUMENTS]) {
	const char *end = strchr(p, ')');
	size_t bytes = 0;
	int n = 0;
	while (end && (p = strstr(p, ".param")) && p < end) {
		size_t size = 0, length;
		const char *next = p + strcspn(p, ",)");
		for (const char *q = p; (q = strchr(q + 1, '.')) && q < next;)
			if (strchr("bsuf", q[1]) && isdigit((unsigned char)q[2])) size = atoi(q + 2) / 8;
		const char *array = memchr(p, '[', next - p);
		if (array && sscanf(array, "[%zu]", &length) == 1) size *= length;
		bytes = place(bytes) + size;
		if (n == MAX_ARGUMENTS || !size || bytes > ARGUMENT_BYTES) return -1;
		sizes[n++] = size;
		p = next;
	}
	return end ? n : -1;
}

/* The text after the name of an entry, or NULL. */
static const char *entry(const char *ptx, const char *name) {
	size_t n = strlen(name);
	for (const char *p = ptx; (p = strstr(p, ".entry"));) {
		p += strlen(".entry");
		p += strspn(p, " \t\n");
		if (!strncmp(p, name, n) && strchr("( \t\n", p[n])) return p + n;
	}
	return NULL;
}

/* Machine code is an ELF file. */
static int is_elf(const char *image) { return !memcmp(image, ELFMAG, SELFMAG); }

static size_t elf_size(const char *image) {
	const Elf64_Ehdr *e = (const Elf64_Ehdr *)image;
	return e->e_shoff + (size_t)e->e_shentsize * e->e_shnum;
}

/* The architecture: newer files have it in the second byte of their flags. */
static int elf_target(const char *image) {
	unsigned flags = ((const Elf64_Ehdr *)image)->e_flags;
	return (flags & 0xff) >= 50 ? flags & 0xff : flags >> 8 & 0xff;
}

/* The section of an entry whose name begins so, or NULL. */
static const Elf64_Shdr *elf_section(const char *image, const char *prefix, const char *name) {
	const Elf64_Ehdr *e = (const Elf64_Ehdr *)image;
	const Elf64_Shdr *s = (const Elf64_Shdr *)(image + e->e_shoff);
	const char *names = image + s[e->e_shstrndx].sh_offset;
	for (int i = 0; i < e->e_shnum; i++) {
		const char *of = names + s[i].sh_name;
		if (!strncmp(of, prefix, strlen(prefix)) && !strcmp(of + strlen(prefix), name)) return s + i;
	}
	return NULL;
}

/* The size of an entry's only argument: its constants after those of the driver. Returns 1, or -1. */
static int elf_parameters(const char *image, const char *name, size_t sizes[MAX_ARGUMENTS]) {
	const Elf64_Shdr *s = elf_section(image, ".nv.constant0.", name);
	int target = elf_target(image);
	size_t before = target < 90 ? 0x160 : target < 100 ? 0x210 : 0x380;
	if (!s || s->sh_size <= before || s->sh_size - before > ARGUMENT_BYTES) return -1;
	sizes[0] = s->sh_size - before;
	return 1;
}

/* The number of blocks in an entry's clusters, or 0 if it has none: in PTX after its parameters, in machine code one of its
 * attributes. An attribute has four bytes: its form, its number, and in form 4 the number of bytes that follow. */
static int cluster_of(const char *image, const char *name) {
	const char directive[] = ".reqnctapercluster";
	if (!is_elf(image)) {
		const char *of = entry(image, name), *found = of ? strstr(of, directive) : NULL;
		return found && found < strchr(of, '{') ? atoi(found + strlen(directive)) : 0;
	}
	const Elf64_Shdr *s = elf_section(image, ".nv.info.", name);
	const unsigned char *p = s ? (const unsigned char *)image + s->sh_offset : NULL;
	for (const unsigned char *end = s ? p + s->sh_size : NULL; p < end; p += 4 + (p[0] == 4 ? p[2] | p[3] << 8 : 0))
		if (p[0] == 4 && p[1] == 0x3d) return p[4];
	return 0;
}

void *host_function(const char *name) {
	const char *path = getenv("EVALD_FAKE_KERNELS");
	void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
	return library ? dlsym(library, name) : NULL;
}

/* The error in PTX, or NULL. A device compiles PTX of its own capability and of all earlier ones. */
static const char *wrong(const char *ptx) {
	const char *target = strstr(ptx, "\n.target sm_");
	if (!strstr(ptx, ".version")) return "fake : Missing .version directive\n";
	if (!target || atoi(target + strlen("\n.target sm_")) > capability()) return "fake : SM version specified by .target is higher than the device's\n";
	return NULL;
}

IN_CONTEXT(cuModuleLoadDataEx, (CUmodule *m, const void *image, unsigned n, CUjit_option *options, void **values), {
	if (is_elf(image)) {
		if (elf_target(image) / 10 != capability() / 10 || elf_target(image) > capability()) REFUSE(CUDA_ERROR_NO_BINARY_FOR_GPU)
		struct object *o = make(FAKE_MODULE);
		o->ptx = memcpy(malloc(elf_size(image)), image, elf_size(image));
		*m = (CUmodule)o;
		break;
	}
	const char *why = wrong(image);
	if (why) {
		char *log = NULL;
		size_t size = 0;
		for (unsigned i = 0; i < n; i++) {
			if (options[i] == CU_JIT_ERROR_LOG_BUFFER) log = values[i];
			if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) size = (size_t)values[i];
		}
		if (log) snprintf(log, size, "%s", why);
		REFUSE(CUDA_ERROR_INVALID_PTX)
	}
	struct object *o = make(FAKE_MODULE);
	o->ptx = strdup(image);
	*m = (CUmodule)o;
})

IN_CONTEXT(cuModuleUnload, (CUmodule m), {
	MUST_LIVE(m, FAKE_MODULE)
	result = drain_all(current);
	destroy((struct object *)m);
})

IN_CONTEXT(cuModuleGetFunction, (CUfunction *f, CUmodule m, const char *name), {
	MUST_LIVE(m, FAKE_MODULE)
	struct object *module = (struct object *)m;
	size_t sizes[MAX_ARGUMENTS] = {0};
	const char *list = is_elf(module->ptx) ? NULL : entry(module->ptx, name);
	int count = is_elf(module->ptx) ? elf_parameters(module->ptx, name, sizes) : list ? parameters(list, sizes) : -1;
	if (count < 0 && !list) REFUSE(CUDA_ERROR_NOT_FOUND)
	CUfunction made = calloc(1, sizeof *made);
	made->arguments = count;
	memcpy(made->sizes, sizes, sizeof sizes);
	made->kernel = (fake_kernel *)host_function(name);
	made->name = strdup(name);
	if (made->arguments < 0 || !made->kernel) {
		free(made->name);
		free(made);
		REFUSE(CUDA_ERROR_NO_BINARY_FOR_GPU)
	}
	made->shared = DEFAULT_SHARED;
	made->cluster = cluster_of(module->ptx, name);
	made->next = module->functions;
	module->functions = *f = made;
})

static int known(CUfunction f) {
	for (struct object *o = objects; o; o = o->next)
		for (CUfunction g = o->functions; g; g = g->next)
			if (g == f) return o->context == current;
	return 0;
}

IN_CONTEXT(cuFuncSetAttribute, (CUfunction f, CUfunction_attribute a, int value), {
	if (!known(f)) REFUSE(CUDA_ERROR_INVALID_HANDLE)
	if (a != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value < 0 || value > MOST_SHARED) REFUSE(CUDA_ERROR_INVALID_VALUE)
	f->shared = value;
})

IN_CONTEXT(cuOccupancyMaxActiveBlocksPerMultiprocessor, (int *blocks, CUfunction f, int threads, size_t shared), {
	if (!known(f)) REFUSE(CUDA_ERROR_INVALID_HANDLE)
	if (threads < 1 || threads > 1024) REFUSE(CUDA_ERROR_INVALID_VALUE)
	int by_threads = 2048 / threads, by_shared = (MOST_SHARED + 1024) / (shared + 1024);
	*blocks = by_threads < by_shared ? by_threads : by_shared;
})

IN_CONTEXT(cuLaunchKernel, (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
	unsigned shared, CUstream s, void **arguments, void **extra), {
	(void)extra;
	if (!known(f)) REFUSE(CUDA_ERROR_INVALID_HANDLE)
	MUST_LIVE(s, FAKE_STREAM)
	unsigned long threads = (unsigned long)bx * by * bz;
	if (!gx || !gy || !gz || !threads || bx > 1024 || by > 1024 || bz > 64 || threads > 1024 || shared > f->shared)
		REFUSE(CUDA_ERROR_INVALID_VALUE)
	if (f->cluster) {
		CUresult fault = count_named("cluster");
		if (fault != CUDA_SUCCESS) REFUSE(fault)
		if (gx % f->cluster) REFUSE(CUDA_ERROR_INVALID_CLUSTER_SIZE)
	}
	struct operation *op = put(s, LAUNCH);
	op->function = f;
	op->grid[0] = gx, op->grid[1] = gy, op->grid[2] = gz;
	op->block[0] = bx, op->block[1] = by, op->block[2] = bz;
	op->shared = shared;
	for (size_t i = 0, at = 0; i < (size_t)f->arguments; at += f->sizes[i++]) {
		at = place(at);
		memcpy(op->arguments + at, arguments[i], f->sizes[i]);
	}
})
