// The network in one launch for few boards, for Hopper (sm_90a). nn/net defines the computation.
//
// hopper.h and hopper256.h fill a multiprocessor with boards, and take as long for one board as for all of them. Here each warpgroup
// computes one board. Its threads load no operands, because the matrix units read activations from shared memory too. A board is a matrix
// whose rows are its cells, with a cell of zeros after each row of the board, and more zeros before the first row and after the last. So
// the operand of a tap is the same matrix, starting some rows earlier or later:
//
//	shift = (kernel row - 1) * (columns + 1) + kernel column - 1
//
// A product has 64 rows, which must hold the cells of one board and their zeros.
//
// A block of threads computes 64 outputs of each layer. For 128 and 256 channels a cluster of two or four blocks shares the outputs of the
// same boards, and each block reads only its part of the weights. After each layer every block copies its outputs to the others. The first
// block computes the answers.
//
// Each sum begins with the same number and adds the same products in the same order as in hopper.h, or for 256 channels in hopper256.h. So
// answers have the same bits, and the weights are packed in the same way.
//
// No block overwrites numbers that another block still reads or copies. Layers write x and t in turn, so layer i overwrites the input of
// layer i-1. A block that sends its part of layer i has received all parts of layer i-1. Their senders had received all parts of layer i-2,
// and had multiplied them. After the last layer blocks send nothing more. So each block tells the others when it has multiplied their parts
// (FREE), and they wait for that before they write x of the next boards.
#pragma once

#include "hopper256.h"

template <int C_>
struct Few {
	CONSTANT int C = C_, CLUSTER = C / 64;
	CONSTANT bool TAPS = C == 256; // sums begin with the residual stream and add tap by tap, as in hopper256.h; otherwise in the order of hopper.h
	CONSTANT int BOARDS = C == 256 ? 1 : 4, WORKERS = 128 * BOARDS, THREADS = WORKERS + 32;
	CONSTANT int STEPS = C / 16, STEM = TAPS ? 4 : 3; // of 16 inputs each

	// Weights come in pieces, those of the cluster's blocks in turn. A piece is the tiles of two steps (TAPS), or the three tiles of a
	// kernel's column for one step. A stage of the ring holds up to SPAN pieces.
	CONSTANT int TILES = TAPS ? 2 : 3, SPAN = C == 128 ? 2 : 4, STAGES = C == 256 ? 8 : 4;
	CONSTANT int LAYER = 9 * STEPS / TILES, HEADS = (STEPS + TILES - 1) / TILES; // pieces of a layer, and of the heads' convolution
	CONSTANT int TURN = TAPS ? STEPS / TILES : STEPS;                            // pieces of a tap, or of a kernel's column
	static_assert(TURN % SPAN == 0);

	// Shared memory, in bytes. A part of a matrix is eight channels of all rows, with GUARD rows of zeros before and after them.
	CONSTANT int ROWS = 64, GUARD = 10;
	CONSTANT u32 TILE = 2048, PIECE = TILES * TILE, CHUNK = SPAN * PIECE, PART = 16 * (ROWS + 2 * GUARD);
	CONSTANT u32 X = STAGES * CHUNK, T = C / 8 * PART; // X: x of the first board; T: the distance from a board's x to its t
	CONSTANT u32 BOARD = T + (C == 64 ? 17 << 10 : T); // the outputs of the heads' convolution overwrite t; with 64 channels they need more memory
	CONSTANT u32 FULL = X + BOARDS * BOARD, EMPTY = FULL + 8 * STAGES;
	CONSTANT u32 READY = EMPTY + 8 * STAGES, FREE = READY + 16 * BOARDS; // for each board; READY: one barrier for x and one for t
	CONSTANT u32 BYTES = FREE + 8 * BOARDS;

	// pieces returns the number of pieces that each block of the cluster reads.
	DEVICE_MEMBER static int pieces(int blocks) { return STEM / TILES + 2 * blocks * LAYER + HEADS; }
};

// Seat is a thread's place among the 128 threads of a board.
struct Seat {
	int board, warp, lane, thread; // the board, its warp 0 to 3, the lane, the board's thread 0 to 127
	u32 x;                         // the offset of the board's x

	template <class S>
	DEVICE_MEMBER static Seat of(int number) {
		u32 thread = opaque(number);
		return {int(thread / 128), int(thread / 32 % 4), int(thread % 32), int(thread % 128), S::X + thread / 128 * S::BOARD};
	}
	// row is the thread's first or second row of a product.
	DEVICE_MEMBER int row(int i) const { return 16 * warp + lane / 4 + 8 * i; }
	// together waits for all threads of the board.
	DEVICE_MEMBER void together() const { sync_some(1 + board, 128); }
};

// rows_of returns the lower half of the descriptor of a matrix, for the product of its first 16 channels without a shift. Offsets are added
// to that half alone.
template <class S>
DEVICE u32 rows_of(u32 matrix) { return static_cast<u32>(rows(matrix + 16 * S::GUARD, S::PART)); }

// feed_few copies all of the block's weights into the ring, once for each group of boards.
template <class S>
DEVICE void feed_few(const Job &job, int groups) {
	Ring<S> ring{0, 1};
	int rank = S::CLUSTER == 1 ? 0 : block_rank();
	for (; groups > 0; groups--) {
		const u8 *from = job.weights + rank * S::PIECE;
		for (int layer = 0; layer <= 2 * job.blocks + 1; layer++) {
			int pieces = layer == 0 ? S::STEM / S::TILES : layer <= 2 * job.blocks ? S::LAYER : S::HEADS;
			for (; pieces > 0; pieces -= S::SPAN) {
				u32 to = ring.stage * S::CHUNK, full = S::FULL + 8 * ring.stage, some = pieces < S::SPAN ? pieces : S::SPAN;
				barrier_wait(S::EMPTY + 8 * ring.stage, ring.parity);
				barrier_expect(full, some * S::PIECE);
#pragma unroll
				for (u32 i = 0; i < S::SPAN; i++)
					if (i < some) copy_bulk(to + i * S::PIECE, from + i * S::CLUSTER * S::PIECE, S::PIECE, full);
				from += some * S::CLUSTER * S::PIECE;
				ring.next(1);
			}
		}
	}
}

// Bias holds the biases with which a thread's sums of a layer begin.
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

// Multiplier holds the sums of a warpgroup and its place in the stream of weights.
template <class S>
struct Multiplier {
	Products sum;
	Ring<S> ring;
	int before; // the stage whose products are in flight, or -1
	CONSTANT u32 STEP = 2 * S::PART >> 4;

	// chunk starts the products with the first COUNT tiles of a stage. rows(i) returns the lower half of the descriptor of the rows for
	// tile i.
	template <int COUNT, class Rows>
	DEVICE_MEMBER void chunk(int lane, Rows rows) {
		auto low = [](u64 descriptor, u32 x) { return descriptor >> 32 << 32 | x; };
		u64 weights = tile(ring.take()), part = ::rows(0, S::PART);
		u32 first = static_cast<u32>(weights);
		multiply_fence();
#pragma unroll
		for (int i = 0; i < COUNT; i++) multiply_shared(sum, low(part, rows(i)), low(weights, first + i * (S::TILE >> 4)));
		multiply_commit();
		multiply_wait<1>();
		if (before >= 0) release<S>(before, lane);
		before = ring.stage;
		ring.next(1);
	}
	DEVICE_MEMBER void begin() {
		before = -1;
		settle(sum);
	}
	DEVICE_MEMBER void finish(int lane) {
		multiply_wait<0>();
		release<S>(before, lane);
		settle(sum);
	}

	// convolve adds a 3x3 convolution of a matrix.
	DEVICE_MEMBER void convolve(u32 matrix, int slots, int lane) {
		begin();
#pragma unroll 1
		for (int i = 0; i < S::LAYER; i += S::SPAN) {
			int turn = i / S::TURN;
			if constexpr (S::TAPS) {
				u32 at = matrix + (turn / 3 - 1) * slots + turn % 3 - 1 + i % S::TURN * S::TILES * STEP;
				chunk<S::TILES * S::SPAN>(lane, [&](int i) { return at + i * STEP; });
			} else {
				u32 at = matrix + turn - 1 + i % S::TURN * STEP;
				chunk<S::TILES * S::SPAN>(lane, [&](int i) { return at + i / 3 * STEP + (i % 3 - 1) * slots; });
			}
		}
		finish(lane);
	}

	// combine adds a 1x1 convolution of COUNT steps, from step FIRST on.
	template <int COUNT, int FIRST = 0>
	DEVICE_MEMBER void combine(u32 matrix, int lane) {
		constexpr int SOME = COUNT - FIRST < S::SPAN * S::TILES ? COUNT - FIRST : S::SPAN * S::TILES;
		if constexpr (FIRST == 0) begin();
		chunk<SOME>(lane, [&](int i) { return matrix + (FIRST + i) * STEP; });
		if constexpr (FIRST + SOME < COUNT)
			combine<COUNT, FIRST + SOME>(matrix, lane);
		else
			finish(lane);
	}
};

// Cells are the cells of a thread's two rows of a product.
struct Cells {
	u32 both; // 16 bits for each row: its cell, counted from the top left, and ON; 0 if it is no cell of the board
	CONSTANT u32 ON = 1 << 15;

	DEVICE_MEMBER static Cells of(const Job &job, const Seat &s) {
		Cells c{0};
#pragma unroll
		for (int i = 0; i < 2; i++) {
			u32 row = s.row(i), slots = job.columns + 1, columns = job.columns;
			if (row < job.rows * slots && row % slots < columns) c.both |= ((row / slots * columns + row % slots) | ON) << 16 * i;
		}
		return c;
	}
	DEVICE_MEMBER bool on(int i) const { return both & ON << 16 * i; }
	DEVICE_MEMBER int cell(int i) const { return both >> 16 * i & (ON - 1); }
};

// word returns a thread's two fp16 of a matrix: in its row i, and among columns 8n to 8n+7 of the block's outputs.
template <class S>
DEVICE u32 &word(u32 matrix, const Seat &s, int rank, int n, int i) {
	return shared<u32>(matrix + (8 * rank + n) * S::PART + 16 * (S::GUARD + s.row(i)) + s.lane % 4 * 4);
}

// add adds the block's part of the residual stream to the sums, or zeros if it is not due.
template <class S>
DEVICE void add(Products &sum, bool due, const Seat &s, int rank) {
#pragma unroll
	for (int n = 0; n < 8; n++) {
#pragma unroll
		for (int i = 0; i < 2; i++) {
			Floats2 before = floats(due ? word<S>(s.x, s, rank, n, i) : 0);
			sum[4 * n + 2 * i] += before.x, sum[4 * n + 2 * i + 1] += before.y;
		}
	}
}

// store writes relu(sum) to the block's part of x or t. Rows that are no cells of the board remain zero.
template <class S>
DEVICE void store(const Products &sum, u32 matrix, const Cells &c, const Seat &s, int rank) {
#pragma unroll
	for (int n = 0; n < 8; n++) {
#pragma unroll
		for (int i = 0; i < 2; i++)
			if (c.on(i)) word<S>(matrix, s, rank, n, i) = relu_f16x2(sum[4 * n + 2 * i], sum[4 * n + 2 * i + 1]);
	}
}

// exchange copies the block's part of x or t, which its threads have written, to the other blocks of the cluster, and waits for theirs. x
// and t have a barrier each, because a part of t may arrive before an earlier part of x.
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

// expand writes the stem's input for a board to t, and zeros to the rest of t.
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

// Outputs are the outputs of the heads' convolution for one board, [cells][64] float32, in the memory of t. Columns are permuted by cell,
// so that the eight cells that a warp writes at once are in different banks.
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
			if (!c.on(i)) continue;
			float low = sum[4 * n + 2 * i], high = sum[4 * n + 2 * i + 1];
			Floats2 both = S::TAPS ? floats(relu_f16x2(low, high)) : Floats2{rectified(low), rectified(high)};
			outputs(c.cell(i), 8 * n + s.lane % 4 * 2) = both.x, outputs(c.cell(i), 8 * n + s.lane % 4 * 2 + 1) = both.y;
		}
	}
	s.together();
	Shared pooled{outputs.at + 4 * 64 * job.cells()}, features = pooled.from(2 * job.head), logits = features.from(job.hidden), weights = logits.from(job.actions), outcomes = weights.from(job.actions);
	for (int i = s.thread; i < job.head; i += 128) pool(job, pooled, i, outputs);
	for (int i = 127 - s.thread; i < job.actions; i += 128) logits[i] = logit(job, p, position(job, board), i, outputs); // mostly in other warps
	s.together();
	for (int i = s.thread; i < job.hidden; i += 128) features[i] = hidden(job, p, pooled, i);
	s.together();
	if (s.thread < 3) outcomes[s.thread] = outcome(job, p, features, s.thread);
	for (int i = 127 - s.thread; i < job.actions; i += 128) weights[i] = weight(job, logits, i);
	s.together();
	for (int i = s.thread; i < job.actions && board < job.n; i += 128) answer(job, board, i, outcomes, logits, weights);
	s.together();
}

// few_work evaluates groups of boards. Each use of a seat computes it anew (Seat::of), so that it occupies no registers during the
// products.
template <class S>
DEVICE void few_work(const Job &job, const float *biases, int thread, int groups, int first, int stride) {
	Multiplier<S> m;
	m.ring = {0, 0};
	u32 parity = 0; // of READY: bit 0 for x, bit 1 for t
	Bias bias;
	auto seat = [&] { return Seat::of<S>(thread); };
	const Cells cells = Cells::of(job, seat());
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
			fetch(layer + 1); // arrives during the products
			if (layer == 0) {
				m.template combine<S::STEM>(from, seat().lane);
				if (S::CLUSTER > 1 && group > 0) barrier_wait(S::FREE + 8 * seat().board, (group + 1) & 1);
			} else {
				// No branch here: it would make ptxas serialise the products of 256 channels.
				if (S::TAPS) add<S>(m.sum, even, seat(), rank());
				m.convolve(from, job.columns + 1, seat().lane);
				if (!S::TAPS && even) add<S>(m.sum, true, seat(), rank());
			}
			store<S>(m.sum, seat().x + to, cells, seat(), rank());
			exchange<S>(job, seat(), !even, rank(), parity);
		}
		bias.begin(m.sum);
		m.template combine<S::STEPS>(rows_of<S>(seat().x), seat().lane);
		if constexpr (S::CLUSTER > 1) {
			if (seat().lane < S::CLUSTER && seat().lane != rank()) barrier_arrive_at(seat().lane, S::FREE + 8 * seat().board);
		}
		if (rank() == 0) few_heads<S>(job, parameters(job, biases, S::C, S::C), m.sum, first + group * stride + seat().board, seat(), cells);
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
			barrier_init(S::EMPTY + 8 * i, 4 * boards); // one arrival per warp
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
		u64 packed = static_cast<u64>(S::CLUSTER) * S::pieces(job.blocks) * S::PIECE;
		const float *biases = reinterpret_cast<const float *>(job.weights + packed), *fc = parameters(job, biases, S::C, S::C).fc;
		for (int i = 32 * thread; i < 2 * job.head * job.hidden; i += 32 * S::WORKERS) prefetch(fc + i); // so that the heads need not wait for it
		few_work<S>(job, biases, thread, groups, first, stride);
	}
	if constexpr (S::CLUSTER > 1) sync_cluster(); // until then copies from here may be in flight, and others arrive at barriers here
}
