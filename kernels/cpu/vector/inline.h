#include <stdint.h>

// Shared by all templates. The including file defines TARGET, the attribute that allows the path's instructions.
#define INLINE TARGET static inline __attribute__((always_inline)) void
#define UNROLLED _Pragma("GCC unroll 16")
