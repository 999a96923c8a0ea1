#include <stdint.h>

// What all templates use. The file that includes them defines TARGET, the attribute that allows the path's instructions.
#define INLINE TARGET static inline __attribute__((always_inline)) void
#define UNROLLED _Pragma("GCC unroll 16")
