// The network in one launch for a few boards, at most two for each multiprocessor. tower.h gives such a board to one warp,
// while the others wait. Here all warps of a block share the rows of one or two boards, and divide the channels.
//
// A warp computes all rows of 8*N channels, so no other warp needs its weights. Each lane copies the weights that it will
// multiply from global memory into a ring of its own, DEPTH - 2 steps ahead. So weights need no barrier, and one for each
// layer is enough for x and t.
//
// Outputs have the same bits as in tower.h: each sum begins with the same bias and residual and adds the same products in
// the same order. This is why the taps and inputs of an output are not divided among warps.
#pragma once

#include "tower.h"

// Wide divides ROWS x C outputs into tiles of ROWS x 8*N, one for each warp. Its weights are packed as those of Shape.
template <int C_, int M_, int N_, int DEPTH_>
struct Wide {
	CONSTANT int C = C_, M = M_, N = N_, DEPTH = DEPTH_;
	CONSTANT int WARPS = C / (8 * N), ROWS = 16 * M, THREADS = 32 * WARPS;
	CONSTANT int STEM = 64;

	// Shared memory, in bytes.
	CONSTANT u32 LINE = 2 * C, STEP = 256 * N; // STEP: the weights of a warp for 16 inputs
	CONSTANT u32 X = WARPS * DEPTH * STEP;     // as in Shape
	CONSTANT u32 T = X + ROWS * LINE;
	CONSTANT u32 ZEROS = T + ROWS * LINE;
	CONSTANT u32 BYTES = ZEROS + LINE;
	static_assert(C % (8 * N) == 0 && N % 2 == 0 && DEPTH >= 4);
};

// Steps is the stream of a lane's weights. A step multiplies 16 inputs.
template <class S>
struct Steps {
	const u8 *first; // this lane's weights for the first step
	int steps, next; // the number of steps in one pass through the network; the next one to fetch
	u32 ring;        // this lane's place in the ring
	int into, from;  // the stages of the ring that are written and read next

	DEVICE_MEMBER void fetch() {
		const u8 *at = first + static_cast<u64>(next) * (S::C / 16 * 512);
#pragma unroll
		for (int n = 0; n < S::N / 2; n++) copy_async(ring + into * S::STEP + n * 512, at + n * 512);
		copy_commit();
		next = next + 1 == steps ? 0 : next + 1;
		into = into + 1 == S::DEPTH ? 0 : into + 1;
	}

	DEVICE_MEMBER void start(const Job &job, const Lane &l) {
		first = job.weights + l.column / 16 * 512 + l.lane * 16;
		steps = (S::STEM + (2 * job.blocks * 9 + 1) * S::C) / 16;
		ring = l.thread / 32 * S::DEPTH * S::STEP + l.lane * 16;
		next = into = from = 0;
		for (int i = 0; i < S::DEPTH - 2; i++) fetch();
	}

	// take waits for the next step and reads its weights. It starts the copy of a later step into the place of the step
	// before the previous one, which has been multiplied.
	DEVICE_MEMBER void take(Operands<S> &x) {
		copy_wait<S::DEPTH - 3>();
#pragma unroll
		for (int n = 0; n < S::N / 2; n++) x.b[n] = shared<Quad>(ring + from * S::STEP + n * 512);
		fetch();
		from = from + 1 == S::DEPTH ? 0 : from + 1;
	}
};

// convolve computes the same as in tower.h. inputs is a multiple of 64.
template <class S>
DEVICE void convolve(Tile<S> &sum, Steps<S> &weights, const Job &job, const Lane &l, const Rows<S> &rows, u32 matrix, int first_tap, int end, int inputs) {
	for (int tap = first_tap; tap < end; tap++) {
		u32 at[S::M];
		int mix[S::M];
		aim<S>(at, mix, job, rows, matrix, tap);
		for (int k = 0; k < inputs; k += 64) {
			Operands<S> x[2];
			load_rows<S>(x[0], l, at, mix, k);
			weights.take(x[0]);
#pragma unroll
			for (int step = 0; step < 4; step++) {
				if (step < 3) {
					load_rows<S>(x[(step + 1) % 2], l, at, mix, k + 16 * (step + 1));
					weights.take(x[(step + 1) % 2]);
				}
				mma<S::M, S::N>(sum, x[step % 2].a, x[step % 2].b);
			}
		}
	}
}

template <class S>
DEVICE void wide(const Job &job) {
	int thread = thread_id();
	Lane l{thread, thread % 32, 0, thread / 32 * 8 * S::N};
	Rows<S> rows = Rows<S>::of(job, l);
	for (u32 i = 16 * thread; i < S::LINE; i += 16 * S::THREADS) shared<Quad>(S::ZEROS + i) = {0, 0, 0, 0};

	Steps<S> weights;
	weights.start(job, l);
	Parameters p = parameters(job, reinterpret_cast<const float *>(job.weights + static_cast<u64>(weights.steps) * (S::C / 16 * 512)), S::C, S::C);

	for (int first = block_id() * job.boards; first < job.n; first += grid_size() * job.boards) {
		expand<S>(job, first, l);
		auto wait = [] { sync_block(); };
		layers<S>(job, p, l, rows, weights, wait); // the previous layer is written, and no warp still reads what the next one overwrites
		heads<S>(job, p, first, l, wait);
	}
	copy_wait<0>();
}
