/* A CUDA driver for tests: its device memory is host memory, its kernels are host functions, and its faults happen on
 * demand. It has the functions that package driver calls; the loader provides the others.
 *
 * It is stricter than the real one, to find mistakes. Operations in a stream are not done before the program waits for them.
 * New memory contains garbage, writes outside it are detected, and copies must stay inside one piece. Copies in streams
 * need pinned memory, and stream 0 can only be waited for.
 *
 * Environment: EVALD_FAKE_DEVICES, the number of devices (default 1); EVALD_FAKE_CAPABILITY, their compute capability
 * (default 90, which is 9.0); EVALD_FAKE_FAULTS, name:at:times:code as in
 * fake_fail, separated by commas; EVALD_FAKE_KERNELS, the library with the kernels. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "state.h"

#define GUARD 64

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t was_reset = PTHREAD_COND_INITIALIZER;
unsigned long resets;
struct object *objects;
size_t used;
long swept, overruns;
_Thread_local struct object *current;
static struct { const char *name; long count, at, times; CUresult code; } calls[64];

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

int live(const struct object *o, enum fake_kind kind) {
	for (const struct object *p = objects; p; p = p->next)
		if (p == o) return p->kind == kind;
	return 0;
}

CUresult count_call(const char *name) {
	int i = slot(name);
	long n = ++calls[i].count;
	if (!calls[i].at || n < calls[i].at || (calls[i].times >= 0 && n >= calls[i].at + calls[i].times)) return CUDA_SUCCESS;
	if (on_device(calls[i].code) && live(current, FAKE_CONTEXT)) current->lost = calls[i].code;
	return calls[i].code;
}

CUresult count_named(const char *name) {
	for (int i = 0; i < 64 && calls[i].name; i++)
		if (!strcmp(calls[i].name, name)) return count_call(name);
	return CUDA_SUCCESS;
}

CUresult count_call_in_context(const char *name) {
	CUresult r = count_call(name);
	if (r != CUDA_SUCCESS) return r;
	if (!live(current, FAKE_CONTEXT)) return CUDA_ERROR_INVALID_CONTEXT;
	return current->lost;
}

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

struct object *make(enum fake_kind kind) {
	struct object *o = calloc(1, sizeof *o);
	o->kind = kind;
	o->context = current;
	o->next = objects;
	objects = o;
	return o;
}

struct object *make_bytes(enum fake_kind kind, size_t n) {
	struct object *o = make(kind);
	o->size = n;
	o->bytes = (unsigned char *)aligned_alloc(GUARD, (n + 3 * GUARD - 1) / GUARD * GUARD) + GUARD;
	memset(o->bytes - GUARD, 0xA5, n + 2 * GUARD);
	memset(o->bytes, 0xCD, n);
	if (kind == FAKE_MEMORY) used += n;
	return o;
}

void destroy(struct object *o) {
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
		free(f->name);
		free(f);
	}
	free(o->ptx);
	free(o);
}

struct object *inside(enum fake_kind kind, const void *at, size_t n) {
	const unsigned char *a = at;
	for (struct object *o = objects; o; o = o->next)
		if (o->kind == kind && a >= o->bytes && n <= o->size && (size_t)(a - o->bytes) <= o->size - n) return o;
	return NULL;
}
