/* Device memory, pinned memory, and copies. */
#include <string.h>

#include "state.h"

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
	if (!n) REFUSE(CUDA_ERROR_INVALID_VALUE)
	if (n > MEMORY) REFUSE(CUDA_ERROR_OUT_OF_MEMORY)
	struct object *o = make_bytes(FAKE_HOST, n);
	o->mapped = flags & CU_MEMHOSTALLOC_DEVICEMAP;
	*p = o->bytes;
})

IN_CONTEXT(cuMemHostGetDevicePointer_v2, (CUdeviceptr *to, void *p, unsigned flags), {
	struct object *o = inside(FAKE_HOST, p, 1);
	if (flags || !o || !o->mapped) REFUSE(CUDA_ERROR_INVALID_VALUE)
	*to = (CUdeviceptr)p;
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
