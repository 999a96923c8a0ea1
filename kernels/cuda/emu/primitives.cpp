// Small kernels that check the emulation itself: emulate CASE ORDER. Each case is one kernel and prints its results.
#include "../device.h"

#include <random>

static std::mt19937 numbers(1);
static float random_f16() {
	return emu::from_f16(emu::to_f16(std::normal_distribution<float>()(numbers)));
}
static u32 f16x2(float low, float high) { return emu::to_f16(low) | emu::to_f16(high) << 16; }

static void run(u32 order, u32 threads, u32 bytes, const std::function<void()> &body, const void *from = nullptr, size_t size = 0) {
	emu::run({1, threads, bytes, order, from, size}, body);
}

// A product of 32x32 by 32x16 through shared memory is exactly equal to that of the plain loop.
static void product(u32 order) {
	constexpr int M = 32, K = 32, N = 16;
	static float a[M][K], b[K][N], want[M][N], got[M][N];
	for (auto &row : a) for (float &x : row) x = random_f16();
	for (auto &row : b) for (float &x : row) x = random_f16();
	for (int i = 0; i < M; i++) {
		for (int j = 0; j < N; j++) {
			want[i][j] = i - j;
			for (int k = 0; k < K; k++) want[i][j] += a[i][k] * b[k][j];
		}
	}
	run(order, 32, M * K * 2, [&] {
		int lane = thread_id(), g = lane / 4, t = lane % 4;
		for (int k = 0; k < K; k += 2) shared<u32>((lane * K + k) * 2) = f16x2(a[lane][k], a[lane][k + 1]);
		sync_block();
		float c[2][2][4];
		for (int m = 0; m < 2; m++)
			for (int n = 0; n < 2; n++)
				for (int i = 0; i < 4; i++) c[m][n][i] = (16 * m + g + i / 2 * 8) - (8 * n + 2 * t + i % 2);
		for (int k = 0; k < K; k += 16) {
			u32 x[2][4], at[2];
			for (int m = 0; m < 2; m++) at[m] = ((16 * m + lane % 16) * K + k + lane / 16 * 8) * 2;
			ldmatrix<2>(x, at);
			const float(*w)[N] = &b[k];
			Quad y[1] = {{f16x2(w[2 * t][g], w[2 * t + 1][g]), f16x2(w[2 * t + 8][g], w[2 * t + 9][g]),
				f16x2(w[2 * t][g + 8], w[2 * t + 1][g + 8]), f16x2(w[2 * t + 8][g + 8], w[2 * t + 9][g + 8])}};
			mma<2, 2>(c, x, y);
		}
		for (int m = 0; m < 2; m++)
			for (int n = 0; n < 2; n++)
				for (int i = 0; i < 4; i++) got[16 * m + g + i / 2 * 8][8 * n + 2 * t + i % 2] = c[m][n][i];
	});
	printf("%s\n", memcmp(got, want, sizeof got) ? "differs" : "equal");
}

// relu_f16x2 returns the nearest fp16, ties to even. Negative numbers become 0, and numbers nearer to 2^16 than to the largest
// fp16 become NaN.
static void rounding(u32) {
	constexpr u32 END = 0x7c00; // above the greatest fp16
	static double values[END + 1];
	for (u32 half = 0; half < END; half++)
		values[half] = half < 1024 ? std::ldexp(half, -24) : std::ldexp(1024 + half % 1024, int(half / 1024) - 25);
	values[END] = 65536;
	int wrong = 0;
	for (int i = 0; i < 1000000; i++) {
		u32 bits = numbers() % 0x48000000 | (i % 5 == 0 ? 0x80000000 : 0); // to beyond 2^16, and to the negative of that
		if (i % 3 == 0) bits = (bits & 0xffffe000) | 0x1000;               // a tie of all but the smallest
		double x = std::bit_cast<float>(bits);
		u32 above = std::upper_bound(values, values + END, std::max(x, 0.0)) - values, below = above - 1;
		double down = x - values[below], up = values[above] - x;
		u32 nearest = down < up || (down == up && below % 2 == 0) ? below : above;
		u32 want = x < 0 ? 0 : x >= 65536 || nearest == END ? 0x7fff : nearest;
		wrong += relu_f16x2(float(x), 1) != (want | 0x3c000000);
		Floats2 back = floats(want << 16 | 0xbc00);
		wrong += back.x != -1 || (want != 0x7fff && back.y != values[want]);
	}
	wrong += relu_f16x2(NAN, INFINITY) != 0x7fff7fff || relu_f16x2(-INFINITY, 65504) != 0x7bff0000;
	printf("%d wrong\n", wrong);
}

// Copies arrive when their group is waited for, not before.
static void copies(u32 order) {
	static Quad from[2] = {{1, 2, 3, 4}, {5, 6, 7, 8}};
	run(order, 32, 32 * 32, [&] {
		u32 at = thread_id() * 32;
		copy_async(at, &from[0]);
		copy_commit();
		copy_async(at + 16, &from[1]);
		copy_commit();
		u32 a = shared<u32>(at), b = shared<u32>(at + 16);
		copy_wait<1>();
		u32 c = shared<u32>(at), d = shared<u32>(at + 16);
		copy_wait<0>();
		u32 e = shared<u32>(at + 28);
		if (thread_id() == 31) printf("%x %x, %x %x, %x\n", a, b, c, d, e);
	}, from, sizeof from);
}

// Each of two warps writes a word and reads the other's word, with or without a barrier between.
static void exchange(u32 order, bool barrier) {
	u32 seen[2];
	run(order, 64, 256, [&] {
		u32 me = thread_id(), warp = me / 32;
		if (me % 32 == 0) shared<u32>(4 * warp) = 10 + warp;
		if (barrier) sync_block();
		if (me % 32 == 0) seen[warp] = shared<u32>(4 * (1 - warp));
	});
	printf("%x %x\n", seen[0], seen[1]);
}

// Eight rows of ldmatrix: in different banks, all one row, four in the banks of four others, all in the same banks.
static void conflicts(u32 order) {
	for (u32 apart : {16, 0, 64, 128}) {
		emu::counts = {};
		run(order, 32, 8 * 128, [&] {
			u32 a[1][4], at[1] = {thread_id() % 8 * apart};
			ldmatrix<1>(a, at);
		});
		printf("%llu/%llu ", emu::counts.wavefronts, emu::counts.phases);
	}
	printf("\n");
}

int main(int count, char **arguments) {
	if (count != 3) emu::fail("want CASE ORDER");
	std::string name = arguments[1];
	u32 order = atoi(arguments[2]);
	static Quad from[1];
	if (name == "product") product(order);
	else if (name == "rounding") rounding(order);
	else if (name == "copies") copies(order);
	else if (name == "conflicts") conflicts(order);
	else if (name == "exchange") exchange(order, true);
	else if (name == "race") exchange(order, false);
	else if (name == "diverged") run(order, 32, 512, [] {
		u32 a[1][4], at[1] = {0};
		if (thread_id() != 7) ldmatrix<1>(a, at);
		else sync_block();
	});
	else if (name == "half-block") run(order, 64, 16, [] { if (thread_id() < 32) sync_block(); });
	else if (name == "outside") run(order, 32, 64, [] { shared<u32>(64) = 1; });
	else if (name == "misaligned") run(order, 32, 1024, [] { u32 a[1][4], at[1] = {8}; ldmatrix<1>(a, at); });
	else if (name == "copy-outside") run(order, 32, 64, [] { copy_async(0, from + 1); }, from, sizeof from);
	else if (name == "in-flight") run(order, 32, 64, [] { copy_async(0, from); copy_commit(); }, from, sizeof from);
	else emu::fail("no case %s", arguments[1]);
}
