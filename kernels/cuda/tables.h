// A network of pattern tables for 7x6x4, with the CPU's bits. Package nn/pattern defines the rows of the table, and package
// kernels/cpu/pattern the arithmetic, which is all in integers. So an answer does not depend on the order of sums.
//
// A warp takes up to GROUP positions and works in five steps:
//
//	masks    lane p: the stones, playable cells and threats of position p
//	rows     lane g: the row of group g and its factor, for one position after another
//	sums     PARTS lanes add the rows of one position, and 32 / PARTS positions are added at the same time
//	layers   the warp multiplies the activations of 8 or 16 positions by the weights of a layer
//	answers  lane p: the probabilities of position p
//
// A position reads 33 rows. Where the table fits the L2 cache, its bandwidth and the instructions of sums are the limit.
//
// Two numbers of 16 bits are added at once in a word: low + 65536 * high, both signed. A carry out of the low half changes the
// high one, but the low half of the final sum is exact, and what it has carried can then be subtracted (low, high).
#pragma once

#include "board.h"

CONSTANT int LINES = 18;       // groups of rows of the board and of diagonals; then 7 of columns, 7 of threats, and 1 of stones
CONSTANT int STONES = 32;      // the group of the number of stones
CONSTANT int TABLE_ROWS = 158974;
CONSTANT int RESULTS = 16;     // outputs of the last layer: 3 logits of the outcome, 7 of the moves, 6 unused
CONSTANT int GROUP = 16;       // positions of a warp at a time
CONSTANT int TABLE_WARPS = 8;
CONSTANT int FINE = 256, COARSE = 1664; // exp(-d / 4064) is coarse[d / 256] * fine[d % 256], and 0 beyond

// A position's slot in shared memory, in words: its 33 rows, their factors as bytes, and its masks. The results take the place of the
// masks. The activations of the second layer take the place of rows and factors, whose room grows if they need more.
CONSTANT int FACTORS = 33, SLOT_ROWS = 44, SLOT_MASKS = 16;

// Group is how the row of a group is found from two bitboards x and y. It is
//
//	first + above(h) + (spread(bits of x) + 2 * spread(bits of y)) / 4^h
//
// where the bits are x >> start & mask * magic >> 36, and h is 0 but for threats. The groups of columns do not spread them.
struct Group {
	u64 mask, magic;
	u32 start, bits, first, kind; // bits is a mask for the gathered bits
};
enum Kind : u32 { LINE, COLUMN, THREATS }; // also the place of x and y among the masks

// TableShape is the shape of a network: the lanes of a row (the two halves of the accumulator, each padded with zeros, and then
// RESULTS), the bytes of a number, and the quads of 16 bytes that a lane of the warp reads of each row.
template <int LANES_, int BYTES_, int QUADS_>
struct TableShape {
	CONSTANT int LANES = LANES_, BYTES = BYTES_, QUADS = QUADS_;
	CONSTANT int ROW = LANES * BYTES;         // bytes
	CONSTANT int PARTS = ROW / (16 * QUADS);  // lanes of the warp that share a position
	CONSTANT int PAIRS = 16 / (2 * BYTES);    // pairs of numbers in a quad
	CONSTANT int INPUTS = LANES / 2;          // of the first layer; its last 8 weights are zeros, in place of RESULTS
	static_assert(PARTS <= 32 && 32 % PARTS == 0);
};

// Layer is the place of a dense layer in shared memory, in bytes.
struct Layer {
	u32 weights; // [outputs / 8][inputs / 32][32 lanes] 8 bytes: see layer
	u32 bias;    // [outputs] int32
	u32 inputs, outputs;
	DEVICE_MEMBER u32 end() const { return bias + 4 * outputs; }
};

DEVICE Layer layer_at(u32 at, u32 inputs, u32 outputs) { return {at, at + inputs * outputs, inputs, outputs}; }

// low and high are the two numbers of a sum of pairs.
DEVICE int low(u32 pair) { return static_cast<short>(pair); }
DEVICE int high(u32 pair) { return static_cast<int>(pair - static_cast<u32>(low(pair))) >> 16; }

DEVICE int clamp(int x, int most) { return x < 0 ? 0 : x > most ? most : x; }

// spread moves bit i of x to bit 2i. x has at most 8 bits.
DEVICE u32 spread(u32 x) {
	x = (x | x << 4) & 0x0f0f;
	x = (x | x << 2) & 0x3333;
	return (x | x << 1) & 0x5555;
}

CONSTANT u64 BOARD = 0xfdfbf7efdfbfull; // all cells of 7x6: bit 7*column + row
CONSTANT u64 BOTTOM = 0x40810204081ull; // the lowest cell of each column

// along returns the cells that complete four in a row in one direction, and cells outside of the board among them.
DEVICE u64 along(u64 s, int d) {
	u64 below = s << d & s << 2 * d, above = s >> d & s >> 2 * d;
	return (below & (s << 3 * d | s >> d)) | (above & (s << d | s >> 3 * d));
}

DEVICE u64 completes(u64 s) { return (s << 1 & s << 2 & s << 3) | along(s, 6) | along(s, 7) | along(s, 8); }

// Two is x and y of a kind of groups.
struct alignas(16) Two {
	u64 x, y;
};

DEVICE u32 gather(const Group &g, u64 x) { return static_cast<u32>(((x >> g.start & g.mask) * g.magic) >> 36) & g.bits; }

// row returns the row of a lane's group, from a position's masks.
DEVICE u32 row(const Group &g, u32 masks) {
	Two of = shared<Two>(masks + 16 * g.kind);
	u64 all = shared<u64>(masks + 16 * COLUMN + 8);
	u32 x = gather(g, of.x), y = gather(g, of.y);
	if (g.kind != COLUMN) x = spread(x), y = 2 * spread(y);
	u32 height = g.kind == THREATS ? popcount(all >> g.start & 127) : 0;
	// Columns with fewer stones have 4^6 + 4^5 + ... patterns.
	u32 above = ((1u << 14) - (1u << (14 - 2 * height))) / 3;
	return g.first + above + ((x + y) >> (2 * height));
}

// Answers of 7x6: three probabilities and seven, as float32. Both upper bits of the first word are set, which no probability has
// and memory that no kernel wrote does not.
CONSTANT int ANSWER = 10;
CONSTANT u32 TABLE_ANSWERED = 3u << 30;

// probabilities writes the softmax of N logits to p. Only the legal ones count; the others get 0. Each operation is rounded once, in
// this order, as on the CPU (Softmax in nn/pattern).
template <int N>
DEVICE void probabilities(float (&p)[N], const int (&logits)[N], u32 legal, const float *coarse, const float *fine) {
	int most = -2147483647 - 1;
#pragma unroll
	for (int i = 0; i < N; i++)
		if (legal >> i & 1 && logits[i] > most) most = logits[i];
	float sum = 0;
#pragma unroll
	for (int i = 0; i < N; i++) {
		u32 d = static_cast<u32>(most) - static_cast<u32>(logits[i]);
		p[i] = legal >> i & 1 && d < FINE * COARSE ? coarse[d / FINE] * fine[d % FINE] : 0;
		sum += p[i];
	}
#pragma unroll
	for (int i = 0; i < N; i++) p[i] = p[i] / sum;
}

// layer multiplies the activations of 8*M positions, stride bytes apart, by 8*N columns of weights at a time. store(p, o, x, y) gets
// outputs o and o + 1 of position p. For each 8 outputs and 32 inputs, the weights have two words for each lane, as mma_bytes wants them:
// the first 16 inputs, and the others.
template <int M, int N, class Store>
DEVICE void layer(const Layer &l, u32 in, u32 stride, Store store) {
	u32 lane = thread_id() % 32, g = lane / 4, t = lane % 4;
	u32 weights = l.weights + 8 * lane, across = 8 * l.inputs; // bytes of weights for 8 outputs
#pragma unroll 1
	for (u32 o = 0; o < l.outputs; o += 8 * N) {
		int sum[M][N][2];
#pragma unroll
		for (int n = 0; n < N; n++) {
#pragma unroll
			for (int i = 0; i < 2; i++) {
				int bias = shared<int>(l.bias + 4 * (o + 8 * n + 2 * t + i));
#pragma unroll
				for (int m = 0; m < M; m++) sum[m][n][i] = bias;
			}
		}
#pragma unroll 1
		for (u32 k = 0; k < l.inputs; k += 32) {
			u32 a[M][2];
#pragma unroll
			for (int m = 0; m < M; m++)
#pragma unroll
				for (int i = 0; i < 2; i++) a[m][i] = shared<u32>(in + (8 * m + g) * stride + k + 16 * i + 4 * t);
#pragma unroll
			for (int n = 0; n < N; n++) {
				u64 w = shared<u64>(weights + (o / 8 + n) * across + 8 * k);
#pragma unroll
				for (int m = 0; m < M; m++) {
					mma_bytes(sum[m][n], a[m][0], static_cast<u32>(w));
					mma_bytes(sum[m][n], a[m][1], static_cast<u32>(w >> 32));
				}
			}
		}
#pragma unroll
		for (int m = 0; m < M; m++)
#pragma unroll
			for (int n = 0; n < N; n++) store(8 * m + g, o + 8 * n + 2 * t, sum[m][n][0], sum[m][n][1]);
	}
	sync_warp();
}

// Warp is the shared memory of a warp.
struct Warp {
	u32 slots, slot; // the first slot, and bytes of a slot
	u32 masks;       // bytes from a slot to its masks, or to its results
	u32 activations; // the first position's
	u32 stride;      // bytes from a position's activations to those of the next one

	DEVICE_MEMBER u32 at(u32 p) const { return slots + p * slot; }
};

DEVICE u16 hidden(int x, int y) { return clamp(x >> 6, 127) | clamp(y >> 6, 127) << 8; }

// layers computes the results of 8*M positions from their first activations, and adds them to what sums has left in their slots.
template <int M>
DEVICE void layers(const Layer (&l)[3], const Warp &w) {
	layer<M, 4>(l[0], w.activations, w.stride, [&](u32 p, u32 o, int x, int y) { shared<u16>(w.at(p) + o) = hidden(x, y); });
	layer<M, 4>(l[1], w.slots, w.slot, [&](u32 p, u32 o, int x, int y) { shared<u16>(w.activations + p * w.stride + o) = hidden(x, y); });
	layer<M, 2>(l[2], w.activations, w.stride, [&](u32 p, u32 o, int x, int y) {
		u32 result = w.at(p) + w.masks + 4 * o;
		shared<int>(result) += x, shared<int>(result + 4) += y;
	});
}

// Sums are a lane's sums of pairs.
template <class Shape>
struct Sums {
	u32 pairs[Shape::QUADS][Shape::PAIRS];

	// add adds a lane's part of a row, times its factor. Bytes are stored plus 128.
	DEVICE_MEMBER void add(const Quad (&x)[Shape::QUADS], u32 factor) {
#pragma unroll
		for (int q = 0; q < Shape::QUADS; q++) {
			u32 words[4] = {x[q].x, x[q].y, x[q].z, x[q].w};
#pragma unroll
			for (int i = 0; i < 4; i++) {
				if (Shape::BYTES == 1) {
					pairs[q][2 * i % Shape::PAIRS] += (words[i] & 0x00ff00ff) * factor;
					pairs[q][(2 * i + 1) % Shape::PAIRS] += odd_bytes(words[i]) * factor;
				} else {
					pairs[q][i] += words[i];
				}
			}
		}
	}
};

template <class Shape>
DEVICE void read(Quad (&x)[Shape::QUADS], const u8 *table, u32 row) {
	const u8 *from = table + static_cast<u64>(row) * Shape::ROW;
#pragma unroll
	for (int q = 0; q < Shape::QUADS; q++) x[q] = read_quad(from + 16 * Shape::PARTS * q);
}

// sums adds the rows of the position in a slot, and writes its activations, and 32 times the last 16 numbers. table is the lane's part of
// the table.
template <class Shape>
DEVICE void sums(const u8 *table, u32 slot, u32 masks, u32 activations, u32 part) {
	CONSTANT int PAIRS = Shape::PAIRS, QUADS = Shape::QUADS, BATCH = 8 / QUADS;
	Sums<Shape> sum;
	Quad x[BATCH][QUADS];
	read<Shape>(x[0], table, shared<u32>(slot + 4 * STONES));
#pragma unroll
	for (int q = 0; q < QUADS; q++)
#pragma unroll
		for (int i = 0; i < PAIRS; i++) sum.pairs[q][i] = shared<u32>(4 * (PAIRS * (q * Shape::PARTS + part) + i)); // the biases
	u32 factors = shared<u8>(slot + 4 * FACTORS + STONES);
	sum.add(x[0], factors);
#pragma unroll
	for (int first = 0; first < STONES; first += BATCH) {
		u32 four[BATCH / 4];
#pragma unroll
		for (int k = 0; k < BATCH; k++) {
			read<Shape>(x[k], table, shared<u32>(slot + 4 * (first + k)));
			if (k % 4 == 0) four[k / 4] = shared<u32>(slot + 4 * FACTORS + first + k);
		}
#pragma unroll
		for (int k = 0; k < BATCH; k++) {
			if (Shape::BYTES == 1 && k % 4 == 0) factors = dot(four[k / 4], 0x01010101, factors);
			sum.add(x[k], four[k / 4] >> (8 * (k % 4)) & 255);
		}
	}
	sync_warp(); // the results take the place of masks that other lanes have read
#pragma unroll
	for (int q = 0; q < QUADS; q++) {
		u32 a[PAIRS];
		u32 pair = PAIRS * (q * Shape::PARTS + part);
#pragma unroll
		for (int i = 0; i < PAIRS; i++) {
			u32 x = sum.pairs[q][i];
			if (Shape::BYTES == 1) x -= factors * 0x00800080;
			if (pair + i >= Shape::INPUTS - RESULTS / 2) {
				u32 result = slot + masks + 8 * (pair + i - (Shape::INPUTS - RESULTS / 2));
				shared<int>(result) = 32 * low(x), shared<int>(result + 4) = 32 * high(x);
			}
			a[i] = static_cast<u32>(clamp(low(x), 255) * clamp(high(x), 255)) >> 9;
		}
#pragma unroll
		for (int i = 0; i < PAIRS; i += 4) shared<u32>(activations + pair + i) = a[i] | a[i + 1] << 8 | a[i + 2] << 16 | a[i + 3] << 24;
	}
}

template <class Shape>
DEVICE void tables(const Job &job) {
	CONSTANT int AT_ONCE = 32 / Shape::PARTS; // positions whose rows are added at the same time
	u32 thread = thread_id(), lane = thread % 32;
	// The packed weights: what shared memory holds, the groups, the exponentials, the factors, the table.
	Layer l[3];
	l[0] = layer_at(4 * Shape::INPUTS, Shape::INPUTS, job.head);
	l[1] = layer_at(l[0].end(), job.head, job.hidden);
	l[2] = layer_at(l[1].end(), job.hidden, RESULTS);
	const u8 *weights = job.weights, *groups = weights + l[2].end();
	const float *coarse = reinterpret_cast<const float *>(groups + 32 * sizeof(Group) + 16), *fine = coarse + COARSE;
	const u8 *factors = reinterpret_cast<const u8 *>(fine + FINE);
	const u8 *table = weights + ((factors - weights) + TABLE_ROWS + 255) / 256 * 256 + 16 * (lane % Shape::PARTS);

	for (u32 i = 16 * thread; i < l[2].end(); i += 16 * 32 * TABLE_WARPS) shared<Quad>(i) = read_quad(weights + i);
	Group g = reinterpret_cast<const Group *>(groups)[lane];
	u32 stones = *reinterpret_cast<const u32 *>(groups + 32 * sizeof(Group));
	sync_block();

	Warp w;
	w.masks = 4 * SLOT_ROWS;
	if (l[1].inputs > w.masks) w.masks = l[1].inputs;
	w.slot = w.masks + 4 * SLOT_MASKS;
	w.stride = 16 + (l[2].inputs > u32(Shape::INPUTS) ? l[2].inputs : Shape::INPUTS); // 16 bytes more, so that rows are in other banks
	w.slots = l[2].end() + thread / 32 * GROUP * (w.slot + w.stride);
	w.activations = w.slots + GROUP * w.slot;
	u32 most = job.boards / TABLE_WARPS; // positions for each warp
	for (u32 first = (block_id() * TABLE_WARPS + thread / 32) * most; first < static_cast<u32>(job.n); first += grid_size() * TABLE_WARPS * most) {
		u32 count = job.n - first;
		if (count > most) count = most;
		u64 all = 0;
		if (lane < count) {
			Position p = position(job, first + lane);
			all = p.all[0];
			u64 own = p.own[0], other = all ^ own, playable = (all + BOTTOM) & BOARD, open = BOARD & ~all;
			u32 slot = w.at(lane), masks = slot + w.masks;
			shared<Two>(masks + 16 * LINE) = {own | playable, other | playable};
			shared<Two>(masks + 16 * COLUMN) = {own, all};
			shared<Two>(masks + 16 * THREATS) = {completes(own) & open, completes(other) & open};
			u32 last = stones + popcount(all);
			shared<u32>(slot + 4 * STONES) = last;
			shared<u8>(slot + 4 * FACTORS + STONES) = factors[last];
		}
		sync_warp();
#pragma unroll 1
		for (u32 p = 0; p < count; p += 4) {
			u32 rows[4];
#pragma unroll
			for (int k = 0; k < 4; k++) rows[k] = row(g, w.at(p + k) + w.masks); // beyond count are old masks, or none: any row will do
#pragma unroll
			for (int k = 0; k < 4; k++) {
				shared<u32>(w.at(p + k) + 4 * lane) = rows[k];
				shared<u8>(w.at(p + k) + 4 * FACTORS + lane) = p + k < count ? factors[rows[k]] : 0;
			}
		}
		sync_warp();
#pragma unroll 1
		for (u32 p = 0; p < count; p += AT_ONCE) {
			u32 mine = p + lane / Shape::PARTS;
			if (mine >= count) mine = count - 1; // the warp stays together, and the last position may be added twice
			sums<Shape>(table, w.at(mine), w.masks, w.activations + mine * w.stride, lane % Shape::PARTS);
		}
		sync_warp();
		if (count <= 8)
			layers<1>(l, w);
		else
			layers<2>(l, w);

		u32 answer[ANSWER];
		if (lane < count) {
			u32 results = w.at(lane) + w.masks;
			int outcomes[3], moves[7];
			float wdl[3], policy[7];
			u32 legal = 0;
#pragma unroll
			for (int i = 0; i < 3; i++) outcomes[i] = shared<int>(results + 4 * i);
#pragma unroll
			for (int i = 0; i < 7; i++) {
				moves[i] = shared<int>(results + 4 * (3 + i));
				legal |= static_cast<u32>(~all >> (7 * i + 5) & 1) << i;
			}
			probabilities(wdl, outcomes, 7, coarse, fine);
			probabilities(policy, moves, legal, coarse, fine);
#pragma unroll
			for (int i = 0; i < 3; i++) answer[i] = float_bits(wdl[i]) | (i == 0 ? TABLE_ANSWERED : 0);
#pragma unroll
			for (int i = 0; i < 7; i++) answer[3 + i] = float_bits(policy[i]);
		}
		sync_warp();
		// Answers are written through shared memory, so that the warp writes consecutive words.
		if (lane < count)
#pragma unroll
			for (int i = 0; i < ANSWER; i++) shared<u32>(w.slots + 4 * (ANSWER * lane + i)) = answer[i];
		sync_warp();
		for (u32 i = lane; i < ANSWER * count; i += 32) job.out[static_cast<u64>(ANSWER) * first + i] = shared<u32>(w.slots + 4 * i);
		sync_warp();
	}
}
