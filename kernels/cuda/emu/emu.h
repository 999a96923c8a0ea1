// The functions of device.h on the CPU. The threads of a block are fibers. One fiber runs at a time, and all run on one
// thread of the CPU. At a function of the warp a fiber waits for the other lanes, and at a barrier for the whole block. The
// blocks of a cluster run side by side, others one after another.
// Some mistakes cause an error on a GPU only sometimes. Here they always do:
//
//	a missing barrier       a warp runs to its next barrier before another warp starts, in an order that can be chosen
//	unwritten memory        shared memory is 0xff at first, which is NaN as float and as fp16
//	an early read           the target of copy_async is 0xff until copy_wait has waited for its group
//	an access past the end  addresses are checked, and buffers are between guard bytes
//	a diverged warp         the lanes of a warp must wait at the same call
//	a deadlock              if no thread of a cluster can make progress, all waiting threads are listed, with their reasons
//
// mma adds the products one after another in float32, with ascending k, and rounds after each. A GPU adds several products at
// once and rounds differently, so its results differ in the last bits.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#define DEVICE static inline
#define DEVICE_MEMBER inline
#define CONSTANT static constexpr

namespace emu {

constexpr int WARP = 32;

// Collective is a function that a warp executes together. Its argument contains the arguments of all lanes, in the order
// of the lanes.
typedef void (*Collective)(void *const (&lanes)[WARP]);

// Functions for fibers. wait returns after the whole warp has called it with the same collective and the collective has run.
void wait(Collective call, void *arguments);
void wait_block();
// wait_until returns when the condition, which other threads may change, is true. `what` describes it in messages.
void wait_until(const std::function<bool()> &condition, const std::function<std::string()> &what);
u32 thread();
u32 block();
u32 grid();
u32 rank();  // of the block in its cluster
u32 ranks(); // blocks of the cluster
bool ended(u32 rank);

// In is a visit to another block of the cluster: during its lifetime, rank, block, raw and unfenced refer to that block.
struct In {
	u32 before;
	explicit In(u32 rank);
	~In();
};
char *shared(u32 offset, u32 size); // fails unless offset + size is inside and offset is a multiple of size
void copy(u32 offset, const void *from);
void commit();
void wait_copies(size_t pending);

[[noreturn]] void fail(const char *format, ...);

// Unit is a part of the machine that works beside the threads (sm90.cpp). begin is called for each cluster, and end for each
// block that has ended. step does some of its pending work; if `idle`, no thread can make progress, and it must do some if there
// is any. It reports whether it did.
struct Unit {
	void (*begin)(u32 blocks, u32 threads);
	bool (*step)(bool idle, u32 random);
	void (*end)();
};
bool install(Unit unit); // at most once

// Shadows record which bytes of the block's shared memory a thread has accessed since its last fence_async. unfenced returns a
// thread that has accessed one of these bytes, or -1.
void clear_shadows(u32 thread);
int unfenced(u32 offset, u32 size);
char *raw(u32 offset, u32 size); // like shared, without a shadow
void check_source(const void *from, size_t size); // fails unless a copy may read these bytes
u32 dice();                      // a random number determined by the launch's order; 0 if the order is 0, 1 if it is 1

// Launch is one start of a kernel.
struct Launch {
	u32 blocks, threads, shared_bytes;
	u32 order;               // 0: warps and lanes ascending; 1: descending; otherwise shuffled, and this is the seed. See turn in emu.cpp
	const void *from;        // the only memory that copy_async may read, and its size; if null, it may read any memory
	size_t from_bytes;
	u32 cluster = 1;         // blocks per cluster
};

// run calls body as every thread of every block. If the kernel makes a mistake, run ends the process with a message.
void run(const Launch &launch, const std::function<void()> &body);

// Registration adds a kernel to the list that find searches.
typedef void (*Entry)(const void *job);
struct Registration {
	Registration(const char *name, u32 threads, u32 cluster, Entry entry);
};
// find sets threads and cluster of the launch.
Entry find(const char *name, Launch &launch);

inline float from_f16(u32 half) { return std::bit_cast<_Float16>(static_cast<uint16_t>(half)); }

// to_f16 rounds to the nearest fp16, ties to even. Numbers that are too large become infinite.
inline u32 to_f16(float x) { return std::bit_cast<uint16_t>(static_cast<_Float16>(x)); }

inline u32 relu_f16(float x) {
	u32 half = to_f16(x);
	if ((half & 0x7fff) > 0x7c00 || half == 0x7c00) return 0x7fff; // NaN, or too large
	return half >> 15 ? 0 : half;
}

inline void meet(void *const (&)[WARP]) {}

template <int M, int N>
struct MultiplyArguments {
	float (*c)[N][4];
	const u32 (*a)[4];
	const Quad *b;
};

template <int M, int N>
void multiply(void *const (&lanes)[WARP]) {
	static float a[16 * M][16], b[16][8 * N], c[16 * M][8 * N];
	typedef MultiplyArguments<M, N> Arguments;
	for (int lane = 0; lane < WARP; lane++) {
		const Arguments &of = *static_cast<Arguments *>(lanes[lane]);
		int g = lane / 4, t = lane % 4;
		for (int m = 0; m < M; m++) {
			for (int i = 0; i < 4; i++) {
				float *at = &a[16 * m + g + i % 2 * 8][2 * t + i / 2 * 8];
				at[0] = from_f16(of.a[m][i] & 0xffff), at[1] = from_f16(of.a[m][i] >> 16);
			}
		}
		for (int n = 0; n < N; n++) {
			const Quad &q = of.b[n / 2];
			u32 half[2] = {n % 2 ? q.z : q.x, n % 2 ? q.w : q.y};
			for (int i = 0; i < 2; i++) {
				b[2 * t + 8 * i][8 * n + g] = from_f16(half[i] & 0xffff);
				b[2 * t + 8 * i + 1][8 * n + g] = from_f16(half[i] >> 16);
			}
		}
		for (int m = 0; m < M; m++)
			for (int n = 0; n < N; n++)
				for (int i = 0; i < 4; i++) c[16 * m + g + i / 2 * 8][8 * n + 2 * t + i % 2] = of.c[m][n][i];
	}
	for (int i = 0; i < 16 * M; i++)
		for (int k = 0; k < 16; k++)
			for (int j = 0; j < 8 * N; j++) c[i][j] += a[i][k] * b[k][j];
	for (int lane = 0; lane < WARP; lane++) {
		const Arguments &of = *static_cast<Arguments *>(lanes[lane]);
		int g = lane / 4, t = lane % 4;
		for (int m = 0; m < M; m++)
			for (int n = 0; n < N; n++)
				for (int i = 0; i < 4; i++) of.c[m][n][i] = c[16 * m + g + i / 2 * 8][8 * n + 2 * t + i % 2];
	}
}

struct BytesArguments {
	int *c;
	u32 a, b;
};

inline void multiply_bytes(void *const (&lanes)[WARP]) {
	auto of = [&](int lane) -> BytesArguments & { return *static_cast<BytesArguments *>(lanes[lane]); };
	for (int lane = 0; lane < WARP; lane++)
		for (int i = 0; i < 2; i++)
			for (int k = 0; k < 16; k++) {
				int column = 2 * (lane % 4) + i, shift = 8 * (k % 4);
				of(lane).c[i] += int(of(lane / 4 * 4 + k / 4).a >> shift & 255) * static_cast<int8_t>(of(4 * column + k / 4).b >> shift);
			}
}

template <int M>
struct LoadArguments {
	u32 (*a)[4];
	const u32 *at;
};

// Counts is the use of shared memory by all launches since the start of the process. An ldmatrix reads its matrices in phases,
// one for each. A phase reads 8 rows of 16 bytes. A wavefront is one access to the memory, which has 32 banks of 4 bytes; a phase
// takes more than one if different rows are in the same banks.
struct Counts {
	u64 phases, wavefronts;
};
extern Counts counts;

inline void count_phase(const u32 (&rows)[8]) {
	u64 most = 1;
	for (int i = 0; i < 8; i++) {
		u64 same = 0; // rows before and including i in the banks of row i, the same address once
		for (int j = 0; j <= i; j++) {
			bool again = false;
			for (int k = 0; k < j; k++) again = again || rows[k] == rows[j];
			same += !again && (rows[j] / 16 & 7) == (rows[i] / 16 & 7);
		}
		most = std::max(most, same);
	}
	counts.phases++, counts.wavefronts += most;
}

// load is ldmatrix according to the instruction's definition. The 8 rows of matrix i are at the addresses of lanes 8i to 8i+7.
// Lane l receives elements 2*(l%4) and 2*(l%4)+1 of row l/4.
template <int M>
void load(void *const (&lanes)[WARP]) {
	typedef LoadArguments<M> Arguments;
	for (int m = 0; m < M; m++) {
		for (int i = 0; i < 4; i++) {
			u32 rows[8];
			for (int row = 0; row < 8; row++) rows[row] = static_cast<Arguments *>(lanes[8 * i + row])->at[m];
			count_phase(rows);
			for (int lane = 0; lane < WARP; lane++)
				memcpy(&static_cast<Arguments *>(lanes[lane])->a[m][i], shared(rows[lane / 4], 16) + 4 * (lane % 4), 4);
		}
	}
}

} // namespace emu

template <class T>
DEVICE T &shared(u32 offset) {
	return *reinterpret_cast<T *>(emu::shared(offset, sizeof(T)));
}

DEVICE u32 thread_id() { return emu::thread(); }
DEVICE u32 block_id() { return emu::block(); }
DEVICE u32 grid_size() { return emu::grid(); }
DEVICE void sync_block() { emu::wait_block(); }
DEVICE void sync_warp() { emu::wait(emu::meet, nullptr); }

template <int M>
DEVICE void ldmatrix(u32 (&a)[M][4], const u32 (&at)[M]) {
	emu::LoadArguments<M> arguments{a, at};
	emu::wait(emu::load<M>, &arguments);
}

template <int M, int N>
DEVICE void mma(float (&c)[M][N][4], const u32 (&a)[M][4], const Quad (&b)[N / 2]) {
	emu::MultiplyArguments<M, N> arguments{c, a, b};
	emu::wait(emu::multiply<M, N>, &arguments);
}

DEVICE void mma_bytes(int (&c)[2], u32 a, u32 b) {
	emu::BytesArguments arguments{c, a, b};
	emu::wait(emu::multiply_bytes, &arguments);
}

DEVICE void copy_async(u32 offset, const void *from) { emu::copy(offset, from); }
DEVICE void prefetch(const void *) {}
DEVICE void copy_commit() { emu::commit(); }

template <int PENDING>
DEVICE void copy_wait() { emu::wait_copies(PENDING); }

DEVICE u32 relu_f16x2(float low, float high) { return emu::relu_f16(low) | emu::relu_f16(high) << 16; }
DEVICE Floats2 floats(u32 halves) { return {emu::from_f16(halves & 0xffff), emu::from_f16(halves >> 16)}; }
DEVICE float exp2_fast(float x) { return std::exp2(x); }
DEVICE int popcount(u64 x) { return std::popcount(x); }

DEVICE Quad read_quad(const void *at) {
	emu::check_source(at, 16);
	return *static_cast<const Quad *>(at);
}

DEVICE int dot(u32 x, u32 w, int sum) {
	for (int i = 0; i < 32; i += 8) sum += static_cast<int>(x >> i & 255) * static_cast<int8_t>(w >> i);
	return sum;
}

DEVICE u32 odd_bytes(u32 x) { return x >> 8 & 0x00ff00ff; }
DEVICE int opaque(int x) { return x; }
DEVICE float float_of(u32 bits) { return std::bit_cast<float>(bits); }
DEVICE u32 float_bits(float x) { return std::bit_cast<u32>(x); }

#define EMULATED_KERNEL(name, threads, cluster)                                                             \
	static void name(Job);                                                                                   \
	static emu::Registration registration_##name(#name, threads, cluster,                                    \
		[](const void *job) { name(*static_cast<const Job *>(job)); });                                       \
	static void name
#define KERNEL(name, threads) EMULATED_KERNEL(name, threads, 1)
#define RESIDENT_KERNEL(name, threads, blocks) EMULATED_KERNEL(name, threads, 1)
