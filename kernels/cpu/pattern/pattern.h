#include <stdint.h>

typedef struct {
	int64_t in, out;       // in is a multiple of 4, out of 16
	const int8_t *weight;  // [in/4, out, 4]
	const int32_t *bias;   // [out]
} pattern_layer;

typedef struct {
	int64_t lanes;
	const int16_t *table, *bias;
	pattern_layer dense[3];
} pattern_net;

// forward: rows [n, each], out [n, 16]. plain.go has the definition.
#define PATTERN(name) \
	void pattern_forward_##name(pattern_net net, const int32_t *rows, int64_t each, int64_t n, int32_t *out);

PATTERN(avx512vnni)
PATTERN(avx2)
PATTERN(neon)
