// The network in one launch, for networks and GPUs that tower.h cannot serve: any number of channels, heads of any width,
// little shared memory. A block of threads processes one board at a time. It keeps the activations in global memory, in
// practice in the L2 cache. This kernel is slow and simple.
#include "heads.h"

CONSTANT int WARPS = 8, THREADS = 32 * WARPS;
CONSTANT int MAX_ROWS = 128; // no board has more cells
CONSTANT int STEM = 48;      // inputs of the stem: 9 taps x 5 planes, and zeros

// Layer is one convolution. It has [cells][inputs] fp16 as its input and `columns` outputs for each cell.
struct Layer {
	const u8 *weights; // [taps * inputs / 16][columns / 16][32] Quad
	const float *bias;
	int taps, inputs, columns;

	DEVICE_MEMBER u64 bytes() const { return 2ull * taps * inputs * columns; }
};

// pair returns two adjacent fp16 of a row, or 0 if `on` is false: then the row is not on the board.
DEVICE u32 pair(const u8 *x, int inputs, int row, int channel, bool on) {
	return on ? *reinterpret_cast<const u32 *>(x + 2 * (static_cast<u64>(row) * inputs + channel)) : 0;
}

// on reports whether the cell that a tap reads for a row is on the board.
DEVICE bool on(const Job &job, int row, int taps, int tap) {
	if (row >= job.cells()) return false;
	if (taps == 1) return true;
	int top = row / job.columns + tap / 3 - 1, column = row % job.columns + tap % 3 - 1;
	return top >= 0 && top < job.rows && column >= 0 && column < job.columns;
}

// convolve computes one layer. A warp computes 16 rows by 16 columns at a time. start(row, column) returns two numbers,
// which are added to the biases of that column and the next one. store(row, column, x, y) receives their sums. Both are
// called only for rows of the board.
template <class Start, class Store>
DEVICE void convolve(const Job &job, const Layer &layer, const u8 *x, Start start, Store store) {
	int warp = thread_id() / 32, lane = thread_id() % 32, g = lane / 4, t = lane % 4;
	int across = layer.columns / 16, tiles = (job.cells() + 15) / 16 * across;
	for (int tile = warp; tile < tiles; tile += WARPS) {
		int row = tile / across * 16 + g, column = tile % across * 16 + 2 * t;
		float sum[1][2][4];
		for (int n = 0; n < 2; n++) {
			for (int i = 0; i < 4; i += 2) {
				int r = row + i / 2 * 8, c = column + 8 * n;
				if (r >= job.cells()) {
					sum[0][n][i] = sum[0][n][i + 1] = 0;
					continue;
				}
				Floats2 before = start(r, c);
				sum[0][n][i] = layer.bias[c] + before.x, sum[0][n][i + 1] = layer.bias[c + 1] + before.y;
			}
		}
		for (int tap = 0; tap < layer.taps; tap++) {
			int shift = layer.taps == 9 ? (tap / 3 - 1) * job.columns + tap % 3 - 1 : 0;
			bool on0 = on(job, row, layer.taps, tap), on8 = on(job, row + 8, layer.taps, tap);
			for (int k = 0; k < layer.inputs; k += 16) {
				u32 a[1][4] = {{
					pair(x, layer.inputs, row + shift, k + 2 * t, on0),
					pair(x, layer.inputs, row + 8 + shift, k + 2 * t, on8),
					pair(x, layer.inputs, row + shift, k + 2 * t + 8, on0),
					pair(x, layer.inputs, row + 8 + shift, k + 2 * t + 8, on8),
				}};
				u64 step = static_cast<u64>(tap * layer.inputs + k) / 16 * across + tile % across;
				Quad b[1] = {*reinterpret_cast<const Quad *>(layer.weights + (step * 32 + lane) * 16)};
				mma<1, 2>(sum, a, b);
			}
		}
		for (int n = 0; n < 2; n++)
			for (int i = 0; i < 4; i += 2)
				if (row + i * 4 < job.cells()) store(row + i * 4, column + 8 * n, sum[0][n][i], sum[0][n][i + 1]);
	}
	sync_block();
}

// Scratch is a block's memory. fit in nn/gpu computes its size.
struct Scratch {
	u8 *planes, *x, *t; // [MAX_ROWS][STEM], and two of [MAX_ROWS][channels]; fp16; see tower.h
	float *heads;       // [MAX_ROWS][columns]
	float *pooled, *features, *logits, *weights, *outcomes; // [2V], [F], [A], [A], [3]
};

DEVICE Scratch scratch(const Job &job, int columns) {
	Scratch s;
	s.planes = job.scratch + block_id() * job.scratch_bytes;
	s.x = s.planes + 2 * MAX_ROWS * STEM;
	s.t = s.x + 2 * MAX_ROWS * job.channels;
	s.heads = reinterpret_cast<float *>(s.t + 2 * MAX_ROWS * job.channels);
	s.pooled = s.heads + MAX_ROWS * columns;
	s.features = s.pooled + 2 * job.head;
	s.logits = s.features + job.hidden;
	s.weights = s.logits + job.actions;
	s.outcomes = s.weights + job.actions;
	return s;
}

struct GlobalHead {
	const float *values;
	int columns;
	DEVICE_MEMBER float operator()(int cell, int column) const { return values[cell * columns + column]; }
};

DEVICE void any(const Job &job) {
	int thread = thread_id(), channels = job.channels, columns = (2 * job.head + 15) / 16 * 16;
	Scratch s = scratch(job, columns);
	Layer stem{job.weights, nullptr, 1, STEM, channels}, conv{nullptr, nullptr, 9, channels, channels};
	Layer head{nullptr, nullptr, 1, channels, columns};
	const u8 *blocks = stem.weights + stem.bytes();
	head.weights = blocks + 2 * job.blocks * conv.bytes();
	Parameters p = parameters(job, reinterpret_cast<const float *>(head.weights + head.bytes()), channels, columns);
	stem.bias = p.bias;
	head.bias = p.head;

	auto at = [&](u8 *matrix, int row, int column) -> u32 & {
		return *reinterpret_cast<u32 *>(matrix + 2 * (row * channels + column));
	};
	auto nothing = [](int, int) -> Floats2 { return {0, 0}; };
	auto residual = [&](int row, int column) -> Floats2 { return floats(at(s.x, row, column)); };
	auto to_t = [&](int row, int column, float x, float y) { at(s.t, row, column) = relu_f16x2(x, y); };
	auto to_x = [&](int row, int column, float x, float y) { at(s.x, row, column) = relu_f16x2(x, y); };
	auto to_heads = [&](int row, int column, float x, float y) {
		s.heads[row * columns + column] = relu(x);
		s.heads[row * columns + column + 1] = relu(y);
	};

	for (int i = block_id(); i < job.n; i += grid_size()) {
		Position board = position(job, i);
		for (int cell = thread; cell < job.cells(); cell += THREADS) {
			u64 planes = neighbourhood(job, board, cell / job.columns, cell % job.columns);
			Quad *to = reinterpret_cast<Quad *>(s.planes + 2 * STEM * cell);
#pragma unroll
			for (int part = 0; part < STEM / 8; part++) to[part] = stem_input(job, planes, part);
		}
		sync_block();
		convolve(job, stem, s.planes, nothing, to_x);
		for (int layer = 0; layer < 2 * job.blocks; layer++) {
			conv.weights = blocks + layer * conv.bytes();
			conv.bias = p.bias + (1 + layer) * channels;
			if (layer % 2 == 0)
				convolve(job, conv, s.x, nothing, to_t);
			else
				convolve(job, conv, s.t, residual, to_x);
		}
		convolve(job, head, s.x, nothing, to_heads);

		GlobalHead output{s.heads, columns};
		for (int v = thread; v < job.head; v += THREADS) pool(job, Global{s.pooled}, v, output);
		for (int a = thread; a < job.actions; a += THREADS) s.logits[a] = logit(job, p, board, a, output);
		sync_block();
		for (int f = thread; f < job.hidden; f += THREADS) s.features[f] = hidden(job, p, Global{s.pooled}, f);
		sync_block();
		if (thread < 3) s.outcomes[thread] = outcome(job, p, Global{s.features}, thread);
		for (int a = thread; a < job.actions; a += THREADS) s.weights[a] = weight(job, Global{s.logits}, a);
		sync_block();
		for (int a = thread; a < job.actions; a += THREADS) answer(job, i, a, Global{s.outcomes}, Global{s.logits}, Global{s.weights});
	}
}

KERNEL(tower_any, 256)(Job job) { any(job); }
