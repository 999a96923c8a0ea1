/* A CUDA driver for tests: its device's memory is the host's, its kernels are host functions, its faults come when they
 * are asked for. It has the functions that package driver calls; the loader answers for the others.
 *
 * It is stricter than the real one where that finds mistakes. What is put into a stream is not done before somebody waits
 * for it. Memory begins as garbage, is checked for writes outside it, and copies must stay inside one piece. Copies in
 * streams need pinned memory, and nothing but waiting is possible with stream 0.
 *
 * Environment: EVALD_FAKE_DEVICES, how many (1); EVALD_FAKE_FAULTS, name:at:times:code as in fake_fail, separated by
 * commas; EVALD_FAKE_KERNELS, the library with the kernels. */
#define _GNU_SOURCE
#include <ctype.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cuda.h"
#include "fake.h"

#define GUARD 64
#define MEMORY ((size_t)1 << 30)
#define DEFAULT_SHARED 49152
#define MOST_SHARED 232448
#define MAX_ARGUMENTS 32
#define ARGUMENT_BYTES 512

struct CUfunc_st {
	struct CUfunc_st *next;
	fake_kernel *kernel;
	int arguments;
	size_t sizes[MAX_ARGUMENTS];
	unsigned shared; /* allowed */
};

/* What stands in a stream. */
struct operation {
	struct operation *next;
	enum { COPY, LAUNCH, RECORD, AFTER } kind;
	void *to; /* COPY */
	const void *from;
	size_t n;
	CUfunction function; /* LAUNCH */
	unsigned grid[3], block[3], shared;
	_Alignas(16) unsigned char arguments[ARGUMENT_BYTES];
	struct object *other; /* RECORD: the event; AFTER: the stream */
	unsigned long place;  /* AFTER: that must be done there */
};

struct object {
	enum fake_kind kind;
	struct object *next, *context;
	unsigned char *bytes; /* MEMORY, HOST: between two guards */
	size_t size;
	char *ptx; /* MODULE */
	CUfunction functions;
	struct operation *first, *last; /* STREAM */
	unsigned long queued, done;     /* operations that were ever put there, and that were done */
	int asked;                      /* whether they are done, and was told not yet */
	struct object *stream;          /* EVENT: where it was recorded */
	unsigned long place;
	double happened; /* in ms; 0: not yet */
	CUresult lost;   /* CONTEXT: every call's answer */
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t was_reset = PTHREAD_COND_INITIALIZER;
static unsigned long resets;
static struct object *objects;
static size_t used;
static long swept, overruns;
static struct { const char *name; long count, at, times; CUresult code; } calls[64];
static _Thread_local struct object *current;

/* Calls and faults */

static int slot(const char *name) {
	int i = 0;
	while (i < 63 && calls[i].name && strcmp(calls[i].name, name)) i++;
	if (!calls[i].name) calls[i].name = strdup(name);
	return i;
}

static int on_device(CUresult r) {
	return r == CUDA_ERROR_ECC_UNCORRECTABLE || r == CUDA_ERROR_ILLEGAL_ADDRESS || r == CUDA_ERROR_LAUNCH_TIMEOUT ||
		(r >= CUDA_ERROR_ASSERT && r <= CUDA_ERROR_LAUNCH_FAILED);
}

static int live(const struct object *o, enum fake_kind kind) {
	for (const struct object *p = objects; p; p = p->next)
		if (p == o) return p->kind == kind;
	return 0;
}

static CUresult count_call(const char *name) {
	int i = slot(name);
	long n = ++calls[i].count;
	if (!calls[i].at || n < calls[i].at || (calls[i].times >= 0 && n >= calls[i].at + calls[i].times)) return CUDA_SUCCESS;
	if (on_device(calls[i].code) && live(current, FAKE_CONTEXT)) current->lost = calls[i].code;
	return calls[i].code;
}

static CUresult count_call_in_context(const char *name) {
	CUresult r = count_call(name);
	if (r != CUDA_SUCCESS) return r;
	if (!live(current, FAKE_CONTEXT)) return CUDA_ERROR_INVALID_CONTEXT;
	return current->lost;
}

/* Every function of the driver is one body under the mutex, with its answer in result. */
#define ANYWHERE(name, parameters, ...) \
	CUresult name parameters { \
		pthread_mutex_lock(&mutex); \
		CUresult result = count_call(#name); \
		if (result == CUDA_SUCCESS) do __VA_ARGS__ while (0); \
		pthread_mutex_unlock(&mutex); \
		return result; \
	}
#define IN_CONTEXT(name, parameters, ...) \
	CUresult name parameters { \
		pthread_mutex_lock(&mutex); \
		CUresult result = count_call_in_context(#name); \
		if (result == CUDA_SUCCESS) do __VA_ARGS__ while (0); \
		pthread_mutex_unlock(&mutex); \
		return result; \
	}
#define REFUSE(code) { result = code; break; }
#define MUST_LIVE(handle, kind) if (!live((struct object *)(handle), kind)) REFUSE(CUDA_ERROR_INVALID_HANDLE)

void fake_reset(void) {
	pthread_mutex_lock(&mutex);
	memset(calls, 0, sizeof calls);
	swept = overruns = 0;
	resets++;
	pthread_cond_broadcast(&was_reset);
	pthread_mutex_unlock(&mutex);
}

void fake_fail(const char *name, long at, long times, int code) {
	pthread_mutex_lock(&mutex);
	int i = slot(name);
	calls[i].at = calls[i].count + at;
	calls[i].times = times;
	calls[i].code = code;
	pthread_mutex_unlock(&mutex);
}

const char *fake_call(int i, long *count) {
	if (i < 0 || i >= 64) return NULL;
	*count = calls[i].count;
	return calls[i].name;
}

long fake_live(int kind) {
	long n = 0;
	pthread_mutex_lock(&mutex);
	for (struct object *o = objects; o; o = o->next) n += o->kind == (enum fake_kind)kind;
	pthread_mutex_unlock(&mutex);
	return n;
}

long fake_swept(void) { return swept; }
long fake_overruns(void) { return overruns; }

__attribute__((constructor)) static void faults_of_environment(void) {
	const char *s = getenv("EVALD_FAKE_FAULTS");
	char name[64];
	long at, times;
	int code, n;
	while (s && sscanf(s, "%63[^:]:%ld:%ld:%d%n", name, &at, &times, &code, &n) == 4) {
		fake_fail(name, at, times, code);
		s = s[n] == ',' ? s + n + 1 : NULL;
	}
}

/* Objects */

static struct object *make(enum fake_kind kind) {
	struct object *o = calloc(1, sizeof *o);
	o->kind = kind;
	o->context = current;
	o->next = objects;
	objects = o;
	return o;
}

static struct object *make_bytes(enum fake_kind kind, size_t n) {
	struct object *o = make(kind);
	o->size = n;
	o->bytes = (unsigned char *)aligned_alloc(GUARD, (n + 3 * GUARD - 1) / GUARD * GUARD) + GUARD;
	memset(o->bytes - GUARD, 0xA5, n + 2 * GUARD);
	memset(o->bytes, 0xCD, n);
	if (kind == FAKE_MEMORY) used += n;
	return o;
}

static void destroy(struct object *o) {
	struct object **p = &objects;
	while (*p != o) p = &(*p)->next;
	*p = o->next;
	if (o->bytes) {
		int over = 0;
		for (size_t i = 0; i < GUARD; i++) over |= o->bytes[i - GUARD] != 0xA5 || o->bytes[o->size + i] != 0xA5;
		overruns += over;
		if (o->kind == FAKE_MEMORY) used -= o->size;
		free(o->bytes - GUARD);
	}
	for (struct operation *op = o->first, *next; op; op = next) {
		next = op->next;
		free(op);
	}
	for (CUfunction f = o->functions, next; f; f = next) {
		next = f->next;
		free(f);
	}
	free(o->ptx);
	free(o);
}

/* The object of that kind that the n bytes are inside. */
static struct object *inside(enum fake_kind kind, const void *at, size_t n) {
	const unsigned char *a = at;
	for (struct object *o = objects; o; o = o->next)
		if (o->kind == kind && a >= o->bytes && n <= o->size && (size_t)(a - o->bytes) <= o->size - n) return o;
	return NULL;
}

/* Streams */

static void drain(struct object *stream, unsigned long until);
static void *host_function(const char *name);

/* Where an argument begins that follows so many bytes of others. */
static size_t place(size_t bytes) { return (bytes + 7) / 8 * 8; }

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e3 + t.tv_nsec * 1e-6;
}

static CUresult execute(struct operation *op) {
	void *arguments[MAX_ARGUMENTS];
	CUresult r;
	switch (op->kind) {
	case COPY: /* checked when it was put there; it may have been freed since */
		if ((!inside(FAKE_MEMORY, op->to, op->n) && !inside(FAKE_HOST, op->to, op->n)) ||
			(!inside(FAKE_MEMORY, op->from, op->n) && !inside(FAKE_HOST, op->from, op->n))) return CUDA_ERROR_ILLEGAL_ADDRESS;
		memcpy(op->to, op->from, op->n);
		break;
	case LAUNCH:
		r = count_call("kernel");
		if ((int)r == FAKE_HANG) {
			for (unsigned long now = resets; now == resets;) pthread_cond_wait(&was_reset, &mutex);
			r = CUDA_SUCCESS;
		}
		if (r != CUDA_SUCCESS && (int)r != FAKE_SPOIL) return r;
		for (size_t i = 0, at = 0; i < (size_t)op->function->arguments; at += op->function->sizes[i++]) {
			at = place(at);
			arguments[i] = op->arguments + at;
		}
		int spoil = (int)r == FAKE_SPOIL;
		if ((r = op->function->kernel(op->grid, op->block, op->shared, arguments)) == CUDA_SUCCESS && spoil)
			((fake_spoiler *)host_function("fake_spoil"))(arguments);
		return r;
	case RECORD:
		if (live(op->other, FAKE_EVENT)) op->other->happened = now();
		break;
	case AFTER:
		if (live(op->other, FAKE_STREAM)) drain(op->other, op->place);
		break;
	}
	return CUDA_SUCCESS;
}

static void drain(struct object *stream, unsigned long until) {
	while (stream->first && stream->done < until) {
		struct operation *op = stream->first;
		stream->first = op->next;
		stream->done++;
		if (stream->context->lost == CUDA_SUCCESS) {
			CUresult r = execute(op);
			if (r != CUDA_SUCCESS) stream->context->lost = r;
		}
		free(op);
	}
}

static CUresult drain_all(struct object *context) {
	for (struct object *o = objects; o; o = o->next)
		if (o->kind == FAKE_STREAM && o->context == context) drain(o, o->queued);
	return context->lost;
}

static struct operation *put(CUstream s, int kind) {
	struct object *stream = (struct object *)s;
	struct operation *op = calloc(1, sizeof *op);
	op->kind = kind;
	if (stream->first) stream->last->next = op;
	else stream->first = op;
	stream->last = op;
	stream->queued++;
	return op;
}

static void put_copy(CUstream s, void *to, const void *from, size_t n) {
	struct operation *op = put(s, COPY);
	op->to = to;
	op->from = from;
	op->n = n;
}

IN_CONTEXT(cuStreamCreate, (CUstream *s, unsigned flags), {
	if (flags != CU_STREAM_NON_BLOCKING) REFUSE(CUDA_ERROR_INVALID_VALUE)
	*s = (CUstream)make(FAKE_STREAM);
})

IN_CONTEXT(cuStreamDestroy_v2, (CUstream s), {
	MUST_LIVE(s, FAKE_STREAM)
	drain((struct object *)s, ((struct object *)s)->queued);
	destroy((struct object *)s);
})

IN_CONTEXT(cuStreamSynchronize, (CUstream s), {
	if (!s) break; /* nothing is ever late in stream 0 */
	MUST_LIVE(s, FAKE_STREAM)
	drain((struct object *)s, ((struct object *)s)->queued);
	result = current->lost;
})

/* The first who asks after something was put there hears that it is not done; the next waits for it. */
IN_CONTEXT(cuStreamQuery, (CUstream s), {
	MUST_LIVE(s, FAKE_STREAM)
	struct object *stream = (struct object *)s;
	if (stream->first && !stream->asked) {
		stream->asked = 1;
		REFUSE(CUDA_ERROR_NOT_READY)
	}
	stream->asked = 0;
	drain(stream, stream->queued);
	result = current->lost;
})

IN_CONTEXT(cuEventCreate, (CUevent *e, unsigned flags), {
	(void)flags;
	*e = (CUevent)make(FAKE_EVENT);
})

IN_CONTEXT(cuEventDestroy_v2, (CUevent e), {
	MUST_LIVE(e, FAKE_EVENT)
	destroy((struct object *)e);
})

IN_CONTEXT(cuEventRecord, (CUevent e, CUstream s), {
	MUST_LIVE(e, FAKE_EVENT)
	MUST_LIVE(s, FAKE_STREAM)
	struct object *event = (struct object *)e;
	put(s, RECORD)->other = event;
	event->stream = (struct object *)s;
	event->place = event->stream->queued;
	event->happened = 0;
})

IN_CONTEXT(cuEventSynchronize, (CUevent e), {
	MUST_LIVE(e, FAKE_EVENT)
	struct object *event = (struct object *)e;
	if (live(event->stream, FAKE_STREAM)) drain(event->stream, event->place);
	result = current->lost;
})

IN_CONTEXT(cuEventElapsedTime, (float *ms, CUevent from, CUevent to), {
	MUST_LIVE(from, FAKE_EVENT)
	MUST_LIVE(to, FAKE_EVENT)
	double start = ((struct object *)from)->happened, end = ((struct object *)to)->happened;
	if (!start || !end) REFUSE(CUDA_ERROR_NOT_READY)
	*ms = end - start;
})

IN_CONTEXT(cuStreamWaitEvent, (CUstream s, CUevent e, unsigned flags), {
	(void)flags;
	MUST_LIVE(s, FAKE_STREAM)
	MUST_LIVE(e, FAKE_EVENT)
	struct object *event = (struct object *)e;
	struct operation *op = put(s, AFTER);
	op->other = event->stream;
	op->place = event->place;
})

/* Devices and contexts */

static int device_count(void) {
	const char *n = getenv("EVALD_FAKE_DEVICES");
	return n ? atoi(n) : 1;
}

ANYWHERE(cuInit, (unsigned flags), { if (flags) result = CUDA_ERROR_INVALID_VALUE; })
ANYWHERE(cuDriverGetVersion, (int *version), { *version = 12040; })
ANYWHERE(cuDeviceGetCount, (int *count), { *count = device_count(); })
ANYWHERE(cuDeviceTotalMem_v2, (size_t *bytes, CUdevice d), { (void)d; *bytes = MEMORY; })

ANYWHERE(cuDeviceGet, (CUdevice *device, int ordinal), {
	if (ordinal < 0 || ordinal >= device_count()) REFUSE(CUDA_ERROR_INVALID_DEVICE)
	*device = ordinal;
})

ANYWHERE(cuDeviceGetName, (char *name, int n, CUdevice d), { snprintf(name, n, "Fake GPU %d", d); })

ANYWHERE(cuDeviceGetAttribute, (int *value, CUdevice_attribute a, CUdevice d), {
	(void)d;
	switch (a) {
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = 9; break;
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = 0; break;
	case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = 4; break;
	case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *value = MOST_SHARED; break;
	default: result = CUDA_ERROR_INVALID_VALUE;
	}
})

ANYWHERE(cuCtxCreate_v2, (CUcontext *context, unsigned flags, CUdevice d), {
	(void)flags;
	if (d < 0 || d >= device_count()) REFUSE(CUDA_ERROR_INVALID_DEVICE)
	current = NULL;
	current = make(FAKE_CONTEXT);
	*context = (CUcontext)current;
})

/* Also where the device is lost; it then says so, and the context is gone nevertheless. */
CUresult cuCtxDestroy_v2(CUcontext c) {
	struct object *context = (struct object *)c;
	pthread_mutex_lock(&mutex);
	CUresult result = CUDA_ERROR_INVALID_HANDLE;
	if (live(context, FAKE_CONTEXT)) {
		result = count_call("cuCtxDestroy_v2");
		CUresult lost = drain_all(context);
		if (result == CUDA_SUCCESS) result = lost;
		for (struct object *o = objects, *next; o; o = next) {
			next = o->next;
			if (o->context != context) continue;
			swept++;
			destroy(o);
		}
		destroy(context);
		current = NULL;
	}
	pthread_mutex_unlock(&mutex);
	return result;
}

static const struct { CUresult code; const char *name, *text; } errors[] = {
#define E(name, text) {name, #name, text}
	E(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
	E(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
	E(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
	E(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
	E(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
	E(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
	E(CUDA_ERROR_NO_BINARY_FOR_GPU, "no kernel image is available for execution on the device"),
	E(CUDA_ERROR_INVALID_PTX, "a PTX JIT compilation failed"),
	E(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
	E(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
	E(CUDA_ERROR_NOT_READY, "device not ready"),
	E(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
	E(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure"),
#undef E
};

static CUresult describe(CUresult code, const char **to, int text) {
	for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
		if (errors[i].code == code) {
			*to = text ? errors[i].text : errors[i].name;
			return CUDA_SUCCESS;
		}
	*to = NULL;
	return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorName(CUresult code, const char **name) { return describe(code, name, 0); }
CUresult cuGetErrorString(CUresult code, const char **text) { return describe(code, text, 1); }

/* Memory */

IN_CONTEXT(cuMemGetInfo_v2, (size_t *free, size_t *total), {
	*free = MEMORY - used;
	*total = MEMORY;
})

IN_CONTEXT(cuMemAlloc_v2, (CUdeviceptr *p, size_t n), {
	if (!n) REFUSE(CUDA_ERROR_INVALID_VALUE)
	if (n > MEMORY - used) REFUSE(CUDA_ERROR_OUT_OF_MEMORY)
	*p = (CUdeviceptr)make_bytes(FAKE_MEMORY, n)->bytes;
})

IN_CONTEXT(cuMemFree_v2, (CUdeviceptr p), {
	struct object *o = inside(FAKE_MEMORY, (void *)p, 1);
	if (!o || o->bytes != (void *)p) REFUSE(CUDA_ERROR_INVALID_VALUE)
	result = drain_all(current);
	destroy(o);
})

IN_CONTEXT(cuMemHostAlloc, (void **p, size_t n, unsigned flags), {
	(void)flags;
	if (!n) REFUSE(CUDA_ERROR_INVALID_VALUE)
	if (n > MEMORY) REFUSE(CUDA_ERROR_OUT_OF_MEMORY)
	*p = make_bytes(FAKE_HOST, n)->bytes;
})

IN_CONTEXT(cuMemFreeHost, (void *p), {
	struct object *o = inside(FAKE_HOST, p, 1);
	if (!o || o->bytes != p) REFUSE(CUDA_ERROR_INVALID_VALUE)
	result = drain_all(current);
	destroy(o);
})

IN_CONTEXT(cuMemcpyHtoD_v2, (CUdeviceptr to, const void *from, size_t n), {
	if (!inside(FAKE_MEMORY, (void *)to, n)) REFUSE(CUDA_ERROR_INVALID_VALUE)
	memcpy((void *)to, from, n);
})

IN_CONTEXT(cuMemcpyDtoH_v2, (void *to, CUdeviceptr from, size_t n), {
	if (!inside(FAKE_MEMORY, (void *)from, n)) REFUSE(CUDA_ERROR_INVALID_VALUE)
	memcpy(to, (void *)from, n);
})

IN_CONTEXT(cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *from, size_t n, CUstream s), {
	MUST_LIVE(s, FAKE_STREAM)
	if (!inside(FAKE_MEMORY, (void *)to, n) || !inside(FAKE_HOST, from, n)) REFUSE(CUDA_ERROR_INVALID_VALUE)
	put_copy(s, (void *)to, from, n);
})

IN_CONTEXT(cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t n, CUstream s), {
	MUST_LIVE(s, FAKE_STREAM)
	if (!inside(FAKE_HOST, to, n) || !inside(FAKE_MEMORY, (void *)from, n)) REFUSE(CUDA_ERROR_INVALID_VALUE)
	put_copy(s, to, (void *)from, n);
})

/* Modules and kernels */

/* The sizes of an entry's parameters, from the parenthesis that opens their list; how many, or -1. */
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

/* What follows the name of an entry, or NULL. */
static const char *entry(const char *ptx, const char *name) {
	size_t n = strlen(name);
	for (const char *p = ptx; (p = strstr(p, ".entry"));) {
		p += strlen(".entry");
		p += strspn(p, " \t\n");
		if (!strncmp(p, name, n) && strchr("( \t\n", p[n])) return p + n;
	}
	return NULL;
}

static void *host_function(const char *name) {
	const char *path = getenv("EVALD_FAKE_KERNELS");
	void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
	return library ? dlsym(library, name) : NULL;
}

IN_CONTEXT(cuModuleLoadDataEx, (CUmodule *m, const void *image, unsigned n, CUjit_option *options, void **values), {
	if (!strstr(image, ".version")) {
		char *log = NULL;
		size_t size = 0;
		for (unsigned i = 0; i < n; i++) {
			if (options[i] == CU_JIT_ERROR_LOG_BUFFER) log = values[i];
			if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) size = (size_t)values[i];
		}
		if (log) snprintf(log, size, "fake : Missing .version directive\n");
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
	const char *list = entry(module->ptx, name);
	if (!list) REFUSE(CUDA_ERROR_NOT_FOUND)
	CUfunction made = calloc(1, sizeof *made);
	made->arguments = parameters(list, made->sizes);
	made->kernel = (fake_kernel *)host_function(name);
	if (made->arguments < 0 || !made->kernel) {
		free(made);
		REFUSE(CUDA_ERROR_NO_BINARY_FOR_GPU)
	}
	made->shared = DEFAULT_SHARED;
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
