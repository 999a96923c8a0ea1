/* Devices, contexts, and the names of errors. */
#include <stdio.h>
#include <stdlib.h>

#include "state.h"

static int device_count(void) {
	const char *n = getenv("EVALD_FAKE_DEVICES");
	return n ? atoi(n) : 1;
}

int capability(void) {
	const char *c = getenv("EVALD_FAKE_CAPABILITY");
	return c ? atoi(c) : 90;
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

ANYWHERE(cuDeviceGetUuid, (CUuuid *uuid, CUdevice d), {
	for (int i = 0; i < 16; i++) uuid->bytes[i] = (char)(i < 15 ? i : d);
})

/* With EVALD_FAKE_MIG set, each device is a slice of a GPU, with a UUID of its own here, while cuDeviceGetUuid gives the GPU's. */
ANYWHERE(cuDeviceGetUuid_v2, (CUuuid *uuid, CUdevice d), {
	for (int i = 0; i < 16; i++) uuid->bytes[i] = (char)(i < 15 ? i : d);
	if (getenv("EVALD_FAKE_MIG")) uuid->bytes[0] = 0x7f;
})

ANYWHERE(cuDeviceGetAttribute, (int *value, CUdevice_attribute a, CUdevice d), {
	(void)d;
	switch (a) {
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = capability() / 10; break;
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = capability() % 10; break;
	case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = 4; break;
	case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *value = MOST_SHARED; break;
	case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID: *value = 0xffff; break; /* where no device is */
	case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID: *value = 0xff; break;
	case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID: *value = 0; break;
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

/* If the device is lost, this returns the error, and destroys the context nevertheless. */
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
	E(CUDA_ERROR_INVALID_CLUSTER_SIZE, "cluster misconfiguration"),
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
