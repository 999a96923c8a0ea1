// What a kernel asks of the machine. Everything that C++ cannot say (matrix instructions, asynchronous copies, barriers)
// is a small function here, as PTX; emu/emu.h has a twin of each that runs on the CPU, so that the same kernel source is
// tested without a GPU. Needs sm_80. Compiles with clang without a CUDA toolkit, and with nvcc.
//
// A warp is 32 threads that run in step: every function with "the warp" in its comment must be reached by all of them.
// Shared memory is addressed by offsets in bytes from its beginning.
#pragma once

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

// Quad is what one instruction moves: 16 bytes.
struct alignas(16) Quad {
	u32 x, y, z, w;
};

#ifdef EMULATED
#include "emu/emu.h"
#else

#ifndef __CUDACC__
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#endif

#define DEVICE __device__ static __inline__ __attribute__((always_inline))
#define DEVICE_MEMBER __device__ __inline__ __attribute__((always_inline))
#define CONSTANT static constexpr

// KERNEL begins a function that the host starts under this name, on blocks of so many threads, at least one block a
// multiprocessor.
#define KERNEL(name, threads) extern "C" __global__ void __launch_bounds__(threads, 1) name

extern __shared__ Quad shared_quads[];

// shared is the value of type T in shared memory at an offset, a multiple of its size.
template <class T>
DEVICE T &shared(u32 offset) {
	return *reinterpret_cast<T *>(reinterpret_cast<char *>(shared_quads) + offset);
}

DEVICE u32 thread_id() {
	u32 x;
	asm("mov.u32 %0, %%tid.x;" : "=r"(x));
	return x;
}

DEVICE u32 block_id() {
	u32 x;
	asm("mov.u32 %0, %%ctaid.x;" : "=r"(x));
	return x;
}

DEVICE u32 grid_size() {
	u32 x;
	asm("mov.u32 %0, %%nctaid.x;" : "=r"(x));
	return x;
}

// sync_block waits for all threads of the block; what they wrote before is seen by all after it.
DEVICE void sync_block() { asm volatile("bar.sync 0;" ::: "memory"); }

DEVICE u32 shared_address(u32 offset) {
	u32 base;
	asm("{ .reg .u64 p; cvta.to.shared.u64 p, %1; cvt.u32.u64 %0, p; }" : "=r"(base) : "l"(shared_quads));
	return base + offset;
}

// ldmatrix loads, for the warp, M tiles of 16 rows by 16 bf16 each as operand A of mma. Lane l names the address of half
// a row: row l%16 of the tile, its elements 8*(l/16) to 8*(l/16)+7; a multiple of 16.
template <int M>
DEVICE void ldmatrix(u32 (&a)[M][4], const u32 (&at)[M]) {
#pragma unroll
	for (int m = 0; m < M; m++) {
		asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
			: "=r"(a[m][0]), "=r"(a[m][1]), "=r"(a[m][2]), "=r"(a[m][3]) : "r"(shared_address(at[m])) : "memory");
	}
}

// mma multiplies, for the warp, M tiles of 16x16 by N tiles of 16x8 and adds them to c: bf16 operands, float32 sums.
// With g = lane/4 and t = lane%4 a thread holds of each tile
//
//	a[0] A[g][2t,2t+1]     a[1] A[g+8][2t,2t+1]    a[2] A[g][2t+8,2t+9]    a[3] A[g+8][2t+8,2t+9]
//	b0   B[2t,2t+1][g]     b1   B[2t+8,2t+9][g]
//	c[0,1] C[g][2t,2t+1]   c[2,3] C[g+8][2t,2t+1]
//
// and one Quad of b is b0, b1 of an even tile n and b0, b1 of the next.
template <int M, int N>
DEVICE void mma(float (&c)[M][N][4], const u32 (&a)[M][4], const Quad (&b)[N / 2]) {
#pragma unroll
	for (int n = 0; n < N; n++) {
		u32 b0 = n % 2 ? b[n / 2].z : b[n / 2].x;
		u32 b1 = n % 2 ? b[n / 2].w : b[n / 2].y;
#pragma unroll
		for (int m = 0; m < M; m++) {
			asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
				: "+f"(c[m][n][0]), "+f"(c[m][n][1]), "+f"(c[m][n][2]), "+f"(c[m][n][3])
				: "r"(a[m][0]), "r"(a[m][1]), "r"(a[m][2]), "r"(a[m][3]), "r"(b0), "r"(b1));
		}
	}
}

// copy_async starts to copy 16 bytes into shared memory; both addresses are multiples of 16.
DEVICE void copy_async(u32 offset, const void *from) {
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(offset)), "l"(from) : "memory");
}

// copy_commit makes the thread's copies since the last commit a group.
DEVICE void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// copy_wait waits until all but the thread's PENDING latest groups have arrived. Others see them after sync_block.
template <int PENDING>
DEVICE void copy_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory"); }

// bf16x2 rounds two numbers to bf16, to nearest and ties to even; the first is in the low half.
DEVICE u32 bf16x2(float low, float high) {
	u32 x;
	asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(x) : "f"(high), "f"(low));
	return x;
}

// exp2_fast is 2^x within 2^-22 of it.
DEVICE float exp2_fast(float x) {
	float y;
	asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
	return y;
}

DEVICE int popcount(u64 x) {
	int n;
	asm("popc.b64 %0, %1;" : "=r"(n) : "l"(x));
	return n;
}

// opaque is x, of which the compiler knows nothing: it cannot compute what depends on it before a loop and keep that in
// registers all the while.
DEVICE int opaque(int x) {
	asm volatile("" : "+r"(x));
	return x;
}

DEVICE u32 float_bits(float x) {
	u32 bits;
	asm("mov.b32 %0, %1;" : "=r"(bits) : "f"(x));
	return bits;
}

#endif
