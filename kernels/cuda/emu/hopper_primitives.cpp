// Small kernels that check the emulation of Hopper's operations: emulate CASE ORDER. Most cases are one product with one mistake.
// The output is the product's result, or the emulation's message.
#include "../sm90.h"

#include <random>

static std::mt19937 numbers(1);

static void run(u32 order, u32 threads, u32 bytes, const std::function<void()> &body, const void *from = nullptr, size_t size = 0, u32 blocks = 1) {
	emu::run({blocks, threads, bytes, order, from, size, blocks}, body);
}

constexpr int M = 64, K = 64, N = 64;
constexpr u32 TILE = 16 * N * 2, TILES = 0, A = TILES + K / 16 * TILE, BARRIERS = A + M * K * 2, BYTES = BARRIERS + 64;

// plain computes a + b + i - j as the emulation does: one product after another, with ascending k.
static void plain(float (&c)[M][N], const float (&a)[M][K], const float (&b)[K][N]) {
	for (int i = 0; i < M; i++) {
		for (int j = 0; j < N; j++) {
			c[i][j] = i - j;
			for (int k = 0; k < K; k++) c[i][j] += a[i][k] * b[k][j];
		}
	}
}

// product multiplies 64x64 by 64x64 in one warpgroup, with the given mistake.
static void product(u32 order, const std::string &mistake) {
	static float a[M][K], b[K][N], want[M][N], got[M][N];
	for (auto &row : a) for (float &x : row) x = emu::from_f16(emu::to_f16(std::normal_distribution<float>()(numbers)));
	for (auto &row : b) for (float &x : row) x = emu::from_f16(emu::to_f16(std::normal_distribution<float>()(numbers)));
	plain(want, a, b);
	alignas(16) static uint16_t packed[K / 16][16][N];
	for (int k = 0; k < K; k++)
		for (int n = 0; n < N; n++)
			packed[k / 16][k % 16][mistake == "plain-rows" ? n : ((n / 8) ^ (k % 8)) * 8 + n % 8] = emu::to_f16(b[k][n]);
	auto is = [&](const char *name) { return mistake == name; };

	run(order, 128, BYTES, [&] {
		int thread = thread_id(), warp = thread / 32, lane = thread % 32, g = lane / 4, t = lane % 4;
		if (thread == 0) {
			barrier_init(BARRIERS, is("too-few-arrivals") ? 3 : 2);
			if (!is("barrier-unfenced")) fence_async();
			if (is("generic-write")) shared<u32>(TILES) = 0;
		}
		sync_block();
		if (is("generic-write") && thread == 1) fence_async(); // of another thread
		if (thread == 0) {
			barrier_expect(BARRIERS, is("bytes-too-few") ? TILE : is("bytes-too-many") ? 5 * TILE : 4 * TILE);
			for (int i = 0; i < 4; i++) copy_bulk(TILES + i * TILE, packed[i], TILE, BARRIERS);
			if (is("too-many-arrivals")) barrier_arrive(BARRIERS), barrier_arrive(BARRIERS);
		}
		if (thread == 127) barrier_arrive(BARRIERS);
		for (int k = 0; k < K / 2; k += 2) {
			int column = lane % 2 * K / 2 + k, row = warp * 16 + lane / 2;
			shared<u32>(A + (row * K + column) * 2) = emu::to_f16(a[row][column]) | emu::to_f16(a[row][column + 1]) << 16;
		}
		sync_warp();
		if (!is("no-wait")) barrier_wait(BARRIERS, is("wrong-parity") ? 1 : 0);

		Products c;
		Fragment x[2][1];
		for (int i = 0; i < 32; i++) c[i] = (16 * warp + g + i % 4 / 2 * 8) - (i / 4 * 8 + 2 * t + i % 2);
		u32 at[1] = {A + ((16 * warp + lane % 16) * K + lane / 16 * 8) * 2};
		auto load = [&](int step) {
			u32 from[1] = {at[0] + step * 32};
			ldmatrix<1>(x[step % 2], from);
		};
		auto start = [&](int step) {
			u64 b = tile(TILES + step * TILE);
			if (is("no-pattern")) b &= ~(u64(3) << 62);
			if (is("misplaced")) b += 1;
			if (is("wrong-stride")) b ^= u64(1) << 33;
			if (is("warps-differ") && warp == 2 && step == 3) b = tile(TILES);
			multiply(c, x[step % 2][0], b);
		};
		load(0), load(1);
		if (!is("no-fence")) multiply_fence();
		start(0);
		multiply_commit();
		if (is("early-sums") && thread == 0) printf("%s ", std::isnan(c[5]) ? "poison" : "early");
		if (is("sums-changed")) c[3] = 0;
		if (is("early-fragments")) load(0), load(2);
		start(1);
		multiply_commit();
		multiply_wait<1>(); // the first is computed, so its fragments may be loaded again
		load(2);
		if (!is("no-second-fence")) multiply_fence();
		start(2);
		multiply_commit();
		if (is("tile-changed") && thread == 0) {
			barrier_init(BARRIERS + 8, 1);
			fence_async();
			barrier_expect(BARRIERS + 8, TILE);
			copy_bulk(TILES + 2 * TILE, packed[0], TILE, BARRIERS + 8);
			barrier_wait(BARRIERS + 8, 0);
		}
		multiply_wait<1>();
		load(3);
		multiply_fence();
		if (!is("one-less") || warp != 3) start(3);
		if (!is("no-commit")) multiply_commit();
		if (!is("no-last-wait")) multiply_wait<0>();
		for (int i = 0; i < 32; i++) got[16 * warp + g + i % 4 / 2 * 8][i / 4 * 8 + 2 * t + i % 2] = c[i];
	}, packed, sizeof packed);
	printf("%s\n", memcmp(got, want, sizeof got) ? "differs" : "equal");
}

// rows_product multiplies 64x16 by 16x64 in one warpgroup, both from shared memory. The first row of the operand is the third of a larger
// matrix.
static void rows_product(u32 order, const std::string &mistake) {
	constexpr u32 PART = 16 * 80, A = TILE, BARRIER = A + 2 * PART, FIRST = 2;
	static float a[M][K], b[K][N], want[M][N], got[M][N];
	for (auto &row : a) for (float &x : row) x = emu::from_f16(emu::to_f16(std::normal_distribution<float>()(numbers)));
	alignas(16) static uint16_t packed[16][N];
	memset(b, 0, sizeof b);
	for (int k = 0; k < 16; k++) {
		for (int n = 0; n < N; n++) {
			b[k][n] = emu::from_f16(packed[k][(n / 8 ^ k % 8) * 8 + n % 8] = emu::to_f16(std::normal_distribution<float>()(numbers)));
		}
	}
	plain(want, a, b);
	auto is = [&](const char *name) { return mistake == name; };
	run(order, 128, BARRIER + 16, [&] {
		int thread = thread_id(), warp = thread / 32, lane = thread % 32, g = lane / 4, t = lane % 4;
		if (thread == 0) barrier_init(BARRIER, 1);
		for (int part = 0; part < 2 && thread < M; part++)
			for (int k = 0; k < 8; k += 2)
				shared<u32>(A + part * PART + 16 * (FIRST + thread) + 2 * k) = emu::to_f16(a[thread][8 * part + k]) | emu::to_f16(a[thread][8 * part + k + 1]) << 16;
		if (!is("rows-unfenced")) fence_async();
		if (is("rows-unfenced") && thread == 0) fence_async(); // of another thread
		sync_block();
		if (thread == 0) barrier_expect(BARRIER, TILE), copy_bulk(0, packed, TILE, BARRIER);
		barrier_wait(BARRIER, 0);
		Products c;
		for (int i = 0; i < 32; i++) c[i] = (16 * warp + g + i % 4 / 2 * 8) - (i / 4 * 8 + 2 * t + i % 2);
		u64 at = rows(A, is("rows-part") ? PART + 16 : PART) + (is("rows-shift") ? 1 : FIRST);
		if (is("rows-pattern")) at |= u64(1) << 62;
		multiply_fence();
		multiply_shared(c, at, tile(0));
		multiply_commit();
		if (is("rows-changed") && thread == 0) shared<u32>(A + 16 * FIRST) ^= 1, fence_async();
		multiply_wait<0>();
		for (int i = 0; i < 32; i++) got[16 * warp + g + i % 4 / 2 * 8][i / 4 * 8 + 2 * t + i % 2] = c[i];
	}, packed, sizeof packed);
	printf("%s\n", memcmp(got, want, sizeof got) ? "differs" : "equal");
}

// wide_product multiplies 64x16 by 16x256 in one warpgroup, with the distance between tiles right or wrong.
static void wide_product(u32 order, bool right) {
	constexpr int N = 256, K = 16;
	constexpr u32 A = K * N * 2, BARRIER = A + M * K * 2;
	static float a[M][K], b[K][N], want[M][N], got[M][N];
	for (auto &row : a) for (float &x : row) x = emu::from_f16(emu::to_f16(std::normal_distribution<float>()(numbers)));
	for (auto &row : b) for (float &x : row) x = emu::from_f16(emu::to_f16(std::normal_distribution<float>()(numbers)));
	alignas(16) static uint16_t packed[N / 64][K][64];
	for (int k = 0; k < K; k++)
		for (int n = 0; n < N; n++) packed[n / 64][k][(n % 64 / 8 ^ k % 8) * 8 + n % 8] = emu::to_f16(b[k][n]);
	for (int i = 0; i < M; i++) {
		for (int j = 0; j < N; j++) {
			want[i][j] = i - j;
			for (int k = 0; k < K; k++) want[i][j] += a[i][k] * b[k][j];
		}
	}
	run(order, 128, BARRIER + 16, [&] {
		int thread = thread_id(), warp = thread / 32, lane = thread % 32, g = lane / 4, t = lane % 4;
		if (thread == 0) barrier_init(BARRIER, 1), fence_async();
		sync_block();
		if (thread == 0) barrier_expect(BARRIER, sizeof packed), copy_bulk(0, packed, sizeof packed, BARRIER);
		for (int k = 0; k < K / 2; k += 2) {
			int column = lane % 2 * K / 2 + k, row = warp * 16 + lane / 2;
			shared<u32>(A + (row * K + column) * 2) = emu::to_f16(a[row][column]) | emu::to_f16(a[row][column + 1]) << 16;
		}
		sync_warp();
		barrier_wait(BARRIER, 0);
		WideProducts c;
		for (int i = 0; i < 128; i++) c[i / 4][i % 4] = (16 * warp + g + i % 4 / 2 * 8) - (i / 4 * 8 + 2 * t + i % 2);
		Fragment x[1];
		u32 at[1] = {A + ((16 * warp + lane % 16) * K + lane / 16 * 8) * 2};
		ldmatrix<1>(x, at);
		multiply_fence();
		multiply_wide(c, x[0], wide_tile(0, right ? 2048 : 1024));
		multiply_commit();
		multiply_wait<0>();
		for (int i = 0; i < 128; i++) got[16 * warp + g + i % 4 / 2 * 8][i / 4 * 8 + 2 * t + i % 2] = c[i / 4][i % 4];
	}, packed, sizeof packed);
	printf("%s\n", memcmp(got, want, sizeof got) ? "differs" : "equal");
}

// Three warps pass a word around, by a named barrier of two at a time, or without.
static void pairs(u32 order, bool barrier) {
	u32 seen[2];
	run(order, 96, 256, [&] {
		u32 me = thread_id(), warp = me / 32;
		if (warp == 2) return;
		if (me % 32 == 0) shared<u32>(4 * warp) = 10 + warp;
		if (barrier) sync_some(3, 64);
		if (me % 32 == 0) seen[warp] = shared<u32>(4 * (1 - warp));
	});
	printf("%x %x\n", seen[0], seen[1]);
}

// share makes two blocks of a cluster, of two warps each, send each other 16 bytes four times: each copies its own into the
// other, and again once that has read them. It prints a digit for each time and block: the value that its second warp has read.
static void share(u32 order, const std::string &mistake) {
	constexpr u32 READY = 64, FREE = 72, TIMES = 4;
	static u32 seen[TIMES][2];
	auto is = [&](const char *name) { return mistake == name; };
	run(order, 64, 80, [&] {
		u32 thread = thread_id(), rank = block_rank();
		if (thread == 0) {
			barrier_init(READY, 1), barrier_init(FREE, 1);
			fence_async();
			if (!is("share-hidden")) fence_barriers();
		}
		if (is("share-at-once")) sync_block();
		else sync_cluster();
		for (u32 i = 0; i < TIMES; i++) {
			if (thread == 0) {
				if (i > 0 && !is("share-not-free")) barrier_wait(FREE, ~i & 1);
				shared<Quad>(16 * rank) = {i + 1, i + 1, i + 1, i + 1};
				if (!is("share-unfenced")) fence_async();
				if (i > 0) barrier_wait(READY, ~i & 1); // one phase is announced at a time
				barrier_expect(READY, 16);
				copy_across(is("share-three") ? 2 : 1 - rank, 16 * rank, 16, READY);
				if (is("share-changed")) shared<u32>(16 * rank) = 9;
			}
			if (thread < 32) continue;
			barrier_wait(READY, i & 1);
			Quad got = shared<Quad>(16 * (1 - rank));
			seen[i][rank] = got.x == got.w ? got.x : 0;
			fence_async();
			sync_warp();
			if (thread == 32) barrier_arrive_at(1 - rank, FREE);
		}
		if (is("share-lonely-end") && rank == 1 && thread == 0) return;
		if (!is("share-no-end")) sync_cluster();
	}, nullptr, 0, 2);
	for (auto &of : seen) printf("%u%u ", of[0], of[1]);
	printf("\n");
}

// lost makes a thread wait for a phase that another phase has already followed.
static void lost(u32 order) {
	run(order, 64, 16, [] {
		if (thread_id() == 0) barrier_init(0, 1);
		sync_block();
		if (thread_id() == 0) barrier_arrive(0), barrier_arrive(0);
		sync_block();
		if (thread_id() == 32) barrier_wait(0, 0);
	});
}

int main(int count, char **arguments) {
	if (count != 3) emu::fail("want CASE ORDER");
	std::string name = arguments[1];
	u32 order = atoi(arguments[2]);
	if (name == "wide-product") wide_product(order, true);
	else if (name == "wide-wrong-distance") wide_product(order, false);
	else if (name.rfind("rows", 0) == 0) rows_product(order, name);
	else if (name.rfind("share", 0) == 0) share(order, name);
	else if (name == "lost") lost(order);
	else if (name == "pairs") pairs(order, true);
	else if (name == "no-pairs") pairs(order, false);
	else if (name == "registers") run(order, 384, 16, [] {
		if (thread_id() < 128) fewer_registers<24>();
		else more_registers<240>();
	});
	else if (name == "no-registers") run(order, 384, 16, [] {
		if (thread_id() >= 128) more_registers<240>();
	});
	else if (name == "lonely") run(order, 64, 16, [] { if (thread_id() < 32) sync_some(1, 64); });
	else if (name == "no-barrier") run(order, 32, 16, [] { barrier_arrive(0); });
	else if (name == "phases") {
		static u32 order_of[4], next;
		next = 0;
		run(order, 64, 16, [] { // two warps alternate, using two barriers
			if (thread_id() == 0) barrier_init(0, 1), barrier_init(8, 1);
			sync_block();
			for (u32 i = 0; i < 2; i++) {
				if (thread_id() == 0) order_of[next++] = 1, barrier_arrive(0), barrier_wait(8, i);
				if (thread_id() == 32) barrier_wait(0, i), order_of[next++] = 2, barrier_arrive(8);
			}
		});
		printf("%u%u%u%u\n", order_of[0], order_of[1], order_of[2], order_of[3]);
	} else product(order, name);
}
