// The GPU instructions that C++ cannot express: matrix products, asynchronous copies, barriers. Each is a small function in
// PTX. emu/emu.h has the same functions for the CPU, so that tests run the kernels' source without a GPU. The kernels need
// sm_80. They compile with clang without a CUDA toolkit, and with nvcc.
//
// A warp is 32 threads that run in step. If the comment of a function says "the warp", all threads of the warp must call
// it. An address in shared memory is an offset in bytes from its beginning.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

// Quad is 16 bytes, which one instruction moves.
struct alignas(16) Quad {
	u32 x, y, z, w;
};

struct alignas(8) Floats2 {
	float x, y;
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

// KERNEL begins a function that the host launches by this name. Its blocks have this number of threads, and at least one
// block fits on a multiprocessor.
#define KERNEL(name, threads) extern "C" __global__ void __launch_bounds__(threads, 1) name

// RESIDENT_KERNEL is KERNEL, but so many blocks fit on a multiprocessor, as far as their registers are concerned.
#define RESIDENT_KERNEL(name, threads, blocks) extern "C" __global__ void __launch_bounds__(threads, blocks) name

extern __shared__ Quad shared_quads[];

// shared returns the value of type T at an offset in shared memory. The offset is a multiple of the size of T.
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

// sync_block waits for all threads of the block. After it, all threads see what any of them wrote before it.
DEVICE void sync_block() { asm volatile("bar.sync 0;" ::: "memory"); }

// sync_warp waits for all lanes of the warp. After it, all lanes see what any of them wrote before it.
DEVICE void sync_warp() { asm volatile("bar.warp.sync 0xffffffff;" ::: "memory"); }

DEVICE u32 shared_address(u32 offset) {
	u32 base;
	asm("{ .reg .u64 p; cvta.to.shared.u64 p, %1; cvt.u32.u64 %0, p; }" : "=r"(base) : "l"(shared_quads));
	return base + offset;
}

// ldmatrix loads M tiles for the warp, as operand A of mma. A tile has 16 rows of 16 fp16. Lane l gives the address of half
// a row: elements 8*(l/16) to 8*(l/16)+7 of row l%16. The address is a multiple of 16.
template <int M>
DEVICE void ldmatrix(u32 (&a)[M][4], const u32 (&at)[M]) {
#pragma unroll
	for (int m = 0; m < M; m++) {
		asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
			: "=r"(a[m][0]), "=r"(a[m][1]), "=r"(a[m][2]), "=r"(a[m][3]) : "r"(shared_address(at[m])) : "memory");
	}
}

// mma multiplies M tiles of 16x16 by N tiles of 16x8 for the warp, and adds the products to c. The operands are fp16 and
// the sums float32. If g = lane/4 and t = lane%4, a thread holds these elements of each tile:
//
//	a[0] A[g][2t,2t+1]     a[1] A[g+8][2t,2t+1]    a[2] A[g][2t+8,2t+9]    a[3] A[g+8][2t+8,2t+9]
//	b0   B[2t,2t+1][g]     b1   B[2t+8,2t+9][g]
//	c[0,1] C[g][2t,2t+1]   c[2,3] C[g+8][2t,2t+1]
//
// One Quad of b contains b0 and b1 of a tile with an even n, then b0 and b1 of the next tile.
template <int M, int N>
DEVICE void mma(float (&c)[M][N][4], const u32 (&a)[M][4], const Quad (&b)[N / 2]) {
#pragma unroll
	for (int n = 0; n < N; n++) {
		u32 b0 = n % 2 ? b[n / 2].z : b[n / 2].x;
		u32 b1 = n % 2 ? b[n / 2].w : b[n / 2].y;
#pragma unroll
		for (int m = 0; m < M; m++) {
			asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
				: "+f"(c[m][n][0]), "+f"(c[m][n][1]), "+f"(c[m][n][2]), "+f"(c[m][n][3])
				: "r"(a[m][0]), "r"(a[m][1]), "r"(a[m][2]), "r"(a[m][3]), "r"(b0), "r"(b1));
		}
	}
}

// mma_bytes multiplies 8x16 bytes by 16x8 for the warp, and adds the products to c. The left operand is unsigned, the right one signed. If
// g = lane/4 and t = lane%4, a thread holds A[g][4t..4t+3], B[4t..4t+3][g] and C[g][2t,2t+1]. It needs sm_75.
DEVICE void mma_bytes(int (&c)[2], u32 a, u32 b) {
	asm("mma.sync.aligned.m8n8k16.row.col.s32.u8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};" : "+r"(c[0]), "+r"(c[1]) : "r"(a), "r"(b));
}

// copy_async starts a copy of 16 bytes into shared memory. Both addresses are multiples of 16.
DEVICE void copy_async(u32 offset, const void *from) {
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(offset)), "l"(from) : "memory");
}

// prefetch loads 128 bytes of global memory into the cache.
DEVICE void prefetch(const void *at) { asm volatile("prefetch.global.L1 [%0];" ::"l"(at)); }

// copy_commit makes a group of the copies that the thread started since its last commit.
DEVICE void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// copy_wait waits until all groups of the thread have arrived, except the PENDING latest. Other threads see the copies
// after sync_block.
template <int PENDING>
DEVICE void copy_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory"); }

// relu_f16x2 returns relu of two numbers, rounded to the nearest fp16 and ties to even. The first number is in the low half
// of the result. NaN stays NaN. A number too large for fp16 becomes NaN too: no layer loses NaN, but a negative weight and
// the next relu would turn infinity into 0.
DEVICE u32 relu_f16x2(float low, float high) {
	u32 x;
	asm("cvt.rn.relu.f16x2.f32 %0, %1, %2;" : "=r"(x) : "f"(high), "f"(low));
	asm("fma.rn.f16x2 %0, %0, %1, %0;" : "+r"(x) : "r"(0)); // x * 0 + x is NaN if x is infinite, and otherwise x
	return x;
}

// floats returns the two fp16 of a word. The low half is x.
DEVICE Floats2 floats(u32 halves) {
	Floats2 f;
	asm("{ .reg .b16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h; }" : "=f"(f.x), "=f"(f.y) : "r"(halves));
	return f;
}

// exp2_fast returns 2^x with an error of at most 2^-22.
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

// read_quad reads global memory that no kernel writes, so that the read may be moved before others. The address is a multiple of 16.
DEVICE Quad read_quad(const void *at) {
	Quad q;
	asm("ld.global.nc.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(q.x), "=r"(q.y), "=r"(q.z), "=r"(q.w) : "l"(at));
	return q;
}

// dot returns sum plus the products of the four bytes of x, which are unsigned, and those of w, which are signed.
DEVICE int dot(u32 x, u32 w, int sum) {
	int y;
	asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(y) : "r"(x), "r"(w), "r"(sum));
	return y;
}

// odd_bytes returns bytes 1 and 3 of x as bytes 0 and 2; the others are 0.
DEVICE u32 odd_bytes(u32 x) {
	u32 y;
	asm("prmt.b32 %0, %1, 0, 0x4341;" : "=r"(y) : "r"(x));
	return y;
}

// opaque returns x but hides its value from the compiler. So the compiler cannot move a computation that depends on x out
// of a loop, during which the result would occupy registers.
DEVICE int opaque(int x) {
	asm volatile("" : "+r"(x));
	return x;
}

DEVICE float float_of(u32 bits) {
	float x;
	asm("mov.b32 %0, %1;" : "=f"(x) : "r"(bits));
	return x;
}

DEVICE u32 float_bits(float x) {
	u32 bits;
	asm("mov.b32 %0, %1;" : "=r"(bits) : "f"(x));
	return bits;
}

#endif
