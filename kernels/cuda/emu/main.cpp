// Runs one launch of a kernel on the CPU:
//
//	emulate KERNEL BLOCKS SHARED_BYTES ORDER < in > out
//
// The input has four parts, in native byte order: the twelve numbers of Job from n on, as int32; the sizes of weights, positions,
// out and the scratch memory of a block, as uint64; the bytes of weights; the bytes of positions. The output is the bytes of out;
// bytes that the kernel did not write are 0xcd. The last line of standard error is its use of shared memory (emu::Counts).
#include <cstddef>

#include "../board.h"

// Buffer is memory between guard bytes. With the address sanitiser, which checks all memory, there are no guard bytes.
struct Buffer {
#ifdef __SANITIZE_ADDRESS__
	static constexpr size_t GUARD = 0;
#else
	static constexpr size_t GUARD = 256;
#endif
	static constexpr u8 MARK = 0xa5;
	size_t size;
	std::vector<u8> memory;

	Buffer(size_t size, u8 fill) : size(size), memory(size + 2 * GUARD, MARK) {
		std::fill(memory.begin() + GUARD, memory.end() - GUARD, fill);
	}
	u8 *data() { return memory.data() + GUARD; }

	void check(const char *name) {
		for (size_t i = 0; i < GUARD; i++)
			if (memory[i] != MARK || memory[GUARD + size + i] != MARK) emu::fail("%s: written outside of it", name);
	}
};

// Job in nn/gpu has the same layout.
static_assert(offsetof(Job, weights) == 0 && offsetof(Job, positions) == 8 && offsetof(Job, out) == 16);
static_assert(offsetof(Job, scratch) == 24 && offsetof(Job, scratch_bytes) == 32 && offsetof(Job, n) == 40);

static void read_all(void *to, size_t size) {
	if (fread(to, 1, size, stdin) != size) emu::fail("the input ends early");
}

int main(int count, char **arguments) {
	if (count != 5) emu::fail("want KERNEL BLOCKS SHARED_BYTES ORDER");
	emu::Launch launch{};
	emu::Entry kernel = emu::find(arguments[1], launch);
	launch.blocks = atoi(arguments[2]), launch.shared_bytes = atoi(arguments[3]), launch.order = atoi(arguments[4]);

	Job job{};
	read_all(&job.n, sizeof(int) * 12);
	u64 sizes[4];
	read_all(sizes, sizeof sizes);
	Buffer weights(sizes[0], 0), positions(sizes[1], 0), out(sizes[2], 0xcd), scratch(sizes[3] * launch.blocks, 0xff);
	read_all(weights.data(), weights.size);
	read_all(positions.data(), positions.size);
	std::vector<u8> before = weights.memory;

	job.weights = weights.data(), job.positions = reinterpret_cast<u64 *>(positions.data());
	job.out = reinterpret_cast<u32 *>(out.data()), job.scratch = scratch.data(), job.scratch_bytes = sizes[3];
	launch.from = weights.data(), launch.from_bytes = weights.size;
	emu::run(launch, [&] { kernel(&job); });

	if (weights.memory != before) emu::fail("weights: written");
	positions.check("positions"), out.check("out"), scratch.check("scratch");
	fwrite(out.data(), 1, out.size, stdout);
	fprintf(stderr, "ldmatrix: %llu phases, %llu wavefronts\n", emu::counts.phases, emu::counts.wavefronts);
	return fflush(stdout) ? 1 : 0;
}
