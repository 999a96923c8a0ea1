/* Functions of the fake driver for tests, beside those of the CUDA driver. */
#ifndef EVALD_FAKE_H
#define EVALD_FAKE_H

/* A kernel as a host function, exported under the kernel's name by the library that EVALD_FAKE_KERNELS names. The
 * arguments are pointers to copies of the kernel's arguments. Returns 0, or the CUresult of its execution. */
typedef int fake_kernel(const unsigned grid[3], const unsigned block[3], unsigned shared, void **arguments);

/* Damages the output of a kernel with these arguments. The same library may export it as fake_spoil. */
typedef void fake_spoiler(void **arguments);
#define FAKE_SPOIL -1
#define FAKE_HANG -2

enum fake_kind { FAKE_CONTEXT, FAKE_MEMORY, FAKE_HOST, FAKE_MODULE, FAKE_STREAM, FAKE_EVENT, FAKE_KINDS };

/* Clears calls, faults and counts. Existing objects remain. */
void fake_reset(void);

/* Makes calls of that name return a CUresult: the at-th from now on, starting from 1, and the times - 1 calls after it, or
 * all calls after it if times is negative. "kernel" is the execution of any kernel, and a kernel's name the execution of that one:
 * with FAKE_SPOIL it succeeds but its output is damaged, with FAKE_HANG it does not end before the next reset. "cluster" is the
 * launch of a kernel with clusters. After a CUresult for a failure on the device, every call in that context returns it. */
void fake_fail(const char *name, long at, long times, int code);

/* Returns name i of at most 64 and the number of its calls. The name is NULL after the last. */
const char *fake_call(int i, long *count);

/* The number of existing objects of a kind. */
long fake_live(int kind);

/* The number of objects that were freed only with their context, since the reset. */
long fake_swept(void);

/* The number of pieces of memory with a write before or after them, noticed when they were freed, since the reset. */
long fake_overruns(void);

#endif
