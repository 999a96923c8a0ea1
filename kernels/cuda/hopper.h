// The network in one launch, for Hopper (sm_90a) and boards of at most 7 columns and 6 rows. nn/net defines the computation.
//
// The matrix units read weights from shared memory for four warps at once, always at 64 bytes a clock. They read activations from
// registers, so each loaded activation must be used several times. A warp has two boards, and its 16 rows of a product are one row
// of each board, in 8 slots. The sums of all 6 rows stay in registers, 192 for each thread. For one column of a kernel and 16
// channels a warp loads the 6 rows of its boards, shifted by a column. It multiplies each row by the three weights of that column,
// for the sums of the row below, of the row itself and of the row above: 16 products for 6 loads. Rows above and below the board
// are not computed. Slots are read cyclically, so the eighth slot, which is always zero, borders the first column too.
//
// Two warpgroups multiply. With 64 channels each has 8 boards, 2 a warp. With 128 they share 8 boards, and each computes half of
// the channels. In a third warpgroup one thread copies the weights into a ring. All operands are fp16, and the sums float32. The
// residual stream is fp16 too: the first convolution of a block reads x and writes t, and the second reads t and adds to x.
#pragma once

#include "sm90.h"

#include "heads.h"

template <int C_>
struct Hopper {
	CONSTANT int C = C_, HALVES = C / 64; // warpgroups that share boards
	CONSTANT int BOARDS = 16 / HALVES, ROWS = 6, SLOTS = 8;
	CONSTANT int WORKERS = 2, THREADS = 128 * (WORKERS + 1);
	// A stage of the ring always has the same readers. Copies arrive in any order, so with other readers one warpgroup could be two
	// phases ahead of the other, which a barrier cannot distinguish from none.
	CONSTANT int STAGES = HALVES == 2 ? 4 : 5;
	CONSTANT int STEPS = C / 16;             // one step multiplies 16 channels
	CONSTANT int STEM = 3;                   // steps of the stem: 9 taps x 5 planes, and zeros

	// Shared memory, in bytes. A chunk is the 3 tiles of a kernel's column and 16 channels, for one half of the outputs; or 3 steps
	// of the stem or of the heads' convolution.
	CONSTANT u32 TILE = 2048, CHUNK = 3 * TILE;
	CONSTANT u32 LINE = 2 * C, ROW = SLOTS * LINE, T = ROWS * ROW, BOARD = 2 * T; // a board: x and t, each [6][8][C]
	CONSTANT u32 ACTIVATIONS = STAGES * CHUNK;
	CONSTANT u32 FULL = ACTIVATIONS + BOARDS * BOARD, EMPTY = FULL + 8 * STAGES;
	CONSTANT u32 BYTES = EMPTY + 8 * STAGES;
	static_assert((C == 64 || C == 128) && STAGES % HALVES == 0);

	DEVICE_MEMBER static int chunks(int blocks) { return HALVES * (1 + 2 * blocks * 3 * STEPS + (STEPS + 2) / 3); }
};

// Place is a thread's place among those that multiply.
struct Place {
	int group, warp, lane; // the warpgroup, its warp, the lane
	int half;              // the half of the outputs that the warpgroup computes, 0 or 1
	int first, count;      // the boards of the group that this warp expands and answers
	u32 board;             // the offset of the first board that the warp multiplies
	u32 slot;              // the offset of the slot that this thread stores, in the first board

	// of hides the thread's number from the compiler, so that a place is computed where it is used and occupies no registers during
	// the products.
	template <class S>
	DEVICE_MEMBER static Place of(int number) {
		Place p;
		int thread = opaque(number);
		p.group = thread / 128, p.warp = thread / 32 % 4, p.lane = thread % 32;
		p.half = S::HALVES == 2 ? p.group : 0;
		int board = S::HALVES == 2 ? 2 * p.warp : 8 * p.group + 2 * p.warp;
		p.first = board + p.half, p.count = 2 / S::HALVES;
		p.board = S::ACTIVATIONS + board * S::BOARD;
		p.slot = p.board + p.lane / 4 * S::LINE;
		return p;
	}

	// together waits for the warps that have the same boards.
	template <class S>
	DEVICE_MEMBER void together() const {
		if (S::HALVES == 2)
			sync_some(1 + warp, 64);
		else
			sync_warp();
	}
};

// Ring is the position of a reader or of the writer in the ring of chunks. A stage is full in one phase, and empty in the next.
template <class S>
struct Ring {
	int stage;
	u32 parity;

	DEVICE_MEMBER void next(int by) {
		stage += by;
		if (stage >= S::STAGES) stage -= S::STAGES, parity ^= 1;
	}
	// take waits for a chunk and returns its offset.
	DEVICE_MEMBER u32 take() const {
		barrier_wait(S::FULL + 8 * stage, parity);
		return stage * S::CHUNK;
	}
};

// release gives a stage back to the writer, when the warp's products with it are complete.
template <class S>
DEVICE void release(int stage, int lane) {
	if (lane == 0) barrier_arrive(S::EMPTY + 8 * stage);
}

// feed copies all chunks into the ring, once for each group of boards.
template <class S>
DEVICE void feed(const Job &job) {
	Ring<S> ring{0, 1};
	int chunks = S::chunks(job.blocks);
	for (int first = block_id() * job.boards; first < job.n; first += grid_size() * job.boards) {
		const u8 *from = job.weights;
		for (int i = 0; i < chunks; i++, from += S::CHUNK) {
			u32 full = S::FULL + 8 * ring.stage;
			barrier_wait(S::EMPTY + 8 * ring.stage, ring.parity);
			barrier_expect(full, S::CHUNK);
			copy_bulk(ring.stage * S::CHUNK, from, S::CHUNK, full);
			ring.next(1);
		}
	}
}

// enter initialises the barriers.
template <class S>
DEVICE void enter(int thread) {
	if (thread == 0) {
		for (int i = 0; i < S::STAGES; i++) {
			barrier_init(S::FULL + 8 * i, 1);
			barrier_init(S::EMPTY + 8 * i, 4 * S::WORKERS / S::HALVES); // one arrival per warp
		}
		fence_async();
	}
	sync_block();
}

// skip releases all chunks of a group of boards in which this warpgroup has no board.
template <class S>
DEVICE void skip(const Job &job, Ring<S> &ring, int lane) {
	for (int i = S::chunks(job.blocks); i > 0; i -= S::HALVES) {
		ring.take();
		sync_warp();
		release<S>(ring.stage, lane);
		ring.next(S::HALVES);
	}
}

typedef Products Sums[6]; // for each row of the warp's two boards

DEVICE void settle(Sums &sum) {
#pragma unroll
	for (int r = 0; r < 6; r++) settle(sum[r]);
}

// begin sets the sums to the biases of their columns.
DEVICE void begin(Sums &sum, const float *bias, int lane) {
	lane = opaque(lane);
#pragma unroll
	for (int n = 0; n < 8; n++) {
		float low = bias[8 * n + lane % 4 * 2], high = bias[8 * n + lane % 4 * 2 + 1];
#pragma unroll
		for (int r = 0; r < 6; r++) sum[r][4 * n] = sum[r][4 * n + 2] = low, sum[r][4 * n + 1] = sum[r][4 * n + 3] = high;
	}
	settle(sum);
}

// address returns a lane's address for ldmatrix: of row 0 of x or t for a step, shifted by -1, 0 or 1 columns.
template <class S>
DEVICE u32 address(u32 at, int lane, int move, int step) {
	u32 slot = (lane + move) & 7;
	return at + (lane >> 3 & 1) * S::BOARD + slot * S::LINE + (((2 * step + lane / 16) ^ slot) << 4);
}

// load loads two rows. `at` is the address of the first.
template <class S>
DEVICE void load(u32 (&a)[2][4], u32 at) {
	u32 rows[2] = {at, at + S::ROW};
	ldmatrix<2>(a, rows);
}

// spread loads the rows FIRST and FIRST + 1, starts their products with the three weights of a kernel's column, and waits for the
// products before them. So products are always in flight, and registers hold two pairs of rows.
template <class S, int FIRST>
DEVICE void spread(Sums &sum, u32 (&a)[2][4], u32 at, u64 weights) {
	load<S>(a, at + FIRST * S::ROW);
	multiply_fence();
#pragma unroll
	for (int i = 0; i < 2; i++) {
#pragma unroll
		for (int k = 0; k < 3; k++) {
			int row = FIRST + i + 1 - k; // kernel row k reads the row above, the same or the row below
			if (row >= 0 && row < 6) multiply(sum[row], a[i], weights + k * (S::TILE >> 4));
		}
	}
	multiply_commit();
	multiply_wait<1>();
}

// convolve adds a 3x3 convolution of x or t, which is at the offset `from`.
template <class S>
DEVICE void convolve(Sums &sum, Ring<S> &ring, u32 from, int lane) {
	u32 a[2][2][4];
	int before = -1; // the stage whose last products are in flight
#pragma unroll 1
	for (int i = 0; i < 3 * S::STEPS; i += 2) { // for each column of the kernel, two steps at a time
#pragma unroll
		for (int odd = 0; odd < 2; odd++) {
			u32 at = address<S>(from, lane, i / S::STEPS - 1, i % S::STEPS + odd);
			u64 weights = tile(ring.take());
			spread<S, 0>(sum, a[odd], at, weights);
			if (odd || i) release<S>(before, lane);
			spread<S, 2>(sum, a[1 - odd], at, weights);
			spread<S, 4>(sum, a[odd], at, weights);
			before = ring.stage;
			ring.next(S::HALVES);
		}
	}
	multiply_wait<0>();
	release<S>(before, lane);
	settle(sum);
}

// combine adds a 1x1 convolution of STEPS steps.
template <class S, int STEPS>
DEVICE void combine(Sums &sum, Ring<S> &ring, u32 from, int lane) {
#pragma unroll 1
	for (int step = 0; step < STEPS; step++) {
		u32 at = address<S>(from, lane, 0, step);
		u64 weights = tile(ring.take() + step % 3 * S::TILE);
#pragma unroll
		for (int row = 0; row < 6; row += 2) {
			u32 a[2][4];
			load<S>(a, at + row * S::ROW);
			multiply_fence();
#pragma unroll
			for (int i = 0; i < 2; i++) multiply(sum[row + i], a[i], weights);
			multiply_commit();
			multiply_wait<0>();
		}
		if (step % 3 < 2 && step < STEPS - 1) continue;
		release<S>(ring.stage, lane);
		ring.next(S::HALVES);
	}
	settle(sum);
}

// rectified returns relu(x), or NaN if x is not finite (see relu_f16x2).
DEVICE float rectified(float x) { return relu(x) + x * 0; }

// store writes relu(sum) to x or t. `to` is the offset of the thread's slot. If ADD is set, the numbers that are there are added
// first. The eighth slot and rows beyond the board remain zero.
template <class S, bool ADD>
DEVICE void store(const Job &job, const Sums &sum, u32 to, const Place &p) {
	int lane = opaque(p.lane), slot = lane / 4;
	if (slot >= job.columns) return;
	to = opaque(to);
#pragma unroll
	for (int r = 0; r < 6; r++) {
		if (r >= job.rows) break;
#pragma unroll
		for (int n = 0; n < 8; n++) {
#pragma unroll
			for (int board = 0; board < 2; board++) {
				u32 &pair = shared<u32>(to + board * S::BOARD + r * S::ROW + (((8 * p.half + n) ^ slot) << 4) + lane % 4 * 4);
				float low = sum[r][4 * n + 2 * board], high = sum[r][4 * n + 2 * board + 1];
				if (ADD) {
					Floats2 before = floats(pair);
					low += before.x, high += before.y;
				}
				pair = relu_f16x2(low, high);
			}
		}
	}
}

// CellOutputs are the outputs of the heads' convolution for one board, [cells][C] float32. They occupy the memory of x and t.
// Columns are permuted by cell, so that the eight cells that a warp writes at once are in different banks.
template <class S>
struct CellOutputs {
	u32 board;
	DEVICE_MEMBER float &operator()(int cell, int column) const {
		return shared<float>(board + 4 * (cell * S::C + (column ^ ((cell & 7) << 3))));
	}
};

template <class S>
DEVICE void store_outputs(const Job &job, const Sums &sum, const Place &p) {
	int lane = opaque(p.lane), slot = lane / 4;
	if (slot >= job.columns) return;
#pragma unroll
	for (int r = 0; r < 6; r++) {
		if (r >= job.rows) break;
#pragma unroll
		for (int n = 0; n < 8; n++) {
#pragma unroll
			for (int i = 0; i < 4; i++)
				CellOutputs<S>{p.board + i / 2 * S::BOARD}(r * job.columns + slot, 64 * p.half + 8 * n + lane % 4 * 2 + i % 2) =
					rectified(sum[r][4 * n + i]);
		}
	}
}

// expand writes the stem's input of the warp's boards to t, and zeros to all slots that are not on the board.
template <class S>
DEVICE void expand(const Job &job, int first, const Place &p) {
	for (int i = p.lane; i < p.count * S::ROWS * S::SLOTS; i += 32) {
		int board = p.first + i / (S::ROWS * S::SLOTS), row = i / S::SLOTS % S::ROWS, column = i % S::SLOTS;
		u32 line = S::ACTIVATIONS + board * S::BOARD + row * S::ROW + column * S::LINE;
		if (row < job.rows && column < job.columns) {
			u64 planes = neighbourhood(job, position(job, first + board), row, column);
#pragma unroll
			for (int part = 0; part < 2 * S::STEM; part++)
				shared<Quad>(line + S::T + ((part ^ column) << 4)) = stem_input(job, planes, part);
		} else {
#pragma unroll
			for (int part = 0; part < S::C / 8; part++)
				shared<Quad>(line + (part << 4)) = shared<Quad>(line + S::T + (part << 4)) = {0, 0, 0, 0};
		}
	}
}

// heads answers the warp's boards. Its intermediate results follow the CellOutputs.
template <class S>
DEVICE void heads(const Job &job, const Parameters &p, int first, const Place &place) {
	auto outputs = [&](int i) { return CellOutputs<S>{S::ACTIVATIONS + (place.first + i) * S::BOARD}; };
	auto pooled = [&](int i) { return Shared{outputs(i).board + 4 * job.cells() * S::C}; }; // [2V]
	auto features = [&](int i) { return pooled(i).from(2 * job.head); };                    // [F]
	auto logits = [&](int i) { return features(i).from(job.hidden); };                      // [A]
	auto weights = [&](int i) { return logits(i).from(job.actions); };                      // [A]
	auto outcomes = [&](int i) { return weights(i).from(job.actions); };                    // [3]
	for (int i = place.lane; i < place.count * job.head; i += 32)
		pool(job, pooled(i / job.head), i % job.head, outputs(i / job.head));
	for (int i = place.lane; i < place.count * job.actions; i += 32) {
		int board = i / job.actions;
		logits(board)[i % job.actions] = logit(job, p, position(job, first + place.first + board), i % job.actions, outputs(board));
	}
	sync_warp();
	for (int i = place.lane; i < place.count * job.hidden; i += 32)
		features(i / job.hidden)[i % job.hidden] = hidden(job, p, pooled(i / job.hidden), i % job.hidden);
	sync_warp();
	if (place.lane < place.count * 3) outcomes(place.lane / 3)[place.lane % 3] = outcome(job, p, features(place.lane / 3), place.lane % 3);
	for (int i = place.lane; i < place.count * job.actions; i += 32) weights(i / job.actions)[i % job.actions] = weight(job, logits(i / job.actions), i % job.actions);
	sync_warp();
	for (int i = place.lane; i < place.count * job.actions; i += 32) {
		int of = i / job.actions, board = place.first + of;
		if (board < job.boards && first + board < job.n) answer(job, first + board, i % job.actions, outcomes(of), logits(of), weights(of));
	}
}

// biases returns the biases of a layer, for one half of the outputs. Layer 2*blocks+1 is the heads' convolution.
template <class S>
DEVICE const float *biases(const Job &job, int layer, int half) {
	return reinterpret_cast<const float *>(job.weights + static_cast<u64>(S::chunks(job.blocks)) * S::CHUNK) + opaque(layer) * S::C + 64 * half;
}

// work evaluates the group of boards that begins with `first`.
template <class S>
DEVICE void work(const Job &job, int first, Ring<S> &ring, int thread) {
	Sums sum;
	auto place = [&] { return Place::of<S>(thread); };
	auto start = [&](int layer) { begin(sum, biases<S>(job, layer, place().half), place().lane); };
	expand<S>(job, first, place());
	place().template together<S>();
	start(0);
	combine<S, S::STEM>(sum, ring, place().board + S::T, place().lane);
	store<S, false>(job, sum, place().slot, place());
	place().template together<S>();
#pragma unroll 1
	for (int layer = 1; layer <= 2 * job.blocks; layer++) {
		start(layer);
		bool first_of_block = layer % 2;
		convolve<S>(sum, ring, place().board + (first_of_block ? 0 : S::T), place().lane);
		if (first_of_block)
			store<S, false>(job, sum, place().slot + S::T, place());
		else
			store<S, true>(job, sum, place().slot, place());
		place().template together<S>();
	}
	start(2 * job.blocks + 1);
	combine<S, S::STEPS>(sum, ring, place().board, place().lane);
	place().template together<S>(); // all have read x, which the outputs overwrite
	store_outputs<S>(job, sum, place());
	place().template together<S>();
	heads<S>(job, parameters(job, biases<S>(job, 0, 0), S::C, S::C), first, place());
	place().template together<S>();
}

template <class S>
DEVICE void hopper(const Job &job) {
	int thread = thread_id(), group = thread / 128;
	enter<S>(thread);
	if (group == S::WORKERS) {
		fewer_registers<24>();
		if (thread % 128 == 0) feed<S>(job);
	} else {
		more_registers<240>();
		Ring<S> ring{S::HALVES == 2 ? group : 0, 0};
		int mine = S::HALVES == 2 ? 0 : 8 * group; // the first board of the warpgroup
		for (int first = block_id() * job.boards; first < job.n; first += grid_size() * job.boards) {
			if (mine < job.boards && first + mine < job.n)
				work<S>(job, first, ring, thread);
			else
				skip<S>(job, ring, thread % 32);
		}
	}
}
