// The network in one launch, for Hopper (sm_90a) and 129 to 256 channels. nn/net defines the computation.
//
// Rows are as in tower.h: the cells of all boards, without borders, so that a tap reads shifted rows or a line of zeros. Each
// of two warpgroups computes all 256 outputs of 64 rows, 128 sums for each thread. A product takes 128 clocks. It reads 8 KiB
// of weights, and 2 KiB of activations through ldmatrix: 80 of the 128 bytes that shared memory delivers each clock. A third
// warpgroup copies the weights into a ring, as in hopper.h.
#pragma once

#include "hopper.h"
#include "tower.h"

struct Hopper256 {
	CONSTANT int C = 256, HALVES = 1, WORKERS = 2, STAGES = 6;
	CONSTANT int M = 1, N = 32; // a warp's sums, see Tile
	CONSTANT int ROWS = 64 * WORKERS, THREADS = 128 * WORKERS; // THREADS: those that multiply
	CONSTANT int STEM = 64, K = 32; // K: inputs of a chunk

	// Shared memory, in bytes.
	CONSTANT u32 LINE = 2 * C, TILE = 2048, CHUNK = K * LINE; // a chunk: for each 64 outputs the tiles of two steps
	CONSTANT u32 X = STAGES * CHUNK, T = X + ROWS * LINE, ZEROS = T + ROWS * LINE;
	CONSTANT u32 FULL = ZEROS + LINE, EMPTY = FULL + 8 * STAGES;
	CONSTANT u32 BYTES = EMPTY + 8 * STAGES;

	DEVICE_MEMBER static int chunks(int blocks) { return (STEM + (18 * blocks + 1) * C) / K; }
};

// pass releases chunks that a warpgroup without a board does not multiply.
template <class S>
DEVICE void pass(Ring<S> &ring, int chunks, int lane) {
	for (int i = 0; i < chunks; i++) {
		ring.take();
		sync_warp();
		release<S>(ring.stage, lane);
		ring.next(1);
	}
}

// convolve computes the same as in tower.h. inputs is a multiple of 64. Products are in flight while the next rows are loaded.
template <class S>
DEVICE void convolve(Tile<S> &sum, Ring<S> &ring, const Job &job, const Lane &l, const Rows<S> &rows, u32 matrix, int first_tap, int end, int inputs) {
	if (l.row / 64 * 64 >= job.boards * job.cells()) return pass<S>(ring, (end - first_tap) * inputs / S::K, l.lane);
	settle(sum[0]);
	u32 a[2][2][1][4];
	int before = -1; // the stage whose products are in flight
#pragma unroll 1
	for (int tap = first_tap; tap < end; tap++) {
		u32 at[1];
		int mix[1];
		aim<S>(at, mix, job, rows, matrix, tap);
#pragma unroll 1
		for (int k = 0; k < inputs; k += 2 * S::K) {
#pragma unroll
			for (int odd = 0; odd < 2; odd++) {
				u64 weights = wide_tile(ring.take(), 2 * S::TILE);
#pragma unroll
				for (int step = 0; step < 2; step++) {
					u32 address[1] = {at[0] + ((((k + S::K * odd + 16 * step) / 8 + l.lane / 16) ^ mix[0]) << 4)};
					ldmatrix<1>(a[odd][step], address);
				}
				multiply_fence();
				multiply_wide(sum[0], a[odd][0][0], weights);
				multiply_wide(sum[0], a[odd][1][0], weights + (S::TILE >> 4));
				multiply_commit();
				multiply_wait<1>();
				if (before >= 0) release<S>(before, l.lane);
				before = ring.stage;
				ring.next(1);
			}
		}
	}
	multiply_wait<0>();
	release<S>(before, l.lane);
	settle(sum[0]);
}

template <class S>
DEVICE void hopper_wide(const Job &job) {
	int thread = thread_id(), group = thread / 128;
	for (u32 i = 16 * thread; i < S::LINE; i += 16 * (S::THREADS + 128)) shared<Quad>(S::ZEROS + i) = {0, 0, 0, 0};
	enter<S>(thread);
	if (group == S::WORKERS) {
		fewer_registers<24>();
		if (thread % 128 == 0) feed<S>(job);
	} else {
		more_registers<240>();
		Lane l{thread, thread % 32, thread / 32 * 16, 0};
		Rows<S> rows = Rows<S>::of(job, l);
		Parameters p = parameters(job, reinterpret_cast<const float *>(job.weights + static_cast<u64>(S::chunks(job.blocks)) * S::CHUNK), S::C, S::C);
		Ring<S> ring{0, 0};
		for (int first = block_id() * job.boards; first < job.n; first += grid_size() * job.boards) {
			auto wait = [] { sync_some(1, S::THREADS); };
			expand<S>(job, first, l);
			layers<S>(job, p, l, rows, ring, wait);
			heads<S>(job, p, first, l, wait);
		}
	}
}
