/* Shared by all files of the fake driver: its objects, the operations in its streams, and the form of a call. One mutex
 * guards everything. The functions of the driver lock it, and the functions below expect it to be locked. */
#ifndef EVALD_FAKE_STATE_H
#define EVALD_FAKE_STATE_H

#include <pthread.h>
#include <stddef.h>

#include "cuda.h"
#include "fake.h"

#define MEMORY ((size_t)1 << 30) /* bytes of a device */
#define MOST_SHARED 232448
#define MAX_ARGUMENTS 32
#define ARGUMENT_BYTES 512

struct CUfunc_st {
	struct CUfunc_st *next;
	fake_kernel *kernel;
	char *name;
	int arguments;
	size_t sizes[MAX_ARGUMENTS];
	unsigned shared; /* the limit */
	unsigned cluster; /* blocks of a cluster; or 0 */
};

/* An operation in a stream. */
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
	unsigned long place;  /* AFTER: number of operations that must be done there */
};

struct object {
	enum fake_kind kind;
	struct object *next, *context;
	unsigned char *bytes; /* MEMORY, HOST: between two guards */
	size_t size;
	int mapped; /* HOST: whether kernels may use it */
	char *ptx; /* MODULE; or its machine code */
	CUfunction functions;
	struct operation *first, *last; /* STREAM */
	unsigned long queued, done;     /* number of operations ever queued, and done */
	int asked;                      /* whether a query has returned CUDA_ERROR_NOT_READY */
	struct object *stream;          /* EVENT: where it was recorded */
	unsigned long place;
	double happened; /* in ms; 0: not yet */
	CUresult lost;   /* CONTEXT: the result of every call */
};

#pragma GCC visibility push(hidden)

extern pthread_mutex_t mutex;
extern pthread_cond_t was_reset;
extern unsigned long resets;
extern struct object *objects; /* all that exist */
extern size_t used;            /* bytes of FAKE_MEMORY */
extern long swept, overruns;
extern _Thread_local struct object *current; /* context */

/* Counts a call, and returns the fault that is due, or CUDA_SUCCESS. */
CUresult count_call(const char *name);
CUresult count_call_in_context(const char *name);

/* The same for a name that is counted only after fake_fail has named it. */
CUresult count_named(const char *name);

/* Whether o exists and is of that kind. */
int live(const struct object *o, enum fake_kind kind);
struct object *make(enum fake_kind kind);
struct object *make_bytes(enum fake_kind kind, size_t n);
void destroy(struct object *o);

/* The object of that kind that contains the n bytes, or NULL. */
struct object *inside(enum fake_kind kind, const void *at, size_t n);

/* Queues an operation in a stream. All its fields are zero, except its kind. */
struct operation *put(CUstream s, int kind);
void put_copy(CUstream s, void *to, const void *from, size_t n);

/* Runs all operations in a context's streams. Returns the context's result. */
CUresult drain_all(struct object *context);

/* The function that the library of kernels exports under that name, or NULL. */
void *host_function(const char *name);

#pragma GCC visibility pop

/* The compute capability of all devices: 90 is 9.0. */
int capability(void);

/* The offset of an argument after that many bytes of others. */
static inline size_t place(size_t bytes) { return (bytes + 7) / 8 * 8; }

/* A function of the driver: a body that runs under the mutex and leaves its result in `result`. */
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

#endif
