/* What tests may ask of the fake driver, beside the functions of the CUDA driver. */
#ifndef EVALD_FAKE_H
#define EVALD_FAKE_H

/* A kernel as a host function, exported under the kernel's name by the library that EVALD_FAKE_KERNELS names. The
 * arguments are pointers to copies of the kernel's. Returns 0, or the CUresult that its execution ends in. */
typedef int fake_kernel(const unsigned grid[3], const unsigned block[3], unsigned shared, void **arguments);

/* Damages what a kernel with these arguments has written; exported by the same library as fake_spoil, if it can. */
typedef void fake_spoiler(void **arguments);
#define FAKE_SPOIL -1
#define FAKE_HANG -2

enum fake_kind { FAKE_CONTEXT, FAKE_MEMORY, FAKE_HOST, FAKE_MODULE, FAKE_STREAM, FAKE_EVENT, FAKE_KINDS };

/* Forgets calls, faults and what was counted, not what lives. */
void fake_reset(void);

/* Lets the at-th call of that name from now on, the first is 1, and times - 1 after it answer that CUresult; all of them
 * where times is negative. "kernel" is the execution of one, where FAKE_SPOIL lets it succeed and then damages what it
 * wrote, and FAKE_HANG keeps who waits for it until the next reset. After a code of CUDA for a failure on the device, every call in that context answers it. */
void fake_fail(const char *name, long at, long times, int code);

/* How often a call was made, at most 64 names. Name i is NULL after the last. */
const char *fake_call(int i, long *count);

/* How many things of a kind there are. */
long fake_live(int kind);

/* Things other than the context that were still there when their context was destroyed, since the reset. */
long fake_swept(void);

/* Memory that something was written before or behind, noticed when it was freed, since the reset. */
long fake_overruns(void);

#endif
