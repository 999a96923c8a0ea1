// The functions of sm90.h on the CPU. As in emu.h, mistakes that cause errors on a GPU only sometimes always do here:
//
//	an early use of registers  a product is computed when it is waited for. Until then its sums and fragments are NaN; they
//	                           must still be so when it is computed
//	an early overwrite         shared memory is read when the product starts and again when it is computed, and must be the same
//	a wrong descriptor         its bits are decoded as the machine does
//	a missing multiply_fence   between ldmatrix, or other accesses after a wait, and a product
//	a missing fence_async      between a thread's access to shared memory and one of the asynchronous proxy
//	an overwritten source      of a copy to another block: it must be unchanged when the copy arrives
//	a late or early copy       the target is 0xff until the copy arrives, which may be at any time after its start
//	a wrong count              more arrivals or bytes in a phase than were announced; too few are a deadlock. Bytes from
//	                           another block may come before they are announced
//	a lost phase               a barrier in another phase than the thread assumes: a wait for the wrong one may end
//	an early or late reach     into another block before its barriers exist, or after its end
//	warpgroups that differ     the four warps must start the same products
#pragma once

namespace emu {

// Shared memory begins at this address, as on Hopper, where the system uses the first kibibyte.
constexpr u32 SHARED_BASE = 1024;

void multiply(float *c, const u32 *a, u64 rows, u64 tile, int outputs);
void multiply_fence();
void multiply_commit();
void multiply_wait(size_t pending);
void fence_async();
void barrier_init(u32 barrier, u32 arrivals);
void barrier_arrive(u32 barrier, u32 bytes);
void barrier_wait(u32 barrier, u32 parity);
void copy_bulk(u32 offset, const void *from, u32 bytes, u32 barrier);
void copy_across(u32 rank, u32 offset, u32 bytes, u32 barrier);
void barrier_arrive_at(u32 rank, u32 barrier);
void fence_barriers();
void sync_cluster();
void sync_some(u32 name, u32 threads);
void set_registers(u32 n, bool more);

} // namespace emu

#define CLUSTER_KERNEL(name, threads, blocks) EMULATED_KERNEL(name, threads, blocks)

DEVICE u32 aligned_address(u32 offset) { return emu::SHARED_BASE + offset; }

DEVICE void multiply(Products &c, const Fragment &a, u64 tile) { emu::multiply(c, a, 0, tile, 64); }
DEVICE void multiply_shared(Products &c, u64 rows, u64 tile) { emu::multiply(c, nullptr, rows, tile, 64); }
DEVICE void multiply_wide(WideProducts &c, const Fragment &a, u64 tile) { emu::multiply(c[0], a, 0, tile, 256); }
DEVICE void multiply_fence() { emu::multiply_fence(); }
DEVICE void multiply_commit() { emu::multiply_commit(); }
template <int PENDING>
DEVICE void multiply_wait() { emu::multiply_wait(PENDING); }
DEVICE void settle(Products &) {}
DEVICE void settle(WideProducts &) {}

DEVICE void fence_async() { emu::fence_async(); }
DEVICE void barrier_init(u32 barrier, u32 arrivals) { emu::barrier_init(barrier, arrivals); }
DEVICE void barrier_arrive(u32 barrier) { emu::barrier_arrive(barrier, 0); }
DEVICE void barrier_expect(u32 barrier, u32 bytes) { emu::barrier_arrive(barrier, bytes); }
DEVICE void barrier_wait(u32 barrier, u32 parity) { emu::barrier_wait(barrier, parity); }
DEVICE void copy_bulk(u32 offset, const void *from, u32 bytes, u32 barrier) { emu::copy_bulk(offset, from, bytes, barrier); }
DEVICE u32 block_rank() { return emu::rank(); }
DEVICE void sync_cluster() { emu::sync_cluster(); }
DEVICE void fence_barriers() { emu::fence_barriers(); }
DEVICE void barrier_arrive_at(u32 rank, u32 barrier) { emu::barrier_arrive_at(rank, barrier); }
DEVICE void copy_across(u32 rank, u32 offset, u32 bytes, u32 barrier) { emu::copy_across(rank, offset, bytes, barrier); }
DEVICE void sync_some(u32 name, u32 threads) { emu::sync_some(name, threads); }

template <int N>
DEVICE void fewer_registers() { emu::set_registers(N, false); }
template <int N>
DEVICE void more_registers() { emu::set_registers(N, true); }

