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

// forward: rows [n, each], out [n, 16]. step: see Net.Step. plain.go has the definition of both.
#define PATTERN(name) \
	void pattern_forward_##name(pattern_net net, const int32_t *rows, int64_t each, int64_t n, int32_t *out); \
	void pattern_step_##name(pattern_net net, int16_t *acc, const int32_t *taken, int64_t takes, const int32_t *added, int64_t adds, int32_t *out);

PATTERN(avx512vnni)
PATTERN(avx2)
PATTERN(neon)
