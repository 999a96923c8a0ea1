/* Prints the layouts of a cuda.h's structures, and the constants listed in constants.h, which the test writes. It does not
 * compile if a function's parameters differ from ours. */
#include <stddef.h>
#include <stdio.h>

#include <cuda.h>

#if CUDA_VERSION >= 12000 /* there the plain names, also of some functions, mean newer versions; ours are these */
#define CUDA_KERNEL_NODE_PARAMS CUDA_KERNEL_NODE_PARAMS_v1
#define CUDA_MEMSET_NODE_PARAMS CUDA_MEMSET_NODE_PARAMS_v1
#define CUDA_HOST_NODE_PARAMS CUDA_HOST_NODE_PARAMS_v1
#else
#define F(name, parameters) \
	_Static_assert(__builtin_types_compatible_p(__typeof__(name), CUresult parameters), #name);
#include "cuda_functions.h"
#undef F
_Static_assert(__builtin_types_compatible_p(__typeof__(cuInit), CUresult(unsigned)), "cuInit");
#endif

#define SIZE(type) printf(#type " %zu\n", sizeof(type));
#define FIELD(type, field) printf(#type "." #field " %zu %zu\n", offsetof(type, field), sizeof(((type *)0)->field));
#define FIELDS_2D(X, T) X(T, srcXInBytes) X(T, srcY) X(T, srcMemoryType) X(T, srcHost) X(T, srcDevice) X(T, srcArray) \
	X(T, srcPitch) X(T, dstXInBytes) X(T, dstY) X(T, dstMemoryType) X(T, dstHost) X(T, dstDevice) X(T, dstArray) X(T, dstPitch) \
	X(T, WidthInBytes) X(T, Height)
#define FIELDS_3D(X, T) FIELDS_2D(X, T) X(T, srcZ) X(T, srcLOD) X(T, srcHeight) X(T, dstZ) X(T, dstLOD) X(T, dstHeight) X(T, Depth)

int main(void) {
	SIZE(CUdevice) SIZE(CUdeviceptr) SIZE(cuuint32_t) SIZE(CUresult) SIZE(CUdevice_attribute) SIZE(CUjit_option) SIZE(CUuuid)
	SIZE(CUDA_ARRAY_DESCRIPTOR) SIZE(CUDA_ARRAY3D_DESCRIPTOR) SIZE(CUDA_MEMCPY2D) SIZE(CUDA_MEMCPY3D) SIZE(CUDA_MEMCPY3D_PEER)
	SIZE(CUDA_KERNEL_NODE_PARAMS) SIZE(CUDA_HOST_NODE_PARAMS) SIZE(CUDA_MEMSET_NODE_PARAMS)
	FIELD(CUDA_ARRAY_DESCRIPTOR, Width) FIELD(CUDA_ARRAY_DESCRIPTOR, Height) FIELD(CUDA_ARRAY_DESCRIPTOR, Format)
	FIELD(CUDA_ARRAY_DESCRIPTOR, NumChannels)
	FIELD(CUDA_ARRAY3D_DESCRIPTOR, Width) FIELD(CUDA_ARRAY3D_DESCRIPTOR, Height) FIELD(CUDA_ARRAY3D_DESCRIPTOR, Depth)
	FIELD(CUDA_ARRAY3D_DESCRIPTOR, Format) FIELD(CUDA_ARRAY3D_DESCRIPTOR, NumChannels) FIELD(CUDA_ARRAY3D_DESCRIPTOR, Flags)
	FIELDS_2D(FIELD, CUDA_MEMCPY2D)
	FIELDS_3D(FIELD, CUDA_MEMCPY3D) FIELD(CUDA_MEMCPY3D, reserved0) FIELD(CUDA_MEMCPY3D, reserved1)
	FIELDS_3D(FIELD, CUDA_MEMCPY3D_PEER) FIELD(CUDA_MEMCPY3D_PEER, srcContext) FIELD(CUDA_MEMCPY3D_PEER, dstContext)
	FIELD(CUDA_KERNEL_NODE_PARAMS, func) FIELD(CUDA_KERNEL_NODE_PARAMS, gridDimX) FIELD(CUDA_KERNEL_NODE_PARAMS, gridDimY)
	FIELD(CUDA_KERNEL_NODE_PARAMS, gridDimZ) FIELD(CUDA_KERNEL_NODE_PARAMS, blockDimX) FIELD(CUDA_KERNEL_NODE_PARAMS, blockDimY)
	FIELD(CUDA_KERNEL_NODE_PARAMS, blockDimZ) FIELD(CUDA_KERNEL_NODE_PARAMS, sharedMemBytes)
	FIELD(CUDA_KERNEL_NODE_PARAMS, kernelParams) FIELD(CUDA_KERNEL_NODE_PARAMS, extra)
	FIELD(CUDA_HOST_NODE_PARAMS, fn) FIELD(CUDA_HOST_NODE_PARAMS, userData)
	FIELD(CUDA_MEMSET_NODE_PARAMS, dst) FIELD(CUDA_MEMSET_NODE_PARAMS, pitch) FIELD(CUDA_MEMSET_NODE_PARAMS, value)
	FIELD(CUDA_MEMSET_NODE_PARAMS, elementSize) FIELD(CUDA_MEMSET_NODE_PARAMS, width) FIELD(CUDA_MEMSET_NODE_PARAMS, height)
#define C(name) printf(#name " %ld\n", (long)name);
#include "constants.h"
	return 0;
}
