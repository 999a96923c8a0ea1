// A network of pattern tables for 7x6x4, with the CPU's bits. Package nn/pattern defines the rows of the table, and package
// kernels/cpu/pattern the arithmetic, which is all in integers. So an answer does not depend on the order of sums.
//
// A warp takes up to GROUP positions and works in four steps:
//
//	masks    lane p: the stones, playable cells and threats of position p
//	rows     lane g: the row of group g, for one position after another, with its factor
//	sums     PARTS lanes add the rows of one position, and 32 / PARTS positions are added at the same time
//	layers   lane o: output o of a dense layer, for TOGETHER positions
//	answers  lane p: the probabilities of position p
//
// A position reads 33 rows, so at large batches the memory that they come from (L2 where the table fits) is the limit.
//
// Two numbers of 16 bits are added at once in a word: low + 65536 * high, both signed. A carry out of the low half changes the
// high one, but the low half of the final sum is exact, and what it has carried can then be subtracted (low, high).
#pragma once

#include "board.h"

CONSTANT int EACH = 33;       // rows of a position
CONSTANT int LINES = 18;      // groups of rows of the board and diagonals; then 7 of columns, 7 of threats, 1 of stones
CONSTANT int TABLE_ROWS = 158974;
CONSTANT int RESULTS = 16;    // outputs of the last layer: 3 logits of the outcome, 7 of the moves, 6 unused
CONSTANT int GROUP = 16;      // positions of a warp at a time
CONSTANT int TOGETHER = 4;    // positions whose layers are computed together
CONSTANT int TABLE_WARPS = 8;
CONSTANT int SLOT = 52;       // words of a position: 36 for its rows, and 16 for its masks, and later its results
CONSTANT int MASKS = 36;      // the first of those 16
CONSTANT int FINE = 256, COARSE = 1664; // exp(-d / 4064) is coarse[d / 256] * fine[d % 256], and 0 beyond

// Group is how a line's row is found. It is the row first + the line's pattern.
struct Group {
	u64 mask, magic; // x >> start & mask * magic >> 36 has the line's bits in order
	u32 start, length, first, unused;
};

// TableShape is the shape of a network: the lanes of a row (the two halves of the accumulator, each padded with zeros, and then
// RESULTS), the bytes of a number, and the quads of 16 bytes that a lane of the warp reads of each row.
template <int LANES_, int BYTES_, int QUADS_>
struct TableShape {
	CONSTANT int LANES = LANES_, BYTES = BYTES_, QUADS = QUADS_;
	CONSTANT int ROW = LANES * BYTES;             // bytes
	CONSTANT int PARTS = ROW / (16 * QUADS);      // lanes of the warp that share a position
	CONSTANT int PAIRS = 16 / (2 * BYTES);        // pairs of numbers in a quad
	CONSTANT int INPUTS = LANES / 2;              // of the first layer; its last 8 weights are zeros, in place of RESULTS
	static_assert(PARTS <= 32 && 32 % PARTS == 0);
};

// Layout is where the parts of the packed weights begin, in bytes. The first FIXED bytes are copied to shared memory.
struct Layout {
	u32 dense[3], bias[3]; // weights [inputs / 16][outputs][16] int8, biases int32
	u32 fixed, groups, coarse, fine, factors, table;
	u32 inputs[3], outputs[3];
	u32 warp, activations; // bytes of a warp's shared memory, and of the activations of one position
};

template <class Shape>
DEVICE Layout layout(const Job &job) {
	Layout l;
	u32 widths[4] = {u32(Shape::INPUTS), u32(job.head), u32(job.hidden), u32(RESULTS)}, at = 4 * Shape::INPUTS;
	l.activations = Shape::INPUTS;
#pragma unroll
	for (int i = 0; i < 3; i++) {
		l.inputs[i] = widths[i], l.outputs[i] = widths[i + 1];
		l.dense[i] = at, at += l.inputs[i] * l.outputs[i];
		l.bias[i] = at, at += 4 * l.outputs[i];
		if (l.inputs[i] > l.activations) l.activations = l.inputs[i];
	}
	l.fixed = at;
	l.groups = at, at += LINES * sizeof(Group) + 16 * 4; // then the first rows of the other groups
	l.coarse = at, at += 4 * COARSE;
	l.fine = at, at += 4 * FINE;
	l.factors = at, at += TABLE_ROWS + 2; // a multiple of 16
	l.table = (at + 255) / 256 * 256;
	l.warp = 4 * SLOT * GROUP + 2 * TOGETHER * l.activations;
	return l;
}

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

CONSTANT u64 BOARD = 0xfdfbf7efdfbfull;                // all cells of 7x6: bit 7*column + row
CONSTANT u64 BOTTOM = 0x40810204081ull;                // the lowest cell of each column

// along returns the cells that complete four in a row in one direction, and the cells outside of the board among them.
DEVICE u64 along(u64 s, int d) {
	u64 below = s << d & s << 2 * d, above = s >> d & s >> 2 * d;
	return (below & (s << 3 * d | s >> d)) | (above & (s << d | s >> 3 * d));
}

DEVICE u64 completes(u64 s) { return (s << 1 & s << 2 & s << 3) | along(s, 6) | along(s, 7) | along(s, 8); }

// Masks is a position's bits, as steps exchange them.
struct Masks {
	u64 own, other, playable, wins, losses;
};

DEVICE u32 gather(const Group &g, u64 x) {
	return static_cast<u32>(((x >> g.start & g.mask) * g.magic) >> 36) & ((1u << g.length) - 1);
}

// row returns the row of one of the first 32 groups.
DEVICE u32 row(int lane, const Group &g, const Masks &m) {
	if (lane < LINES) {
		u32 next = gather(g, m.playable);
		return g.first + spread(gather(g, m.own) | next) + 2 * spread(gather(g, m.other) | next);
	}
	int shift = 7 * (lane < LINES + 7 ? lane - LINES : lane - LINES - 7);
	u64 all = m.own | m.other;
	u32 stones = static_cast<u32>(all >> shift) & 127;
	if (lane < LINES + 7) return g.first + (static_cast<u32>(m.own >> shift) & 127) + stones;
	int height = popcount(stones);
	u32 cells = (1u << (6 - height)) - 1;
	// The columns with fewer stones have 4096 + 1024 + ... patterns, so with h stones (4^7 - 4^(7-h)) / 3.
	u32 before = ((1u << 14) - (1u << (14 - 2 * height))) / 3;
	u32 wins = static_cast<u32>(m.wins >> (shift + height)) & cells, losses = static_cast<u32>(m.losses >> (shift + height)) & cells;
	return g.first + before + spread(wins) + 2 * spread(losses);
}

// Answers of 7x6: three probabilities and seven, as float32. Both upper bits of the first word are set, which no probability has
// and memory that no kernel wrote does not.
CONSTANT int ANSWER = 10;
CONSTANT u32 TABLE_ANSWERED = 3u << 30;

// probabilities writes the softmax of N logits to p. Only the legal ones count; the others get 0. Each operation is rounded once, in
// this order, as on the CPU (softmax in nn/pattern).
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

// dense computes a layer for P positions. Their inputs are at `in`, one position after another, activations bytes apart.
template <int P, class Store>
DEVICE void dense(const Layout &l, int layer, u32 in, Store store) {
	u32 outputs = l.outputs[layer];
	for (u32 o = thread_id() % 32; o < outputs; o += 32) {
		int sum[P];
		int bias = shared<int>(l.bias[layer] + 4 * o);
#pragma unroll
		for (int p = 0; p < P; p++) sum[p] = bias;
		u32 weights = l.dense[layer] + 16 * o;
		for (u32 i = 0; i < l.inputs[layer]; i += 16, weights += 16 * outputs) {
			Quad w = shared<Quad>(weights);
#pragma unroll
			for (int p = 0; p < P; p++) {
				Quad x = shared<Quad>(in + p * l.activations + i);
				sum[p] = dot(x.x, w.x, sum[p]), sum[p] = dot(x.y, w.y, sum[p]);
				sum[p] = dot(x.z, w.z, sum[p]), sum[p] = dot(x.w, w.w, sum[p]);
			}
		}
#pragma unroll
		for (int p = 0; p < P; p++) store(o, p, sum[p]);
	}
	sync_warp();
}

// layers computes the results of P positions from their first activations, and adds them to what sums has left in their slots.
template <int P>
DEVICE void layers(const Layout &l, u32 activations, u32 slot) {
	u32 other = activations + TOGETHER * l.activations;
	dense<P>(l, 0, activations, [&](u32 o, int p, int sum) { shared<u8>(other + p * l.activations + o) = clamp(sum >> 6, 127); });
	dense<P>(l, 1, other, [&](u32 o, int p, int sum) { shared<u8>(activations + p * l.activations + o) = clamp(sum >> 6, 127); });
	dense<P>(l, 2, activations, [&](u32 o, int p, int sum) { shared<int>(slot + 4 * (SLOT * p + MASKS + o)) += sum; });
}

// sums adds the rows of a position, whose slot is given, and writes its first activations, and 32 times the last 16 numbers.
template <class Shape>
DEVICE void sums(const u8 *table, u32 slot, u32 activations, u32 part) {
	CONSTANT int PAIRS = Shape::PAIRS, QUADS = Shape::QUADS, BATCH = QUADS == 1 ? 11 : 3;
	u32 sum[QUADS][PAIRS];
	u32 factors = 0;
#pragma unroll
	for (int q = 0; q < QUADS; q++)
#pragma unroll
		for (int i = 0; i < PAIRS; i++) sum[q][i] = shared<u32>(4 * (PAIRS * (q * Shape::PARTS + part) + i)); // the biases
#pragma unroll 1
	for (int first = 0; first < EACH; first += BATCH) {
		u32 rows[BATCH];
		Quad x[BATCH][QUADS];
#pragma unroll
		for (int k = 0; k < BATCH; k++) {
			rows[k] = shared<u32>(slot + 4 * (first + k));
			const u8 *from = table + static_cast<u64>(rows[k] & 0xffffff) * Shape::ROW + 16 * part;
#pragma unroll
			for (int q = 0; q < QUADS; q++) x[k][q] = read_quad(from + 16 * Shape::PARTS * q);
		}
#pragma unroll
		for (int k = 0; k < BATCH; k++) {
			u32 factor = rows[k] >> 24;
			factors += factor;
#pragma unroll
			for (int q = 0; q < QUADS; q++) {
				u32 words[4] = {x[k][q].x, x[k][q].y, x[k][q].z, x[k][q].w};
#pragma unroll
				for (int i = 0; i < 4; i++) {
					if (Shape::BYTES == 1) {
						sum[q][2 * i] += (words[i] & 0x00ff00ff) * factor;
						sum[q][(2 * i + 1) % PAIRS] += odd_bytes(words[i]) * factor;
					} else {
						sum[q][i] += words[i];
					}
				}
			}
		}
	}
#pragma unroll
	for (int q = 0; q < QUADS; q++) {
		u32 a[PAIRS];
		u32 pair = PAIRS * (q * Shape::PARTS + part);
#pragma unroll
		for (int i = 0; i < PAIRS; i++) {
			u32 x = sum[q][i];
			if (Shape::BYTES == 1) x -= factors * 0x00800080; // bytes are stored plus 128
			if (pair + i >= Shape::INPUTS - RESULTS / 2) {
				u32 result = 2 * (pair + i - (Shape::INPUTS - RESULTS / 2));
				shared<int>(slot + 4 * (MASKS + result)) = 32 * low(x);
				shared<int>(slot + 4 * (MASKS + result + 1)) = 32 * high(x);
			}
			a[i] = static_cast<u32>(clamp(low(x), 255) * clamp(high(x), 255)) >> 9;
		}
#pragma unroll
		for (int i = 0; i < PAIRS; i += 4)
			shared<u32>(activations + pair + i) = a[i] | a[i + 1] << 8 | a[i + 2] << 16 | a[i + 3] << 24;
	}
}

template <class Shape>
DEVICE void tables(const Job &job) {
	CONSTANT int AT_ONCE = 32 / Shape::PARTS; // positions whose rows are added at the same time
	u32 thread = thread_id(), lane = thread % 32, warp = thread / 32;
	Layout l = layout<Shape>(job);
	for (u32 i = 16 * thread; i < l.fixed; i += 16 * 32 * TABLE_WARPS) shared<Quad>(i) = read_quad(job.weights + i);
	Group g{};
	const Group *groups = reinterpret_cast<const Group *>(job.weights + l.groups);
	const u32 *firsts = reinterpret_cast<const u32 *>(groups + LINES);
	if (lane < LINES) g = groups[lane];
	else g.first = firsts[lane - LINES];
	u32 stones = firsts[EACH - 1 - LINES];
	const u8 *factors = job.weights + l.factors;
	const float *coarse = reinterpret_cast<const float *>(job.weights + l.coarse), *fine = reinterpret_cast<const float *>(job.weights + l.fine);
	sync_block();

	u32 slots = l.fixed + warp * l.warp, activations = slots + 4 * SLOT * GROUP;
	u32 most = job.boards / TABLE_WARPS; // positions for each warp
	for (u32 first = (block_id() * TABLE_WARPS + warp) * most; first < static_cast<u32>(job.n); first += grid_size() * TABLE_WARPS * most) {
		u32 count = job.n - first;
		if (count > most) count = most;
		u64 all = 0;
		if (lane < count) {
			Position p = position(job, first + lane);
			all = p.all[0];
			u64 own = p.own[0], other = all ^ own;
			Masks m{own, other, (all + BOTTOM) & BOARD, completes(own) & BOARD & ~all, completes(other) & BOARD & ~all};
			u32 slot = slots + 4 * SLOT * lane;
			shared<u64>(slot + 4 * MASKS) = m.own;
			shared<u64>(slot + 4 * MASKS + 8) = m.other;
			shared<u64>(slot + 4 * MASKS + 16) = m.playable;
			shared<u64>(slot + 4 * MASKS + 24) = m.wins;
			shared<u64>(slot + 4 * MASKS + 32) = m.losses;
			u32 last = stones + popcount(all);
			shared<u32>(slot + 4 * (EACH - 1)) = last | (Shape::BYTES == 1 ? factors[last] : 0) << 24;
		}
		sync_warp();
#pragma unroll 1
		for (u32 p = 0; p < count; p += TOGETHER) {
			u32 rows[TOGETHER], slot = slots + 4 * SLOT * p;
#pragma unroll
			for (int k = 0; k < TOGETHER; k++) { // beyond count are the masks of other positions, or none: any row will do
				u32 at = slot + 4 * (SLOT * k + MASKS);
				rows[k] = 0;
				if (p + k < count) rows[k] = row(lane, g, Masks{shared<u64>(at), shared<u64>(at + 8), shared<u64>(at + 16), shared<u64>(at + 24), shared<u64>(at + 32)});
			}
#pragma unroll
			for (int k = 0; k < TOGETHER; k++) shared<u32>(slot + 4 * (SLOT * k + lane)) = rows[k] | (Shape::BYTES == 1 ? factors[rows[k]] : 0) << 24;
		}
		sync_warp();
		for (u32 p = 0; p < count; p += TOGETHER) {
#pragma unroll 1
			for (u32 k = 0; k < TOGETHER && p + k < count; k += AT_ONCE) {
				u32 mine = k + lane / Shape::PARTS;
				if (p + mine < count && mine < TOGETHER)
					sums<Shape>(job.weights + l.table, slots + 4 * SLOT * (p + mine), activations + mine * l.activations, lane % Shape::PARTS);
			}
			sync_warp();
			if (count - p == 1)
				layers<1>(l, activations, slots + 4 * SLOT * p);
			else
				layers<TOGETHER>(l, activations, slots + 4 * SLOT * p);
		}
		u32 answer[ANSWER];
		if (lane < count) {
			u32 slot = slots + 4 * (SLOT * lane + MASKS);
			int outcomes[3], moves[7];
			float wdl[3], policy[7];
			u32 legal = 0;
#pragma unroll
			for (int i = 0; i < 3; i++) outcomes[i] = shared<int>(slot + 4 * i);
#pragma unroll
			for (int i = 0; i < 7; i++) {
				moves[i] = shared<int>(slot + 4 * (3 + i));
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
			for (int i = 0; i < ANSWER; i++) shared<u32>(slots + 4 * (ANSWER * lane + i)) = answer[i];
		sync_warp();
		for (u32 i = lane; i < ANSWER * count; i += 32) job.out[static_cast<u64>(ANSWER) * first + i] = shared<u32>(slots + 4 * i);
		sync_warp();
	}
}
