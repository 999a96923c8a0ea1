// The network in one launch for few boards, for Hopper (sm_90a). nn/net defines the computation.
//
// hopper.h and hopper256.h fill a multiprocessor with boards, and take as long for one board as for all of them. Here a warpgroup has
// one board alone, and its threads load no operands: the matrix units read activations from shared memory too. A board is a matrix
// whose rows are its cells, each board row followed by a cell of zeros. There are zeros before and behind it. So the operand of a tap
// is the same matrix, begun some rows earlier or later:
//
//	shift = (kernel row - 1) * (columns + 1) + kernel column - 1
//
// A product of 64 rows has room for one board, of at most 64 cells with those of zeros.
//
// A block of threads computes 64 outputs of each layer. For 128 and 256 channels a cluster of two or four blocks shares the outputs of
// the same boards, so that each reads its part of the weights alone. After a layer each copies its outputs to all others. The first
// block answers.
//
// Sums are those of hopper.h, or for 256 channels of hopper256.h: from the same number on, the same products in the same order. So
// answers have the same bits, and the weights are packed in the same way.
//
// Why no block overwrites what another one still reads or copies: x and t take turns. A block sends its part of a layer when it has
// received all parts of the layer before. Who sent those had all parts of the layer before that, and had multiplied them. After the
// last layer nothing more is sent, so each block says to the others when it has multiplied what they sent (FREE). They wait for that
// before they write x of the next boards.
#pragma once

#include "hopper256.h"

template <int C_, int AT_ONCE_ = 1>
struct Few {
	CONSTANT int AT_ONCE = AT_ONCE_;
	CONSTANT int C = C_, CLUSTER = C / 64;
	CONSTANT bool TAPS = C == 256; // the order of sums: by tap and channel, after the residual stream; or as in hopper.h, before it
	CONSTANT int BOARDS = C == 256 ? 2 : 4, WORKERS = 128 * BOARDS, THREADS = WORKERS + 32;
	CONSTANT int STAGES = C == 64 ? 12 : C == 128 ? 8 : 6;
	CONSTANT int STEPS = C / 16, STEM = TAPS ? 4 : 3; // of 16 inputs each
	CONSTANT int TILES = TAPS ? 4 : 3;                // in a chunk of weights: steps, or the rows of a kernel's column for one step

	// Shared memory, in bytes. A part of a matrix is eight channels of all rows, with the rows of zeros before and behind them.
	CONSTANT int ROWS = 64, GUARD = 10;
	CONSTANT u32 TILE = 2048, CHUNK = TILES * TILE, PART = 16 * (ROWS + 2 * GUARD);
	CONSTANT u32 X = STAGES * CHUNK, T = C / 8 * PART; // of the first board; t comes so much later
	CONSTANT u32 BOARD = T + (C == 64 ? 17 << 10 : T); // the outputs of the heads take the place of t, and more of it
	CONSTANT u32 FULL = X + BOARDS * BOARD, EMPTY = FULL + 8 * STAGES;
	CONSTANT u32 READY = EMPTY + 8 * STAGES, FREE = READY + 16 * BOARDS; // of each board; READY of its x and of its t
	CONSTANT u32 BYTES = FREE + 8 * BOARDS;

	// chunks of one block of the cluster
	DEVICE_MEMBER static int chunks(int blocks) { return 1 + 2 * blocks * (9 * STEPS / TILES) + (STEPS + TILES - 1) / TILES; }
};

// Seat is a thread's place among those of its board.
struct Seat {
	int board, warp, lane, thread; // thread: of 128
	u32 x;                         // the offset of the board's x

	template <class S>
	DEVICE_MEMBER static Seat of(int number) {
		int thread = opaque(number);
		return {thread / 128, thread / 32 % 4, thread % 32, thread % 128, S::X + thread / 128 * S::BOARD};
	}
	// together waits for all threads of the board.
	DEVICE_MEMBER void together() const { sync_some(1 + board, 128); }
};

// rows_of returns the lower half of the descriptor of a matrix, for the product of its first 16 channels without a shift. All additions
// to descriptors concern that half alone.
template <class S>
DEVICE u32 rows_of(u32 matrix) { return static_cast<u32>(rows(matrix + 16 * S::GUARD, S::PART)); }

// feed_few copies the block's chunks into the ring, all of them for each group of boards.
template <class S>
DEVICE void feed_few(const Job &job, int groups) {
	int rank = S::CLUSTER == 1 ? 0 : block_rank(), chunks = S::chunks(job.blocks);
	Ring<S> ring{0, 1};
	for (; groups > 0; groups--) {
		for (int i = 0; i < chunks; i++) {
			u32 to = ring.stage * S::CHUNK, full = S::FULL + 8 * ring.stage;
			barrier_wait(S::EMPTY + 8 * ring.stage, ring.parity);
			barrier_expect(full, S::CHUNK);
			if constexpr (S::TAPS) {
#pragma unroll
				for (int step = 0; step < S::TILES; step++)
					copy_bulk(to + step * S::TILE, job.weights + (static_cast<u64>(S::TILES * i + step) * S::CLUSTER + rank) * S::TILE, S::TILE, full);
			} else {
				copy_bulk(to, job.weights + (static_cast<u64>(i) * S::CLUSTER + rank) * S::CHUNK, S::CHUNK, full);
			}
			ring.next(1);
		}
	}
}

// Bias is what a thread's sums of a layer begin with.
struct Bias {
	Floats2 of[8];

	DEVICE_MEMBER void fetch(const float *bias, int lane) {
#pragma unroll
		for (int n = 0; n < 8; n++) of[n] = {bias[8 * n + lane % 4 * 2], bias[8 * n + lane % 4 * 2 + 1]};
	}
	DEVICE_MEMBER void begin(Products &sum) const {
#pragma unroll
		for (int n = 0; n < 8; n++) sum[4 * n] = sum[4 * n + 2] = of[n].x, sum[4 * n + 1] = sum[4 * n + 3] = of[n].y;
	}
};

// Multiplier is the sums of a warpgroup, and the stream of weights that it multiplies by.
template <class S>
struct Multiplier {
	Products sum;
	Ring<S> ring;
	int before; // the stage whose products are under way, or -1

	// chunk starts the products of the next chunks, CHUNKS of them. rows(i) is the operand of their tile i, of which there are COUNT each.
	template <int COUNT, int CHUNKS, class Rows>
	DEVICE_MEMBER void chunk(int lane, Rows rows) {
		u64 part = ::rows(0, S::PART);
		auto low = [](u64 descriptor, u32 x) { return descriptor >> 32 << 32 | x; };
		int first = ring.stage;
		u64 weights[CHUNKS];
#pragma unroll
		for (int c = 0; c < CHUNKS; c++) weights[c] = tile(ring.take()), ring.next(1);
		multiply_fence();
#pragma unroll
		for (int i = 0; i < COUNT * CHUNKS; i++)
			multiply_shared(sum, low(part, rows(i)), low(weights[i / COUNT], static_cast<u32>(weights[i / COUNT]) + i % COUNT * (S::TILE >> 4)));
		multiply_commit();
		multiply_wait<1>();
		if (before >= 0) release<CHUNKS>(lane);
		before = first;
	}
	template <int CHUNKS>
	DEVICE_MEMBER void release(int lane) {
		if (lane < CHUNKS) barrier_arrive(S::EMPTY + 8 * (before + lane - (before + lane < S::STAGES ? 0 : S::STAGES)));
	}
	template <int CHUNKS>
	DEVICE_MEMBER void finish(int lane) {
		multiply_wait<0>();
		release<CHUNKS>(lane);
		settle(sum);
	}

	// convolve adds a 3x3 convolution of a matrix.
	DEVICE_MEMBER void convolve(u32 matrix, int slots, int lane) {
		constexpr u32 STEP = 2 * S::PART >> 4;
		before = -1;
		settle(sum);
		if constexpr (S::TAPS) {
#pragma unroll 1
			for (int i = 0; i < 9 * S::STEPS; i += S::TILES) {
				int tap = i / S::STEPS, step = i % S::STEPS;
				u32 at = matrix + (tap / 3 - 1) * slots + tap % 3 - 1 + step * STEP;
				chunk<S::TILES, 1>(lane, [&](int i) { return at + i * STEP; });
			}
		} else {
#pragma unroll 1
			for (int i = 0; i < 3 * S::STEPS; i += S::AT_ONCE) {
				u32 at = matrix + i / S::STEPS - 1 + i % S::STEPS * STEP;
				chunk<3, S::AT_ONCE>(lane, [&](int i) { return at + i / 3 * STEP + (i % 3 - 1) * slots; });
			}
		}
		finish<S::TAPS ? 1 : S::AT_ONCE>(lane);
	}

	// combine adds a convolution of single cells, with a number of steps.
	template <int COUNT>
	DEVICE_MEMBER void combine(u32 matrix, int lane) {
		constexpr u32 STEP = 2 * S::PART >> 4;
		before = -1;
		settle(sum);
#pragma unroll 1
		for (int step = 0; step + S::TILES <= COUNT; step += S::TILES) chunk<S::TILES, 1>(lane, [&](int i) { return matrix + (step + i) * STEP; });
		if constexpr (COUNT % S::TILES != 0) chunk<COUNT % S::TILES, 1>(lane, [&](int i) { return matrix + (COUNT / S::TILES * S::TILES + i) * STEP; });
		finish<1>(lane);
	}
};

// Cells are the two rows of a product that a thread has, of a board with so many columns and rows.
struct Cells {
	int row[2];
	bool on[2];  // a cell of the board
	int cell[2]; // which, counted from the top left

	DEVICE_MEMBER static Cells of(const Job &job, const Seat &s) {
		Cells c;
#pragma unroll
		for (int i = 0; i < 2; i++) {
			int row = 16 * s.warp + s.lane / 4 + 8 * i, slots = job.columns + 1;
			c.row[i] = row, c.on[i] = row < job.rows * slots && row % slots < job.columns, c.cell[i] = row / slots * job.columns + row % slots;
		}
		return c;
	}
};

// word returns the thread's two fp16 of a matrix, in column 8n of the block's outputs and row i of its two.
template <class S>
DEVICE u32 &word(u32 matrix, const Cells &c, int rank, int n, int i, int lane) {
	return shared<u32>(matrix + (8 * rank + n) * S::PART + 16 * (S::GUARD + c.row[i]) + lane % 4 * 4);
}

// add adds the block's part of the residual stream to the sums, if it is due.
template <class S>
DEVICE void add(Products &sum, bool due, u32 x, const Cells &c, int rank, int lane) {
#pragma unroll
	for (int n = 0; n < 8; n++) {
#pragma unroll
		for (int i = 0; i < 2; i++) {
			Floats2 before = floats(due ? word<S>(x, c, rank, n, i, lane) : 0);
			sum[4 * n + 2 * i] += before.x, sum[4 * n + 2 * i + 1] += before.y;
		}
	}
}

// store writes what relu leaves of the sums to the block's part of x or t. What is no cell of the board remains zero.
template <class S>
DEVICE void store(const Products &sum, u32 matrix, const Cells &c, int rank, int lane) {
#pragma unroll
	for (int n = 0; n < 8; n++) {
#pragma unroll
		for (int i = 0; i < 2; i++)
			if (c.on[i]) word<S>(matrix, c, rank, n, i, lane) = relu_f16x2(sum[4 * n + 2 * i], sum[4 * n + 2 * i + 1]);
	}
}

// exchange makes the block's part of x or t, which its threads have written, that of all blocks of the cluster, and waits for their
// parts. x and t have a barrier each: parts of t may arrive before all those of x have that were sent before.
template <class S>
DEVICE void exchange(const Job &job, const Seat &s, bool of_t, int rank, u32 &parity) {
	fence_async();
	s.together();
	if constexpr (S::CLUSTER > 1) {
		u32 matrix = s.x + (of_t ? S::T : 0), ready = S::READY + 16 * s.board + 8 * of_t, bytes = 16 * job.rows * (job.columns + 1);
		if (s.thread == 0) barrier_expect(ready, (S::CLUSTER - 1) * 8 * bytes);
		if (s.thread < (S::CLUSTER - 1) * 8) {
			u32 to = (rank + 1 + s.thread / 8) % S::CLUSTER, at = matrix + (8 * rank + s.thread % 8) * S::PART + 16 * S::GUARD;
			copy_across(to, at, bytes, ready);
		}
		barrier_wait(ready, parity >> of_t & 1);
		parity ^= 1 << of_t;
	}
}

// expand writes the stem's input for a board to t, and zeros to all that is beside.
template <class S>
DEVICE void expand(const Job &job, int board, const Seat &s) {
	int row = s.thread - S::GUARD, slots = job.columns + 1;
	if (s.thread >= S::ROWS + 2 * S::GUARD) return;
	bool on = row >= 0 && row < job.rows * slots && row % slots < job.columns;
	u64 planes = on ? neighbourhood(job, position(job, board), row / slots, row % slots) : 0;
	u32 to = s.x + S::T + 16 * s.thread;
#pragma unroll
	for (int part = 0; part < 2 * S::STEM; part++) shared<Quad>(to + part * S::PART) = on ? stem_input(job, planes, part) : Quad{0, 0, 0, 0};
#pragma unroll 1
	for (int part = 2 * S::STEM; part < S::C / 8; part++) shared<Quad>(to + part * S::PART) = {0, 0, 0, 0};
}

// Outputs are those of the heads' convolution for one board, [cells][64] float32, in the place of t. The column is combined with the
// cell, so that the eight cells that a warp writes at once are in different banks.
struct Outputs {
	u32 at;
	DEVICE_MEMBER float &operator()(int cell, int column) const { return shared<float>(at + 4 * (64 * cell + (column ^ ((cell & 7) << 3)))); }
};

// few_heads answers a board from the sums of the heads' convolution.
template <class S>
DEVICE void few_heads(const Job &job, const Parameters &p, const Products &sum, int board, const Seat &s, const Cells &c) {
	Outputs outputs{s.x + S::T};
#pragma unroll
	for (int n = 0; n < 8; n++) {
#pragma unroll
		for (int i = 0; i < 2; i++) {
			if (!c.on[i]) continue;
			float low = sum[4 * n + 2 * i], high = sum[4 * n + 2 * i + 1];
			Floats2 both = S::TAPS ? floats(relu_f16x2(low, high)) : Floats2{rectified(low), rectified(high)};
			outputs(c.cell[i], 8 * n + s.lane % 4 * 2) = both.x, outputs(c.cell[i], 8 * n + s.lane % 4 * 2 + 1) = both.y;
		}
	}
	s.together();
	Shared pooled{outputs.at + 4 * 64 * job.cells()}, features = pooled.from(2 * job.head), logits = features.from(job.hidden), outcomes = logits.from(job.actions);
	for (int i = s.thread; i < job.head; i += 128) pool(job, pooled, i, outputs);
	for (int i = 127 - s.thread; i < job.actions; i += 128) logits[i] = logit(job, p, position(job, board), i, outputs); // mostly by other warps
	s.together();
	for (int i = s.thread; i < job.hidden; i += 128) features[i] = hidden(job, p, pooled, i);
	s.together();
	if (s.thread < 3) outcomes[s.thread] = outcome(job, p, features, s.thread);
	s.together();
	if (s.thread == 0 && board < job.n) answer(job, board, outcomes, logits);
	s.together();
}

// few_work evaluates groups of boards. What follows from the thread's number is computed where it is needed (Seat::of), and does not
// occupy registers during the products.
template <class S>
DEVICE void few_work(const Job &job, const float *biases, int thread, int groups, int first, int stride) {
	Multiplier<S> m;
	m.ring = {0, 0};
	u32 parity = 0; // bit 0 of x, bit 1 of t
	Bias bias;
	auto seat = [&] { return Seat::of<S>(thread); };
	auto cells = [&] { return Cells::of(job, seat()); };
	auto rank = [] { return S::CLUSTER == 1 ? 0 : static_cast<int>(block_rank()); };
	auto fetch = [&](int layer) { bias.fetch(biases + opaque(layer) * S::C + 64 * rank(), seat().lane); };
	int last = 2 * job.blocks + 1;
	for (int group = 0; group < groups; group++) {
		expand<S>(job, first + group * stride + seat().board, seat());
		fetch(0);
		fence_async();
		seat().together();
#pragma unroll 1
		for (int layer = 0; layer < last; layer++) {
			bool even = layer % 2 == 0;
			u32 to = even ? 0 : S::T;
			u32 from = rows_of<S>(seat().x + (even ? S::T : 0));
			bias.begin(m.sum);
			fetch(layer + 1); // it comes during the products
			if (layer == 0) {
				m.template combine<S::STEM>(from, seat().lane);
				if (S::CLUSTER > 1 && group > 0) barrier_wait(S::FREE + 8 * seat().board, (group + 1) & 1);
			} else {
				// Without a branch here, since the assembler would let products of 256 channels wait for each other.
				if (S::TAPS) add<S>(m.sum, even, seat().x, cells(), rank(), seat().lane);
				m.convolve(from, job.columns + 1, seat().lane);
				if (!S::TAPS && even) add<S>(m.sum, true, seat().x, cells(), rank(), seat().lane);
			}
			store<S>(m.sum, seat().x + to, cells(), rank(), seat().lane);
			exchange<S>(job, seat(), !even, rank(), parity);
		}
		bias.begin(m.sum);
		m.template combine<S::STEPS>(rows_of<S>(seat().x), seat().lane);
		if constexpr (S::CLUSTER > 1) {
			if (seat().lane < S::CLUSTER && seat().lane != rank()) barrier_arrive_at(seat().lane, S::FREE + 8 * seat().board);
		}
		if (rank() == 0) few_heads<S>(job, parameters(job, biases, S::C, S::C), m.sum, first + group * stride + seat().board, seat(), cells());
	}
}

template <class S>
DEVICE void few(const Job &job) {
	int thread = thread_id(), boards = job.boards;
	for (int board = 0; board < boards; board++)
		for (u32 i = 16 * thread; i < S::T; i += 16 * S::THREADS) shared<Quad>(S::X + board * S::BOARD + i) = {0, 0, 0, 0};
	if (thread == 0) {
		for (int i = 0; i < S::STAGES; i++) {
			barrier_init(S::FULL + 8 * i, 1);
			barrier_init(S::EMPTY + 8 * i, 4 * boards); // a warp each
		}
		if constexpr (S::CLUSTER > 1) {
			for (int i = 0; i < S::BOARDS; i++) barrier_init(S::READY + 16 * i, 1), barrier_init(S::READY + 16 * i + 8, 1), barrier_init(S::FREE + 8 * i, 4 * (S::CLUSTER - 1));
			fence_barriers();
		}
	}
	fence_async();
	if constexpr (S::CLUSTER == 1)
		sync_block();
	else
		sync_cluster();
	int first = block_id() / S::CLUSTER * boards, stride = grid_size() / S::CLUSTER * boards;
	int groups = first < job.n ? (job.n - first + stride - 1) / stride : 0;
	if (thread >= S::WORKERS) {
		if (thread == S::WORKERS) feed_few<S>(job, groups);
	} else if (thread / 128 < boards) {
		u64 packed = static_cast<u64>(S::CLUSTER) * S::chunks(job.blocks) * S::CHUNK;
		few_work<S>(job, reinterpret_cast<const float *>(job.weights + packed), thread, groups, first, stride);
	}
	if constexpr (S::CLUSTER > 1) sync_cluster(); // the others may still copy from here
}
