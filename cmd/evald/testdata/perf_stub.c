// What perf_analyzer is linked with and does not use in our test: base64 and CUDA's runtime, as functions that fail.
#define STUB(name) int name(void) { return 1; }
STUB(base64_decode_block) STUB(base64_encode_block) STUB(base64_encode_blockend) STUB(base64_init_decodestate)
STUB(base64_init_encodestate)
STUB(cudaFree) STUB(cudaIpcGetMemHandle) STUB(cudaMalloc) STUB(cudaMemcpy) STUB(cudaSetDevice)
const char *cudaGetErrorName(void) { return "no CUDA"; }
const char *cudaGetErrorString(void) { return "no CUDA"; }
