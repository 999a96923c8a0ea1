// The instructions that only Hopper (sm_90a) has: matrix products of four warps with operands in shared memory, bulk copies that
// report to barriers in shared memory, clusters of blocks that copy to each other, and registers that one warpgroup gives to
// another. emu/sm90.h has the same functions for the CPU.
//
// A warpgroup is four consecutive warps, from a multiple of four on. Copies and products access shared memory asynchronously
// (through the asynchronous proxy). Only the barriers and fences below order them with the accesses of threads.
#pragma once

#include "device.h"

// Products are the 64 x 64 float32 sums of a warpgroup. If g = lane/4 and t = lane%4, the thread of warp w holds
//
//	[4*n + 0,1] row 16*w + g,     columns 8*n + 2*t, 8*n + 2*t + 1
//	[4*n + 2,3] row 16*w + g + 8, the same columns
typedef float Products[32];

// WideProducts are the 64 x 256 sums of a warpgroup, in the same order.
typedef float WideProducts[32][4];

// Fragment is a warp's operand of 16 rows by 16 inputs, as ldmatrix loads it (device.h).
typedef u32 Fragment[4];

#ifdef EMULATED
#include "emu/sm90.h"
#else

// CLUSTER_KERNEL is KERNEL for clusters of this number of blocks (block_rank). The grid must consist of whole clusters. clang 19
// does not know __cluster_dims__, so build/main.go writes it into the PTX.
#ifndef __CUDACC__
#define __cluster_dims__(...)
#endif
#define CLUSTER_KERNEL(name, threads, blocks) extern "C" __global__ void __cluster_dims__(blocks, 1, 1) __launch_bounds__(threads, 1, blocks) name

// All dynamic arrays in shared memory begin at the same address, with the strictest alignment among them. So shared_quads is
// aligned to 1024 too, as tiles require.
extern __shared__ __attribute__((aligned(1024))) Quad aligned_quads[];

DEVICE u32 aligned_address(u32 offset) {
	u32 base;
	asm("{ .reg .u64 p; cvta.to.shared.u64 p, %1; cvt.u32.u64 %0, p; }" : "=r"(base) : "l"(aligned_quads));
	return base + offset;
}

// multiply starts a product, which is added to c. The left operand is the fragments of the four warps, one below the other, 64 x
// 16. The right operand is the tile, 16 x 64. All warps of the warpgroup call it with the same tile. Until multiply_wait has waited
// for the product, c and a must not be accessed, and the tile must not change. Products with the same c are added in the order in
// which they were started.
DEVICE void multiply(Products &c, const Fragment &a, u64 tile) {
	asm volatile(
		"{ .reg .pred add;\n"
		"setp.ne.b32 add, 1, 0;\n"
		"wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
		"{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, "
		"{%32,%33,%34,%35}, %36, add, 1, 1, 1; }"
		: "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]),
		"+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]),
		"+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23]),
		"+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]), "+f"(c[30]), "+f"(c[31])
		: "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(tile));
}

// multiply_wide is multiply for a tile of 256 columns (wide_tile).
DEVICE void multiply_wide(WideProducts &c, const Fragment &a, u64 tile) {
	asm volatile(
		"{ .reg .pred add;\n"
		"setp.ne.b32 add, 1, 0;\n"
		"wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 "
		"{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
		"%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,"
		"%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,"
		"%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127}, "
		"{%128,%129,%130,%131}, %132, add, 1, 1, 1; }"
		: "+f"(c[0][0]), "+f"(c[0][1]), "+f"(c[0][2]), "+f"(c[0][3]), "+f"(c[1][0]), "+f"(c[1][1]), "+f"(c[1][2]), "+f"(c[1][3]),
		"+f"(c[2][0]), "+f"(c[2][1]), "+f"(c[2][2]), "+f"(c[2][3]), "+f"(c[3][0]), "+f"(c[3][1]), "+f"(c[3][2]), "+f"(c[3][3]),
		"+f"(c[4][0]), "+f"(c[4][1]), "+f"(c[4][2]), "+f"(c[4][3]), "+f"(c[5][0]), "+f"(c[5][1]), "+f"(c[5][2]), "+f"(c[5][3]),
		"+f"(c[6][0]), "+f"(c[6][1]), "+f"(c[6][2]), "+f"(c[6][3]), "+f"(c[7][0]), "+f"(c[7][1]), "+f"(c[7][2]), "+f"(c[7][3]),
		"+f"(c[8][0]), "+f"(c[8][1]), "+f"(c[8][2]), "+f"(c[8][3]), "+f"(c[9][0]), "+f"(c[9][1]), "+f"(c[9][2]), "+f"(c[9][3]),
		"+f"(c[10][0]), "+f"(c[10][1]), "+f"(c[10][2]), "+f"(c[10][3]), "+f"(c[11][0]), "+f"(c[11][1]), "+f"(c[11][2]), "+f"(c[11][3]),
		"+f"(c[12][0]), "+f"(c[12][1]), "+f"(c[12][2]), "+f"(c[12][3]), "+f"(c[13][0]), "+f"(c[13][1]), "+f"(c[13][2]), "+f"(c[13][3]),
		"+f"(c[14][0]), "+f"(c[14][1]), "+f"(c[14][2]), "+f"(c[14][3]), "+f"(c[15][0]), "+f"(c[15][1]), "+f"(c[15][2]), "+f"(c[15][3]),
		"+f"(c[16][0]), "+f"(c[16][1]), "+f"(c[16][2]), "+f"(c[16][3]), "+f"(c[17][0]), "+f"(c[17][1]), "+f"(c[17][2]), "+f"(c[17][3]),
		"+f"(c[18][0]), "+f"(c[18][1]), "+f"(c[18][2]), "+f"(c[18][3]), "+f"(c[19][0]), "+f"(c[19][1]), "+f"(c[19][2]), "+f"(c[19][3]),
		"+f"(c[20][0]), "+f"(c[20][1]), "+f"(c[20][2]), "+f"(c[20][3]), "+f"(c[21][0]), "+f"(c[21][1]), "+f"(c[21][2]), "+f"(c[21][3]),
		"+f"(c[22][0]), "+f"(c[22][1]), "+f"(c[22][2]), "+f"(c[22][3]), "+f"(c[23][0]), "+f"(c[23][1]), "+f"(c[23][2]), "+f"(c[23][3]),
		"+f"(c[24][0]), "+f"(c[24][1]), "+f"(c[24][2]), "+f"(c[24][3]), "+f"(c[25][0]), "+f"(c[25][1]), "+f"(c[25][2]), "+f"(c[25][3]),
		"+f"(c[26][0]), "+f"(c[26][1]), "+f"(c[26][2]), "+f"(c[26][3]), "+f"(c[27][0]), "+f"(c[27][1]), "+f"(c[27][2]), "+f"(c[27][3]),
		"+f"(c[28][0]), "+f"(c[28][1]), "+f"(c[28][2]), "+f"(c[28][3]), "+f"(c[29][0]), "+f"(c[29][1]), "+f"(c[29][2]), "+f"(c[29][3]),
		"+f"(c[30][0]), "+f"(c[30][1]), "+f"(c[30][2]), "+f"(c[30][3]), "+f"(c[31][0]), "+f"(c[31][1]), "+f"(c[31][2]), "+f"(c[31][3])
		: "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(tile));
}

// multiply_shared is multiply with the left operand in shared memory too (rows), where it must not change either.
DEVICE void multiply_shared(Products &c, u64 rows, u64 tile) {
	asm volatile(
		"{ .reg .pred add;\n"
		"setp.ne.b32 add, 1, 0;\n"
		"wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
		"{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, "
		"%32, %33, add, 1, 1, 0, 1; }"
		: "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]),
		"+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]),
		"+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23]),
		"+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]), "+f"(c[30]), "+f"(c[31])
		: "l"(rows), "l"(tile));
}

// multiply_fence comes between other accesses to registers and the start of products that use them.
DEVICE void multiply_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

// multiply_commit makes a group of the products that were started since the last group.
DEVICE void multiply_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// multiply_wait waits until all groups of the warp are computed, except the PENDING latest.
template <int PENDING>
DEVICE void multiply_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory"); }

// settle keeps the compiler from moving accesses to c across the call.
DEVICE void settle(Products &c) {
#pragma unroll
	for (int i = 0; i < 32; i++) asm volatile("" : "+f"(c[i])::"memory");
}

DEVICE void settle(WideProducts &c) {
#pragma unroll
	for (int n = 0; n < 32; n++) {
#pragma unroll
		for (int i = 0; i < 4; i++) asm volatile("" : "+f"(c[n][i])::"memory");
	}
}

// fence_async comes between a thread's accesses to shared memory and the barrier after which copies or products access the same
// memory.
DEVICE void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// A barrier is 8 bytes of shared memory. It starts in phase 0. A phase ends when `arrivals` threads have arrived and all bytes that
// they announced have been copied.
DEVICE void barrier_init(u32 barrier, u32 arrivals) {
	asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}

DEVICE void barrier_arrive(u32 barrier) {
	asm volatile("{ .reg .b64 state; mbarrier.arrive.shared::cta.b64 state, [%0]; }" ::"r"(shared_address(barrier)) : "memory");
}

// barrier_expect arrives and announces bytes.
DEVICE void barrier_expect(u32 barrier, u32 bytes) {
	asm volatile("{ .reg .b64 state; mbarrier.arrive.expect_tx.shared::cta.b64 state, [%0], %1; }"
		::"r"(shared_address(barrier)), "r"(bytes) : "memory");
}

// barrier_wait waits while the barrier's phase is even, if parity is 0, or odd, if it is 1. An endless wait would block the device,
// so the kernel fails after TRIES attempts, which take 4 µs each on an H100.
CONSTANT u32 TRIES = 1 << 20;

DEVICE void barrier_wait(u32 barrier, u32 parity) {
	asm volatile(
		"{ .reg .pred over;\n"
		".reg .u32 left;\n"
		"mbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\n"
		"@over bra done;\n"
		"mov.u32 left, %2;\n"
		"again: mbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\n"
		"@over bra done;\n"
		"sub.u32 left, left, 1;\n"
		"setp.ne.u32 over, left, 0;\n"
		"@over bra again;\n"
		"trap;\n"
		"done: }" ::"r"(shared_address(barrier)), "r"(parity), "n"(TRIES) : "memory");
}

// copy_bulk starts a copy into shared memory. The barrier counts the bytes that have arrived. The addresses and the number of bytes
// are multiples of 16.
DEVICE void copy_bulk(u32 offset, const void *from, u32 bytes, u32 barrier) {
	asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
		::"r"(shared_address(offset)), "l"(from), "r"(bytes), "r"(shared_address(barrier)) : "memory");
}

// block_rank returns the block's number in its cluster, from 0 on. The blocks of a cluster run at the same time, copy into each
// other's shared memory and arrive at barriers there. They may do so when all have started (sync_cluster), and no block may end
// before the last copy and arrival.
DEVICE u32 block_rank() {
	u32 x;
	asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(x));
	return x;
}

// sync_cluster waits for all threads of the cluster. After it, all threads see what any of them wrote before it.
DEVICE void sync_cluster() {
	asm volatile("barrier.cluster.arrive.release;" ::: "memory");
	asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
}

// fence_barriers comes between a thread's calls of barrier_init and sync_cluster, if other blocks use the barriers.
DEVICE void fence_barriers() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

// barrier_arrive_at arrives at the barrier at this offset in the block of that rank. The arrival orders the thread's earlier
// accesses only for its own block: a release for the cluster would be a fence of all memory, which takes longer than the products
// of a chunk. So it can signal that products are complete, after multiply_wait, but not that the thread has written something.
DEVICE void barrier_arrive_at(u32 rank, u32 barrier) {
	asm volatile(
		"{ .reg .b32 there;\n"
		"mapa.shared::cluster.u32 there, %0, %1;\n"
		"mbarrier.arrive.shared::cluster.b64 _, [there]; }" ::"r"(shared_address(barrier)), "r"(rank) : "memory");
}

// copy_across starts a copy from the block's shared memory to the same offset in the block of that rank. The barrier in that block
// counts the bytes.
DEVICE void copy_across(u32 rank, u32 offset, u32 bytes, u32 barrier) {
	asm volatile(
		"{ .reg .b32 to, counts;\n"
		"mapa.shared::cluster.u32 to, %0, %3;\n"
		"mapa.shared::cluster.u32 counts, %2, %3;\n"
		"cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [to], [%0], %1, [counts]; }"
		::"r"(shared_address(offset)), "r"(bytes), "r"(shared_address(barrier)), "r"(rank) : "memory");
}

// sync_some waits until this number of threads (whole warps) have called it with the same name (1 to 15). After it, they see what
// any of them wrote before it.
DEVICE void sync_some(u32 name, u32 threads) { asm volatile("bar.sync %0, %1;" ::"r"(name), "r"(threads) : "memory"); }

// fewer_registers reduces the registers of each thread of the warpgroup to N. more_registers raises them to N, when enough have
// been released. N is a multiple of 8, from 24 to 240.
template <int N>
DEVICE void fewer_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N)); }
template <int N>
DEVICE void more_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N)); }

#endif

// tile returns the descriptor of a matrix of 16 rows (inputs) and 64 columns (outputs) of fp16, at an offset in shared memory that is a
// multiple of 1024. Each row has 128 bytes, in 8 parts of 16. Part p of row r is at 128*r + 16*(p ^ r%8), so that the same part of eight
// rows is in different banks.
//
//	bits 0-13   the address / 16
//	bits 32-45  the distance of rows 8 to 15 from rows 0 to 7, / 16
//	bits 62-63  1: the parts are arranged as above
DEVICE u64 tile(u32 offset) { return (aligned_address(offset) & 0x3ffff) >> 4 | u64(1024 >> 4) << 32 | u64(1) << 62; }

// rows returns the descriptor of a matrix of 64 rows and 16 columns (inputs) of fp16. Columns 0 to 7 of all rows come first, 16
// bytes a row, at an offset in shared memory that is a multiple of 16. Columns 8 to 15 follow in the same way `part` bytes later.
// So adding 1 to the descriptor gives that of the matrix that begins one row later.
//
//	bits 0-13   the address / 16
//	bits 16-29  the distance of columns 8 to 15, / 16
//	bits 32-45  the distance of rows 8 to 15 from rows 0 to 7, / 16
//	bits 62-63  0: no pattern
DEVICE u64 rows(u32 offset, u32 part) { return (aligned_address(offset) & 0x3ffff) >> 4 | u64(part >> 4) << 16 | u64(128 >> 4) << 32; }

// wide_tile returns the descriptor of 16 rows and 256 columns: four tiles at this distance from each other.
//
//	bits 16-29  the distance of columns 64 to 127 from columns 0 to 63, / 16
DEVICE u64 wide_tile(u32 offset, u32 distance) { return tile(offset) | u64(distance >> 4) << 16; }
