// Fibers, barriers and memory of the emulation; see emu.h.
#include "fiber.h"

#include <cstdarg>
#include <memory>
#include <random>

#include "../device.h"

namespace emu {
namespace {

constexpr size_t STACK = 128 << 10;
constexpr u8 POISON = 0xff;

enum State { READY, WARP_WAIT, BLOCK_WAIT, UNTIL, DONE };

struct Copy {
	u32 to;
	const void *from;
};

struct Fiber {
	Context context;
	std::unique_ptr<char[]> stack;
	State state;
	Collective call;
	void *arguments;
	const std::function<bool()> *condition; // of UNTIL
	const std::function<std::string()> *what;
	std::vector<std::vector<Copy>> groups; // committed, oldest first
	std::vector<Copy> open;                // not yet committed
};

struct Block {
	u32 id;
	std::vector<Fiber> fibers;
	std::vector<char> memory;
	std::vector<u16> shadows; // for each byte of memory: 1 + the thread that accessed it last and has not fenced; or 0
	bool ended;
};

struct Machine {
	Launch launch;
	const std::function<void()> *body;
	std::vector<Block> blocks; // of the cluster
	u32 rank, thread;          // of the thread that runs
	u32 favoured;              // see turn
	Context scheduler;
	std::mt19937 random;
} machine;

Block &self() { return machine.blocks[machine.rank]; }

Unit unit; // separate from machine: install is called before main, possibly before machine's constructor

void enter() {
	(*machine.body)();
	Fiber &f = self().fibers[machine.thread];
	f.state = DONE;
	change(f.context, machine.scheduler);
}

// pause returns control to the scheduler until the fiber is READY again.
void pause(State state) {
	Fiber &f = self().fibers[machine.thread];
	f.state = state;
	change(f.context, machine.scheduler);
}

void resume(u32 thread) {
	machine.thread = thread;
	change(machine.scheduler, self().fibers[thread].context);
}

std::vector<u32> order_of(u32 n) {
	std::vector<u32> order(n);
	for (u32 i = 0; i < n; i++) order[i] = machine.launch.order == 1 ? n - 1 - i : i;
	if (machine.launch.order > 1)
		for (u32 i = n; i > 1; i--) std::swap(order[i - 1], order[machine.random() % i]);
	return order;
}

const char *place(State s) { return s == DONE ? "the end" : s == BLOCK_WAIT ? "sync_block" : "a function of the warp"; }

// run_warp runs a warp until all its lanes wait or are done. It reports whether any lane made progress.
bool run_warp(u32 warp) {
	Fiber *lanes = &self().fibers[warp * WARP];
	for (bool any = false;; any = true) {
		bool ran = false, until = false;
		for (u32 i : order_of(WARP)) {
			if (lanes[i].state == UNTIL && (*lanes[i].condition)()) lanes[i].state = READY;
			if (lanes[i].state == READY) resume(warp * WARP + i), ran = true;
		}
		for (int i = 0; i < WARP; i++) until = until || lanes[i].state == UNTIL;
		if (until) return any || ran;
		for (int i = 1; i < WARP; i++) {
			if (lanes[i].state != lanes[0].state || (lanes[0].state == WARP_WAIT && lanes[i].call != lanes[0].call))
				fail("block %u, warp %u diverges: lane 0 is at %s, lane %d at %s%s", self().id, warp,
					place(lanes[0].state), i, place(lanes[i].state), lanes[i].state == lanes[0].state ? ", another one" : "");
		}
		if (lanes[0].state != WARP_WAIT) return any || ran;
		void *arguments[WARP];
		for (int i = 0; i < WARP; i++) arguments[i] = lanes[i].arguments;
		machine.thread = warp * WARP;
		lanes[0].call(arguments);
		for (int i = 0; i < WARP; i++) lanes[i].state = READY;
	}
}

// release resumes a block's threads if all of them wait for it, and reports whether it did.
bool release() {
	for (const Fiber &f : self().fibers)
		if (f.state != BLOCK_WAIT) return false;
	for (Fiber &f : self().fibers) f.state = READY;
	return true;
}

// stuck fails if no thread of the cluster can make progress, and some have not ended.
void stuck() {
	for (const Block &b : machine.blocks)
		for (u32 i = 0; i < b.fibers.size(); i++)
			if (const Fiber &f = b.fibers[i]; f.state == UNTIL) {
				machine.rank = &b - machine.blocks.data(); // the thing that it waits for is in its block
				fail("block %u: deadlock: thread %u waits for %s", b.id, i, (*f.what)().c_str());
			}
	for (const Block &b : machine.blocks)
		for (u32 i = 1; i < b.fibers.size(); i++)
			if (b.fibers[i].state != b.fibers[0].state)
				fail("block %u: thread 0 is at %s, thread %u at %s", b.id, place(b.fibers[0].state), i, place(b.fibers[i].state));
}

void start(Block &b, u32 id) {
	b.id = id, b.ended = false;
	b.memory.assign(machine.launch.shared_bytes, char(POISON));
	b.memory.shrink_to_fit();
	b.shadows.assign(machine.launch.shared_bytes, 0);
	b.fibers.resize(machine.launch.threads);
	for (Fiber &f : b.fibers) {
		if (!f.stack) f.stack = std::make_unique_for_overwrite<char[]>(STACK);
		f.state = READY, f.groups.clear(), f.open.clear();
		begin(f.context, f.stack.get(), STACK, enter);
	}
}

// done reports whether all threads of the block have ended.
bool done() {
	return std::all_of(self().fibers.begin(), self().fibers.end(), [](const Fiber &f) { return f.state == DONE; });
}

void finish() {
	for (const Fiber &f : self().fibers)
		for (const auto &group : f.groups)
			if (!group.empty()) fail("block %u ends before its copies have arrived", self().id);
	if (unit.end) unit.end();
	self().ended = true;
}

bool run_block(u32 rank) {
	machine.rank = rank;
	bool ran = false;
	for (u32 warp : order_of(machine.launch.threads / WARP)) ran |= run_warp(warp);
	return ran;
}

// favour chooses the block of a cluster, if any, that runs before the others for a while.
void favour() {
	u32 n = machine.blocks.size();
	if (n > 1 && machine.launch.order > 1) machine.favoured = machine.random() % (2 * n);
}

// turn runs the cluster's warps, and reports whether any lane made progress. In the orders 0 and 1, a block runs as far as it can
// before the next one does. In other orders, so does a favoured block; in between, the warps of all blocks run side by side.
bool turn() {
	u32 n = machine.blocks.size(), warps = machine.launch.threads / WARP;
	if (machine.launch.order < 2 || machine.favoured < n) {
		std::vector<u32> ranks = order_of(n);
		if (machine.favoured < n) ranks.insert(ranks.begin(), machine.favoured);
		for (u32 rank : ranks) {
			if (!run_block(rank)) continue;
			if (rank != machine.favoured) favour();
			return true;
		}
		return false;
	}
	bool ran = false;
	for (u32 i : order_of(n * warps)) {
		machine.rank = i / warps;
		ran |= run_warp(i % warps);
	}
	if (dice() % 8 == 0) favour();
	return ran;
}

void run_cluster(u32 first) {
	machine.favoured = dice() % machine.blocks.size(); // the others begin late
	for (u32 i = 0; i < machine.blocks.size(); i++) start(machine.blocks[i], first + i);
	if (unit.begin) unit.begin(machine.blocks.size(), machine.launch.threads);
	for (bool left = true; left;) {
		bool ran = turn(), worked = unit.step && unit.step(!ran, dice()), released = false;
		left = false;
		for (u32 rank : order_of(machine.blocks.size())) {
			machine.rank = rank;
			released |= release();
			if (!self().ended && done()) finish();
			left |= !self().ended;
		}
		if (left && !ran && !worked && !released) stuck();
	}
}

} // namespace

Counts counts;

void fail(const char *format, ...) {
	va_list arguments;
	va_start(arguments, format);
	fprintf(stderr, "emulation: ");
	vfprintf(stderr, format, arguments);
	fprintf(stderr, "\n");
	va_end(arguments);
	_Exit(3);
}

void run(const Launch &launch, const std::function<void()> &body) {
	if (launch.threads == 0 || launch.threads % WARP) fail("%u threads a block are no whole warps", launch.threads);
	if (launch.cluster == 0 || launch.blocks % launch.cluster) fail("%u blocks are no whole clusters of %u", launch.blocks, launch.cluster);
	machine.launch = launch, machine.body = &body;
	machine.blocks.resize(launch.cluster);
	machine.random.seed(launch.order);
	for (u32 cluster : order_of(launch.blocks / launch.cluster)) run_cluster(cluster * launch.cluster);
}

void wait(Collective call, void *arguments) {
	Fiber &f = self().fibers[machine.thread];
	f.call = call, f.arguments = arguments;
	pause(WARP_WAIT);
}

void wait_block() { pause(BLOCK_WAIT); }
u32 thread() { return machine.thread; }
u32 block() { return self().id; }
u32 grid() { return machine.launch.blocks; }
u32 rank() { return machine.rank; }
u32 ranks() { return machine.blocks.size(); }
bool ended(u32 rank) { return machine.blocks[rank].ended; }

In::In(u32 rank) : before(machine.rank) { machine.rank = rank; }
In::~In() { machine.rank = before; }

bool install(Unit installed) {
	unit = installed;
	return true;
}

u32 dice() { return machine.launch.order > 1 ? machine.random() : machine.launch.order; }

void wait_until(const std::function<bool()> &condition, const std::function<std::string()> &what) {
	Fiber &f = self().fibers[machine.thread];
	f.condition = &condition, f.what = &what;
	if (machine.launch.order > 1 && machine.random() % 4 == 0) pause(UNTIL); // others run first, although it need not wait
	while (!condition()) pause(UNTIL);
}

char *shared(u32 offset, u32 size) {
	char *at = raw(offset, size);
	std::fill_n(&self().shadows[offset], size, u16(1 + machine.thread));
	return at;
}

void clear_shadows(u32 thread) {
	for (u16 &shadow : self().shadows)
		if (shadow == 1 + thread) shadow = 0;
}

int unfenced(u32 offset, u32 size) {
	for (u32 i = offset; i < offset + size; i++)
		if (self().shadows[i]) return self().shadows[i] - 1;
	return -1;
}

char *raw(u32 offset, u32 size) {
	if (offset % size || u64(offset) + size > self().memory.size())
		fail("block %u, thread %u: %u bytes at %u of %zu bytes of shared memory", block(), machine.thread, size, offset,
			self().memory.size());
	return &self().memory[offset];
}

void check_source(const void *from, size_t size) {
	const char *first = static_cast<const char *>(machine.launch.from), *at = static_cast<const char *>(from);
	if (first && (at < first || at + size > first + machine.launch.from_bytes || (at - first) % 16))
		fail("block %u, thread %u copies from byte %td of %zu", block(), machine.thread, at - first,
			machine.launch.from_bytes);
}

void copy(u32 offset, const void *from) {
	check_source(from, 16);
	memset(shared(offset, 16), POISON, 16);
	self().fibers[machine.thread].open.push_back({offset, from});
}

void commit() {
	Fiber &f = self().fibers[machine.thread];
	f.groups.push_back(std::move(f.open));
	f.open.clear();
}

void wait_copies(size_t pending) {
	auto &groups = self().fibers[machine.thread].groups;
	for (; groups.size() > pending; groups.erase(groups.begin()))
		for (const Copy &c : groups.front()) memcpy(shared(c.to, 16), c.from, 16);
}

namespace {
struct Kernel {
	std::string name;
	u32 threads, cluster;
	Entry entry;
};
std::vector<Kernel> &kernels() {
	static std::vector<Kernel> list;
	return list;
}
} // namespace

Registration::Registration(const char *name, u32 threads, u32 cluster, Entry entry) { kernels().push_back({name, threads, cluster, entry}); }

Entry find(const char *name, Launch &launch) {
	for (const Kernel &k : kernels()) {
		if (k.name != name) continue;
		launch.threads = k.threads, launch.cluster = k.cluster;
		return k.entry;
	}
	fail("no kernel is called %s", name);
}

} // namespace emu
