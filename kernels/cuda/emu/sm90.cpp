// Products of warpgroups, bulk copies and barriers of the emulation; see sm90.h.
#include "../sm90.h"

#include <algorithm>
#include <deque>
#include <map>

namespace emu {
namespace {

typedef uint16_t u16;

constexpr int INPUTS = 16, OUTPUTS = 256, ROWS = 16; // of one warp's product; OUTPUTS is the maximum
constexpr int SUMS = OUTPUTS / 2, FRAGMENT = 4;      // registers per thread
constexpr u32 POISON_WORD = 0xffffffff;

// Held are registers of all lanes of a warp that products in flight use. The program sees poison in them.
struct Held {
	u32 *at[WARP];
	int count; // registers per lane
	u32 value[WARP][SUMS];
	int uses = 0;

	void take() {
		for (int l = 0; l < WARP; l++) {
			memcpy(value[l], at[l], 4 * count);
			std::fill_n(at[l], count, POISON_WORD);
		}
	}
	void giveBack(const char *name) {
		for (int l = 0; l < WARP; l++) {
			for (int i = 0; i < count; i++)
				if (at[l][i] != POISON_WORD) fail("block %u, warp %u: %s changed while products used them", block(), thread() / WARP, name);
			memcpy(at[l], value[l], 4 * count);
		}
	}
};

struct Product {
	u32 *c, *a;     // of lane 0, which name what is held
	u64 rows, tile; // rows: instead of a
	int outputs;
	u16 seen[INPUTS][OUTPUTS], seen_rows[ROWS][INPUTS];
};

struct Warp {
	std::map<u32 *, Held> sums, fragments;
	std::deque<std::vector<Product>> groups; // committed, the oldest first
	std::vector<Product> open;
	bool fenced = false;
	size_t started = 0; // products
};

// Wait is a thread's assumption about a barrier: the phase at the end of the wait. The wait itself checks only the phase's
// parity.
struct Wait {
	bool any = false;
	u32 parity;
	u64 phase;
};

struct Barrier {
	u32 arrivals, missing;
	long bytes = 0; // announced but not yet copied; for another block's copy, copied but not yet announced
	u64 phase = 0;
	int unfenced; // the thread that has not fenced its initialisation by fence_async, or -1
	int hidden;   // likewise for fence_barriers
	std::vector<Wait> waits; // of each thread
};

struct Bulk {
	u32 by, rank; // blocks
	u32 to, bytes, barrier;
	const void *from;
	std::string was = {}; // the bytes to copy, if they are in shared memory
};

struct Named {
	u32 threads = 0, arrived = 0;
	u64 generation = 0;
};

struct Block {
	std::vector<Warp> warps;
	std::vector<std::vector<u64>> tiles; // of each warpgroup: those of its products, in order
	std::map<u32, Barrier> barriers;
	Named named[16];
	std::vector<u32> registers; // of each thread of a warp
	u32 spare;                  // registers that no warp has
};

struct Machine {
	std::vector<Block> blocks; // of the cluster
	std::vector<Bulk> bulk;
	Named together; // all threads of the cluster
} machine;

Block &here() { return machine.blocks[rank()]; }
Warp &self() { return here().warps[thread() / WARP]; }

// look reads the numbers of a tile.
void look(u64 tile, int outputs, u16 (&seen)[INPUTS][OUTPUTS]) {
	u32 start = (tile & 0x3fff) << 4, leading = (tile >> 16 & 0x3fff) << 4, stride = (tile >> 32 & 0x3fff) << 4;
	for (int k = 0; k < INPUTS; k++) {
		for (int n = 0; n < outputs; n += 8) {
			u32 at = start + k / 8 * stride + n / 64 * leading + k % 8 * 128 + n % 64 * 2;
			at ^= (at >> 7 & 7) << 4; // the pattern of 128 bytes
			memcpy(&seen[k][n], raw(at - SHARED_BASE, 16), 16);
		}
	}
}

// look_rows reads the warp's 16 rows of an operand in shared memory. It fails if a thread has accessed them and has not called
// fence_async.
void look_rows(u64 rows, u16 (&seen)[ROWS][INPUTS]) {
	u32 start = (rows & 0x3fff) << 4, leading = (rows >> 16 & 0x3fff) << 4, stride = (rows >> 32 & 0x3fff) << 4;
	for (int i = 0; i < ROWS; i++) {
		for (int k = 0; k < INPUTS; k += 8) {
			u32 row = thread() / WARP % 4 * ROWS + i, at = start + row / 8 * stride + row % 8 * 16 + k / 8 * leading - SHARED_BASE;
			if (int by = unfenced(at, 16); by >= 0)
				fail("block %u, warp %u: the rows at %u were accessed by thread %d, which has not called fence_async", block(), thread() / WARP, at, by);
			memcpy(&seen[i][k], raw(at, 16), 16);
		}
	}
}

struct MultiplyCall {
	float *c;
	const u32 *a;
	u64 rows, tile;
	int outputs;
};

Held &hold(std::map<u32 *, Held> &all, u32 *const (&at)[WARP], int count, bool fenced, const char *name) {
	auto [found, fresh] = all.try_emplace(at[0]);
	Held &h = found->second;
	if (fresh) {
		if (!fenced) fail("block %u, warp %u: %s of a product without multiply_fence before it", block(), thread() / WARP, name);
		std::copy_n(at, WARP, h.at), h.count = count;
		h.take();
	} else if (!std::equal(at, at + WARP, h.at)) {
		fail("block %u, warp %u: lanes have different %s", block(), thread() / WARP, name);
	}
	h.uses++;
	return h;
}

void start(void *const (&lanes)[WARP]) {
	Warp &w = self();
	u32 *c[WARP], *a[WARP];
	u64 rows = static_cast<MultiplyCall *>(lanes[0])->rows, tile = static_cast<MultiplyCall *>(lanes[0])->tile;
	int outputs = static_cast<MultiplyCall *>(lanes[0])->outputs;
	for (int l = 0; l < WARP; l++) {
		const MultiplyCall &of = *static_cast<MultiplyCall *>(lanes[l]);
		c[l] = reinterpret_cast<u32 *>(of.c), a[l] = const_cast<u32 *>(of.a);
		if (of.rows != rows) fail("block %u, warp %u: lanes have different rows", block(), thread() / WARP);
		if (of.tile != tile) fail("block %u, warp %u: lanes have different tiles", block(), thread() / WARP);
	}
	if (tile >> 62 != 1 || (tile >> 49 & 7) || tile % 64) // at a multiple of 1024
		fail("block %u, warp %u: descriptor %#llx is not of a tile in the pattern of 128 bytes", block(), thread() / WARP, tile);

	if (rows >> 62 || (rows >> 49 & 7))
		fail("block %u, warp %u: descriptor %#llx is not of rows without a pattern", block(), thread() / WARP, rows);

	std::vector<u64> &tiles = here().tiles[thread() / WARP / 4];
	u64 both = tile ^ rows << 1; // tiles and rows differ in enough bits to tell whether either has changed
	if (w.started == tiles.size()) tiles.push_back(both);
	if (tiles[w.started++] != both)
		fail("block %u, warp %u: its product %zu has another tile than that of its warpgroup", block(), thread() / WARP, w.started - 1);

	Product p{c[0], a[0], rows, tile, outputs, {}, {}};
	u32 first = ((tile & 0x3fff) << 4) - SHARED_BASE;
	int by = unfenced(first, 2 * INPUTS * outputs);
	if (by >= 0) fail("block %u, warp %u: the tile at %u was accessed by thread %d, which has not called fence_async", block(), thread() / WARP, first, by);
	look(tile, outputs, p.seen);
	hold(w.sums, c, outputs / 2, w.fenced, "sums");
	if (rows)
		look_rows(rows, p.seen_rows);
	else
		hold(w.fragments, a, FRAGMENT, w.fenced, "fragments");
	w.open.push_back(p);
}

// compute adds a product to its sums, one number after another with ascending k.
void compute(const Product &p) {
	static float a[ROWS][INPUTS], b[INPUTS][OUTPUTS], c[ROWS][OUTPUTS];
	Warp &w = self();
	u16 now[INPUTS][OUTPUTS] = {};
	look(p.tile, p.outputs, now);
	if (memcmp(now, p.seen, sizeof now))
		fail("block %u, warp %u: the tile at %llu changed while a product used it", block(), thread() / WARP, ((p.tile & 0x3fff) << 4) - SHARED_BASE);
	Held &sums = w.sums.at(p.c);
	for (int k = 0; k < INPUTS; k++)
		for (int n = 0; n < p.outputs; n++) b[k][n] = from_f16(now[k][n]);
	u16 rows[ROWS][INPUTS];
	if (p.rows) {
		look_rows(p.rows, rows);
		if (memcmp(rows, p.seen_rows, sizeof rows))
			fail("block %u, warp %u: the rows at %llu changed while a product used them", block(), thread() / WARP, ((p.rows & 0x3fff) << 4) - SHARED_BASE);
	}
	for (int l = 0; l < WARP; l++) {
		int g = l / 4, t = l % 4;
		for (int i = 0; i < FRAGMENT; i++) {
			u16 *at = &rows[g + i % 2 * 8][2 * t + i / 2 * 8];
			if (!p.rows) at[0] = w.fragments.at(p.a).value[l][i] & 0xffff, at[1] = w.fragments.at(p.a).value[l][i] >> 16;
		}
		for (int i = 0; i < sums.count; i++) c[g + i % 4 / 2 * 8][i / 4 * 8 + 2 * t + i % 2] = std::bit_cast<float>(sums.value[l][i]);
	}
	for (int i = 0; i < ROWS; i++)
		for (int k = 0; k < INPUTS; k++) a[i][k] = from_f16(rows[i][k]);
	for (int i = 0; i < ROWS; i++)
		for (int k = 0; k < INPUTS; k++)
			for (int n = 0; n < p.outputs; n++) c[i][n] += a[i][k] * b[k][n];
	for (int l = 0; l < WARP; l++)
		for (int i = 0; i < sums.count; i++)
			sums.value[l][i] = std::bit_cast<u32>(c[l / 4 + i % 4 / 2 * 8][i / 4 * 8 + l % 4 * 2 + i % 2]);
	auto unused = [&](std::map<u32 *, Held> &all, u32 *at, const char *name) {
		Held &h = all.at(at);
		if (--h.uses) return;
		h.giveBack(name);
		all.erase(at);
		w.fenced = false;
	};
	unused(w.sums, p.c, "sums");
	if (!p.rows) unused(w.fragments, p.a, "fragments");
}

void fence(void *const (&)[WARP]) { self().fenced = true; }

void close(void *const (&)[WARP]) {
	self().groups.push_back(std::move(self().open));
	self().open.clear();
}

void finish(void *const (&lanes)[WARP]) {
	Warp &w = self();
	for (size_t pending = *static_cast<size_t *>(lanes[0]); w.groups.size() > pending; w.groups.pop_front())
		for (const Product &p : w.groups.front()) compute(p);
}

void together(void *const (&)[WARP]) {}

Barrier &barrier_at(u32 offset) {
	auto found = here().barriers.find(offset);
	if (found == here().barriers.end()) fail("block %u, thread %u: there is no barrier at %u", block(), thread(), offset);
	return found->second;
}

// reach fails unless a thread may use the barrier at an offset in the block with that rank.
void reach(u32 to, u32 offset) {
	u32 from = block();
	if (to >= ranks()) fail("block %u, thread %u reaches for block %u of %u of its cluster", from, thread(), to, ranks());
	if (to == rank()) return;
	In in(to);
	if (ended(to)) fail("block %u, thread %u reaches for block %u, which has ended", from, thread(), block());
	if (int by = barrier_at(offset).hidden; by >= 0)
		fail("block %u, thread %u reaches for the barrier at %u of block %u, whose thread %d has not called fence_barriers", from, thread(), offset, block(), by);
}

void end_phase(Barrier &b) {
	if (b.missing || b.bytes) return;
	b.phase++, b.missing = b.arrivals;
}

void land(size_t i) {
	Bulk copy = machine.bulk[i];
	machine.bulk.erase(machine.bulk.begin() + i);
	if (!copy.was.empty() && memcmp(copy.from, copy.was.data(), copy.bytes))
		fail("block %u of its cluster: what it copies to %u of block %u changed before it arrived", copy.by, copy.to, copy.rank);
	In in(copy.rank);
	memcpy(raw(copy.to, 1), copy.from, copy.bytes);
	Barrier &b = barrier_at(copy.barrier);
	b.bytes -= copy.bytes;
	bool early = copy.by != copy.rank && b.missing; // announced later in the same phase
	if (b.bytes < 0 && !early) fail("block %u: the barrier at %u gets more bytes than were announced", block(), copy.barrier);
	end_phase(b);
}

// step makes copies arrive: all at once if the order is 0, only if no thread can make progress if it is 1, otherwise one from
// time to time.
bool step(bool idle, u32 random) {
	if (machine.bulk.empty() || (!idle && random % 3 == 1)) return false;
	do land(random % machine.bulk.size());
	while (random == 0 && !machine.bulk.empty());
	return true;
}

constexpr u32 REGISTERS = 65536;

void begin_cluster(u32 blocks, u32 threads) {
	machine.blocks.assign(blocks, {});
	machine.bulk.clear();
	machine.together = {blocks * threads, 0, 0};
	for (Block &b : machine.blocks) {
		b.warps.resize(threads / WARP);
		b.tiles.resize((threads / WARP + 3) / 4);
		u32 each = std::min<u32>(REGISTERS / threads / 8 * 8, 248);
		b.registers.assign(threads / WARP, each);
		b.spare = REGISTERS - each * threads;
	}
}

void end_block() {
	for (size_t i = 0; i < here().warps.size(); i++) {
		const Warp &w = here().warps[i];
		if (!w.open.empty() || !w.groups.empty()) fail("block %u, warp %zu ends before its products are computed", block(), i);
		if (w.started != here().tiles[i / 4].size()) fail("block %u, warp %zu has fewer products than its warpgroup", block(), i);
	}
	for (size_t i = 0; i < machine.bulk.size(); i++) {
		if (machine.bulk[i].rank != rank() && machine.bulk[i].by != rank()) continue;
		land(i); // which may report an error of its own
		fail("block %u ends before its copies have arrived", block());
	}
	for (const auto &[at, b] : here().barriers)
		if (b.bytes < 0) fail("block %u: the barrier at %u gets more bytes than were announced", block(), at);
}

const bool installed = install({begin_cluster, step, end_block});

void collect(Collective call, void *arguments = nullptr) { wait(call, arguments); }

} // namespace

void multiply(float *c, const u32 *a, u64 rows, u64 tile, int outputs) {
	MultiplyCall call{c, a, rows, tile, outputs};
	collect(start, &call);
}
void multiply_fence() { collect(fence); }
void multiply_commit() { collect(close); }
void multiply_wait(size_t pending) { collect(finish, &pending); }
void fence_async() {
	clear_shadows(thread());
	for (auto &[at, b] : here().barriers)
		if (b.unfenced == int(thread())) b.unfenced = -1;
}

void fence_barriers() {
	for (auto &[at, b] : here().barriers)
		if (b.hidden == int(thread())) b.hidden = -1;
}

void barrier_init(u32 barrier, u32 arrivals) {
	shared(barrier, 8);
	Barrier b{arrivals, arrivals, 0, 0, int(thread()), int(thread()), {}};
	b.waits.resize(here().warps.size() * WARP);
	here().barriers[barrier] = b;
}

void barrier_arrive(u32 barrier, u32 bytes) {
	Barrier &b = barrier_at(barrier);
	if (b.missing == 0) fail("block %u, thread %u: the barrier at %u has more arrivals than threads it waits for", block(), thread(), barrier);
	b.missing--, b.bytes += bytes;
	if (b.missing == 0 && b.bytes < 0) fail("block %u: the barrier at %u gets more bytes than were announced", block(), barrier);
	end_phase(b);
}

void barrier_arrive_at(u32 to, u32 barrier) {
	reach(to, barrier);
	In in(to);
	barrier_arrive(barrier, 0);
}

void barrier_wait(u32 barrier, u32 parity) {
	Barrier &b = barrier_at(barrier);
	Wait &w = b.waits[thread()];
	if (!w.any || w.parity != parity) w = {true, parity, w.any ? w.phase + 1 : 1 - parity};
	u64 phase = w.phase; // at the end of the wait
	auto lost = [=, of = thread()](u64 now) {
		fail("block %u: the barrier at %u is in phase %llu, and thread %u waits for phase %llu", block(), barrier, now, of, phase);
	};
	wait_until([&] {
			if (b.phase > phase) lost(b.phase);
			return b.phase % 2 != parity;
		},
		[&] {
			return "phase " + std::to_string(b.phase) + " of the barrier at " + std::to_string(barrier) + ", which lacks " +
				std::to_string(b.missing) + " arrivals and " + std::to_string(b.bytes) + " bytes";
		});
	if (b.phase != phase) lost(b.phase);
}

namespace {

// begin starts a copy into the block with that rank.
void begin(u32 to, Bulk copy) {
	reach(to, copy.barrier);
	In in(to);
	Barrier &b = barrier_at(copy.barrier);
	if (b.unfenced >= 0) fail("block %u: the barrier at %u was initialised by thread %d, which has not called fence_async", block(), copy.barrier, b.unfenced);
	for (u32 i = 0; i < copy.bytes; i += 16) memset(raw(copy.to + i, 16), 0xff, 16);
	if (int of = unfenced(copy.to, copy.bytes); of >= 0)
		fail("block %u: the target of a copy, at %u, was accessed by thread %d, which has not called fence_async", block(), copy.to, of);
	machine.bulk.push_back(copy);
}

} // namespace

void copy_bulk(u32 offset, const void *from, u32 bytes, u32 barrier) {
	if (bytes % 16 || reinterpret_cast<uintptr_t>(from) % 16 || offset % 16)
		fail("block %u, thread %u: a copy of %u bytes to %u is not in units of 16", block(), thread(), bytes, offset);
	check_source(from, bytes);
	begin(rank(), {rank(), rank(), offset, bytes, barrier, from});
}

void copy_across(u32 to, u32 offset, u32 bytes, u32 barrier) {
	if (bytes == 0 || bytes % 16 || offset % 16) fail("block %u, thread %u: a copy of %u bytes at %u is not in units of 16", block(), thread(), bytes, offset);
	for (u32 i = 0; i < bytes; i += 16) raw(offset + i, 16);
	if (int of = unfenced(offset, bytes); of >= 0)
		fail("block %u: the source of a copy, at %u, was accessed by thread %d, which has not called fence_async", block(), offset, of);
	const char *from = raw(offset, 1);
	begin(to, {rank(), to, offset, bytes, barrier, from, {from, bytes}});
}

namespace {

// arrive waits until enough threads have called it for n.
void arrive(Named &n, const char *what) {
	u64 generation = n.generation;
	if (++n.arrived == n.threads) n.arrived = 0, n.generation++;
	wait_until([&] { return n.generation != generation; }, [&] { return std::string(what); });
}

} // namespace

void sync_some(u32 name, u32 threads) {
	if (name < 1 || name > 15 || threads == 0 || threads % WARP) fail("block %u, thread %u: sync_some(%u, %u)", block(), thread(), name, threads);
	Named &n = here().named[name];
	if (n.arrived && n.threads != threads) fail("block %u, thread %u: sync_some(%u) for %u threads, of others for %u", block(), thread(), name, threads, n.threads);
	n.threads = threads;
	arrive(n, ("sync_some(" + std::to_string(name) + ")").c_str());
}

void sync_cluster() { arrive(machine.together, "sync_cluster"); }

void set_registers(u32 n, bool more) {
	u32 &have = here().registers[thread() / WARP];
	if (thread() % WARP == 0) {
		if (n % 8 || n < 24 || n > 240 || (more ? n < have : n > have))
			fail("block %u, warp %u: from %u registers to %u", block(), thread() / WARP, have, n);
		wait_until([&] { return here().spare + WARP * have >= WARP * n; }, [&] { return std::to_string(n) + " registers"; });
		here().spare += WARP * have - WARP * n;
		have = n;
	}
	collect(together);
}

} // namespace emu
