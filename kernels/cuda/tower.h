// The network in one launch. The input is bitboards and the output is probabilities. nn/net defines the computation.
//
// A block of threads processes `boards` positions at a time. Their cells are the rows of a matrix of ROWS x C numbers. The
// boards follow one another without borders. A 3x3 convolution is nine matrix products of shifted rows, one for each tap. If
// a shifted row is not on its board, a line of zeros is read instead.
//
// Two such matrices of fp16 stay in shared memory through all layers: the residual stream x, and t. The first convolution
// of a residual block reads x and writes t. The second reads t and adds to x in place. The stem's input and the output of
// the heads' convolution are in t. So no layer overwrites its input, and needs only the barrier before its first product. A
// number that is too large for fp16 becomes NaN there (relu_f16x2), and the answer NOT_FINITE.
//
// nn/gpu packs the weights in the order in which the threads read them. A CHUNK of them is copied into a ring of STAGES
// while earlier chunks are multiplied. The weights are the same for every group of boards, so the ring continues from the
// last layer to the first.
//
// C and the division of work are template parameters. The board is not, because the inner loop does not depend on it.
#pragma once

#include "heads.h"

// Shape divides ROWS x C outputs into tiles of 64 x 64. Each warp computes one tile.
template <int C_, int WARPS_, int K_, int STAGES_>
struct Shape {
	CONSTANT int C = C_, WARPS = WARPS_, STAGES = STAGES_;
	CONSTANT int K = K_; // the number of input channels of one tap in a chunk
	CONSTANT int M = 4, N = 8; // a warp's tile is M x N tiles of mma, which have 16 x 8 outputs
	CONSTANT int ACROSS = C / 64, ROWS = WARPS / ACROSS * 64, THREADS = 32 * WARPS;
	CONSTANT int STEM = 64; // inputs of the stem: 9 taps x 5 planes, and zeros

	// Shared memory, in bytes.
	CONSTANT u32 LINE = 2 * C, CHUNK = K * LINE;
	CONSTANT u32 X = STAGES * CHUNK;     // [ROWS][C] fp16, see line; after the tower: memory of heads
	CONSTANT u32 T = X + ROWS * LINE;    // the same; after the tower: HeadOutput
	CONSTANT u32 ZEROS = T + ROWS * LINE; // one line
	CONSTANT u32 BYTES = ZEROS + LINE;
	static_assert(C % 64 == 0 && WARPS % ACROSS == 0 && K % 16 == 0 && STEM % K == 0 && CHUNK % (16 * THREADS) == 0);
};

// Lane is the place of a thread in its warp, and of the warp's tile in the block.
struct Lane {
	int thread, lane, row, column; // row and column of the warp's tile

	template <class S>
	DEVICE_MEMBER static Lane of() {
		int thread = thread_id();
		int warp = thread / 32;
		return {thread, thread % 32, warp / S::ACROSS * 64, warp % S::ACROSS * 64};
	}

	// afresh returns a copy that is opaque to the compiler. So addresses that are needed once in a layer are computed
	// there, and occupy no registers during the products.
	DEVICE_MEMBER Lane afresh() const { return {opaque(thread), opaque(lane), opaque(row), opaque(column)}; }
};

// line returns the offset of channels 8*part to 8*part+7 of a row of x or t, which are 16 bytes. The lower bits of part are
// combined with those of the row, so that the same part of eight consecutive rows is in different banks.
template <class S>
DEVICE u32 line(u32 matrix, int row, int part) {
	return matrix + row * S::LINE + ((part ^ (row & 7)) << 4);
}

// pair returns the two fp16 of a row of x or t at an even column and the next one.
template <class S>
DEVICE u32 &pair(u32 matrix, int row, int column) {
	return shared<u32>(line<S>(matrix, row, column / 8) + 2 * (column % 8));
}

// Weights is the stream of chunks.
template <class S>
struct Weights {
	const u8 *first;
	int chunks, next; // the number of chunks in one pass through the network; the next one to fetch
	int into, from;   // the stages of the ring that are written and read next

	DEVICE_MEMBER void fetch(int thread) {
		const u8 *at = first + static_cast<u64>(next) * S::CHUNK;
#pragma unroll
		for (u32 i = 0; i < S::CHUNK; i += 16 * S::THREADS) copy_async(into * S::CHUNK + i + 16 * thread, at + i + 16 * thread);
		copy_commit();
		next = next + 1 == chunks ? 0 : next + 1;
		into = into + 1 == S::STAGES ? 0 : into + 1;
	}

	DEVICE_MEMBER void start(int thread) {
		next = into = from = 0;
		for (int i = 0; i < S::STAGES - 1; i++) fetch(thread);
	}

	// take waits for the next chunk and returns its offset. All threads have finished with the chunk before, so take starts
	// the copy of a later chunk into its place.
	DEVICE_MEMBER u32 take(int thread) {
		copy_wait<S::STAGES - 2>();
		sync_block();
		fetch(thread);
		u32 at = from * S::CHUNK;
		from = from + 1 == S::STAGES ? 0 : from + 1;
		return at;
	}
};

template <class S>
using Tile = float[S::M][S::N][4]; // the outputs of a warp

// Operands are the operands of one step, which multiplies 16 inputs.
template <class S>
struct Operands {
	u32 a[S::M][4];
	Quad b[S::N / 2];
};

// Rows are the rows whose addresses this thread gives to ldmatrix: rows 16*m + lane%16 of its warp's tile.
template <class S>
struct Rows {
	int row[S::M];
	u32 on[S::M]; // bit `tap` is set if the cell that this tap reads is on the board

	DEVICE_MEMBER static Rows of(const Job &job, const Lane &l) {
		Rows r;
#pragma unroll
		for (int m = 0; m < S::M; m++) {
			r.row[m] = l.row + 16 * m + l.lane % 16;
			r.on[m] = 0;
			if (r.row[m] >= job.boards * job.cells()) continue;
			int cell = r.row[m] % job.cells(), top = cell / job.columns, column = cell % job.columns;
			for (int tap = 0; tap < 9; tap++) {
				int h = top + tap / 3 - 1, w = column + tap % 3 - 1;
				if (h >= 0 && h < job.rows && w >= 0 && w < job.columns) r.on[m] |= 1 << tap;
			}
		}
		return r;
	}
};

// aim computes the offsets of a tap's rows of x or t, and the bits that are combined with their parts (line).
template <class S>
DEVICE void aim(u32 (&at)[S::M], int (&mix)[S::M], const Job &job, const Rows<S> &rows, u32 matrix, int tap) {
	int shift = (tap / 3 - 1) * job.columns + tap % 3 - 1;
#pragma unroll
	for (int m = 0; m < S::M; m++) {
		int row = rows.row[m] + shift;
		bool on = rows.on[m] >> tap & 1;
		at[m] = on ? matrix + row * S::LINE : S::ZEROS;
		mix[m] = row & 7; // for the line of zeros too: its parts are alike, and no two rows of a phase share banks
	}
}

// load_rows loads inputs k to k+15 of the rows.
template <class S>
DEVICE void load_rows(Operands<S> &x, const Lane &l, const u32 (&at)[S::M], const int (&mix)[S::M], int k) {
	u32 address[S::M];
#pragma unroll
	for (int m = 0; m < S::M; m++) address[m] = at[m] + (((k / 8 + l.lane / 16) ^ mix[m]) << 4);
	ldmatrix<S::M>(x.a, address);
}

template <class S>
DEVICE void load(Operands<S> &x, const Lane &l, const u32 (&at)[S::M], const int (&mix)[S::M], u32 chunk, int k, int step) {
	load_rows<S>(x, l, at, mix, k + 16 * step);
	u32 from = chunk + ((step * (S::C / 16) + l.column / 16) * 32 + l.lane) * 16;
#pragma unroll
	for (int n = 0; n < S::N / 2; n++) x.b[n] = shared<Quad>(from + n * 512);
}

// convolve multiplies x or t by the next weights of the stream and adds the products to a tile, for taps first_tap to end-1
// and this number of inputs. Tap 4 is the row itself.
template <class S>
DEVICE void convolve(Tile<S> &sum, Weights<S> &weights, const Job &job, const Lane &l, const Rows<S> &rows, u32 matrix, int first_tap, int end, int inputs) {
	for (int tap = first_tap; tap < end; tap++) {
		u32 at[S::M];
		int mix[S::M];
		aim<S>(at, mix, job, rows, matrix, tap);
		for (int k = 0; k < inputs; k += S::K) {
			u32 chunk = weights.take(l.thread);
			if (l.row >= job.boards * job.cells()) continue; // this warp's rows contain no board
			Operands<S> x[2];
			load<S>(x[0], l, at, mix, chunk, k, 0);
#pragma unroll
			for (int step = 0; step < S::K / 16; step++) {
				if (step + 1 < S::K / 16) load<S>(x[(step + 1) % 2], l, at, mix, chunk, k, step + 1);
				mma<S::M, S::N>(sum, x[step % 2].a, x[step % 2].b);
			}
		}
	}
}

// begin sets a tile to the biases of its columns.
template <class S>
DEVICE void begin(Tile<S> &sum, const Lane &lane, const float *bias) {
	Lane l = lane.afresh();
#pragma unroll
	for (int n = 0; n < S::N; n++) {
		int column = l.column + 8 * n + 2 * (l.lane % 4);
		float low = bias[column], high = bias[column + 1];
#pragma unroll
		for (int m = 0; m < S::M; m++) sum[m][n][0] = sum[m][n][2] = low, sum[m][n][1] = sum[m][n][3] = high;
	}
}

// add adds the residual stream to a tile.
template <class S>
DEVICE void add(Tile<S> &sum, const Lane &lane) {
	Lane l = lane.afresh();
#pragma unroll
	for (int m = 0; m < S::M; m++) {
#pragma unroll
		for (int n = 0; n < S::N; n++) {
			int row = l.row + 16 * m + l.lane / 4, column = l.column + 8 * n + 2 * (l.lane % 4);
			Floats2 upper = floats(pair<S>(S::X, row, column)), lower = floats(pair<S>(S::X, row + 8, column));
			sum[m][n][0] += upper.x, sum[m][n][1] += upper.y;
			sum[m][n][2] += lower.x, sum[m][n][3] += lower.y;
		}
	}
}

// finish writes relu(sum) to x or t.
template <class S>
DEVICE void finish(const Tile<S> &sum, const Lane &lane, u32 matrix) {
	Lane l = lane.afresh();
#pragma unroll
	for (int m = 0; m < S::M; m++) {
#pragma unroll
		for (int n = 0; n < S::N; n++) {
			const float *s = sum[m][n];
			int row = l.row + 16 * m + l.lane / 4, column = l.column + 8 * n + 2 * (l.lane % 4);
			pair<S>(matrix, row, column) = relu_f16x2(s[0], s[1]);
			pair<S>(matrix, row + 8, column) = relu_f16x2(s[2], s[3]);
		}
	}
}

// expand writes the stem's input for the group of boards that begins with `first` to t.
template <class S>
DEVICE void expand(const Job &job, int first, const Lane &l) {
	for (int row = l.thread; row < S::ROWS; row += S::THREADS) {
		int board = row / job.cells(), cell = row % job.cells();
		u64 planes = 0;
		if (board < job.boards)
			planes = neighbourhood(job, position(job, first + board), cell / job.columns, cell % job.columns);
#pragma unroll
		for (int part = 0; part < S::STEM / 8; part++) shared<Quad>(line<S>(S::T, row, part)) = stem_input(job, planes, part);
	}
}

// HeadOutput reads the output of the heads' convolution for one board from t.
template <class S>
struct HeadOutput {
	int first; // the row of the board's first cell
	DEVICE_MEMBER float operator()(int cell, int column) const {
		Floats2 two = floats(pair<S>(S::T, first + cell, column & ~1));
		return column & 1 ? two.y : two.x;
	}
};

// heads answers the group of boards that begins with `first`. Its intermediate results overwrite x. wait is a barrier of
// all threads that multiply. None is needed at the end: the results are overwritten after the barrier that precedes the
// stem's products.
template <class S, class Wait>
DEVICE void heads(const Job &job, const Parameters &p, int first, const Lane &l, Wait wait) {
	wait(); // all outputs of the heads' convolution are written
	Shared pooled{S::X};                                            // [boards][2V]
	Shared features = pooled.from(job.boards * 2 * job.head);       // [boards][F]
	Shared logits = features.from(job.boards * job.hidden);         // [boards][A]
	Shared weights = logits.from(job.boards * job.actions);         // [boards][A]
	Shared outcomes = weights.from(job.boards * job.actions);       // [boards][3]
	for (int i = l.thread; i < job.boards * job.head; i += S::THREADS) {
		int board = i / job.head;
		pool(job, pooled.from(board * 2 * job.head), i % job.head, HeadOutput<S>{board * job.cells()});
	}
	for (int i = l.thread; i < job.boards * job.actions; i += S::THREADS) {
		int board = i / job.actions;
		logits[i] = logit(job, p, position(job, first + board), i % job.actions, HeadOutput<S>{board * job.cells()});
	}
	wait();
	for (int i = l.thread; i < job.boards * job.hidden; i += S::THREADS)
		features[i] = hidden(job, p, pooled.from(i / job.hidden * 2 * job.head), i % job.hidden);
	wait();
	for (int i = l.thread; i < job.boards * 3; i += S::THREADS) outcomes[i] = outcome(job, p, features.from(i / 3 * job.hidden), i % 3);
	for (int i = l.thread; i < job.boards * job.actions; i += S::THREADS)
		weights[i] = weight(job, logits.from(i / job.actions * job.actions), i % job.actions);
	wait();
	for (int i = l.thread; i < job.boards * job.actions; i += S::THREADS) {
		int board = i / job.actions, of = board * job.actions;
		if (first + board < job.n) answer(job, first + board, i - of, outcomes.from(board * 3), logits.from(of), weights.from(of));
	}
}

// layers computes all layers of a group of boards, from the output of expand to that of the heads' convolution. It calls
// ready before each layer.
//
// Layer 0 is the stem, and the last layer is the heads' convolution. The even layers between them end a residual block.
// Even layers read t and write x, odd layers read x and write t.
template <class S, class Stream, class Ready>
DEVICE void layers(const Job &job, const Parameters &p, const Lane &l, const Rows<S> &rows, Stream &weights, Ready ready) {
	int last = 2 * job.blocks + 1;
	const float *bias = p.bias;
	for (int layer = 0; layer <= last; layer++, bias += S::C) {
		bool around = layer > 0 && layer < last, even = layer % 2 == 0;
		ready();
		Tile<S> sum;
		begin<S>(sum, l, bias);
		if (around && even) add<S>(sum, l);
		convolve<S>(sum, weights, job, l, rows, even ? S::T : S::X, around ? 0 : 4, around ? 9 : 5, layer == 0 ? S::STEM : S::C);
		finish<S>(sum, l, even ? S::X : S::T);
	}
}

template <class S>
DEVICE void tower(const Job &job) {
	Lane l = Lane::of<S>();
	Rows<S> rows = Rows<S>::of(job, l);
	for (u32 i = 16 * l.thread; i < S::LINE; i += 16 * S::THREADS) shared<Quad>(S::ZEROS + i) = {0, 0, 0, 0};

	Weights<S> weights;
	weights.first = job.weights;
	weights.chunks = (S::STEM + (2 * job.blocks * 9 + 1) * S::C) / S::K;
	Parameters p = parameters(job, reinterpret_cast<const float *>(job.weights + static_cast<u64>(weights.chunks) * S::CHUNK), S::C, S::C);
	weights.start(l.thread);

	for (int first = block_id() * job.boards; first < job.n; first += grid_size() * job.boards) {
		expand<S>(job, first, l);
		layers<S>(job, p, l, rows, weights, [] {}); // take has a barrier
		heads<S>(job, p, first, l, [] { sync_block(); });
	}
	copy_wait<0>();
}
