// The kernels as host functions for the fake driver (driver/fake), one launch at a time.
#include "../board.h"

static int run(const char *name, const unsigned grid[3], const unsigned block[3], unsigned shared, void **arguments) {
	emu::Launch launch{};
	emu::Entry kernel = emu::find(name, launch);
	if (block[0] != launch.threads || grid[0] % launch.cluster) return 1; // CUDA_ERROR_INVALID_VALUE
	launch.blocks = grid[0], launch.shared_bytes = shared;
	emu::run(launch, [&] { kernel(arguments[0]); });
	return 0;
}

#define EXPORT(name)                                                                                          \
	extern "C" int name(const unsigned grid[3], const unsigned block[3], unsigned shared, void **arguments) { \
		return run(#name, grid, block, shared, arguments);                                                    \
	}
EXPORT(tower_64)
EXPORT(tower_64_half)
EXPORT(tower_128)
EXPORT(tower_128_half)
EXPORT(tower_256)
EXPORT(tower_256_half)
EXPORT(tower_any)
EXPORT(tables_128)
EXPORT(tables_128_words)
EXPORT(tables_256)
EXPORT(tables_256_words)
EXPORT(tables_512)
EXPORT(tables_512_words)
EXPORT(wide_64)
EXPORT(wide_128)
EXPORT(wide_256)
EXPORT(hopper_64)
EXPORT(hopper_128)
EXPORT(hopper_256)
EXPORT(few_64)
EXPORT(few_128)
EXPORT(few_256)

// Damages an output: the row in the middle gets the status NOT_FINITE.
extern "C" void fake_spoil(void **arguments) {
	const Job &job = *static_cast<const Job *>(arguments[0]);
	job.out[job.n / 2 * (2 + job.actions)] = 0xbu << 28;
}
