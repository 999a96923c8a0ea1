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
typedef uint16_t u16;

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
	std::vector<std::vector<Copy>> groups; // committed, the oldest group first
	std::vector<Copy> open;                // not yet committed
};

struct Machine {
	Launch launch;
	const std::function<void()> *body;
	std::vector<Fiber> fibers;
	std::vector<char> memory;
	std::vector<u16> shadows; // of each byte of memory: 1 + the thread that accessed it last and has not fenced; or 0
	u32 block, thread;
	Context scheduler;
	std::mt19937 random;
} machine;

Unit unit; // apart from machine, since install is called before main, in no known order with machine's constructor

void enter() {
	(*machine.body)();
	Fiber &f = machine.fibers[machine.thread];
	f.state = DONE;
	change(f.context, machine.scheduler);
}

// pause returns control to the scheduler until the fiber is READY again.
void pause(State state) {
	Fiber &f = machine.fibers[machine.thread];
	f.state = state;
	change(f.context, machine.scheduler);
}

void resume(u32 thread) {
	machine.thread = thread;
	change(machine.scheduler, machine.fibers[thread].context);
}

std::vector<u32> order_of(u32 n) {
	std::vector<u32> order(n);
	for (u32 i = 0; i < n; i++) order[i] = machine.launch.order == 1 ? n - 1 - i : i;
	if (machine.launch.order > 1)
		for (u32 i = n; i > 1; i--) std::swap(order[i - 1], order[machine.random() % i]);
	return order;
}

const char *place(State s) { return s == DONE ? "the end" : s == BLOCK_WAIT ? "sync_block" : "a function of the warp"; }

// run_warp runs a warp until all its lanes wait or are done. It reports whether any lane went on.
bool run_warp(u32 warp) {
	Fiber *lanes = &machine.fibers[warp * WARP];
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
				fail("block %u, warp %u diverges: lane 0 is at %s, lane %d at %s%s", machine.block, warp,
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

// release continues the threads if all of them wait for the block. It returns false if all are done.
bool release() {
	for (u32 i = 0; i < machine.launch.threads; i++)
		if (const Fiber &f = machine.fibers[i]; f.state == UNTIL)
			fail("block %u: deadlock: thread %u waits for %s", machine.block, i, (*f.what)().c_str());
	for (u32 i = 1; i < machine.launch.threads; i++)
		if (machine.fibers[i].state != machine.fibers[0].state)
			fail("block %u: thread 0 is at %s, thread %u at %s", machine.block, place(machine.fibers[0].state), i,
				place(machine.fibers[i].state));
	if (machine.fibers[0].state == DONE) return false;
	for (Fiber &f : machine.fibers) f.state = READY;
	return true;
}

void run_block() {
	std::fill(machine.memory.begin(), machine.memory.end(), char(POISON));
	std::fill(machine.shadows.begin(), machine.shadows.end(), 0);
	if (unit.begin) unit.begin(machine.launch.threads);
	for (Fiber &f : machine.fibers) {
		f.state = READY, f.groups.clear(), f.open.clear();
		begin(f.context, f.stack.get(), STACK, enter);
	}
	for (;;) {
		bool ran = false;
		for (u32 warp : order_of(machine.launch.threads / WARP)) ran |= run_warp(warp);
		bool worked = unit.step && unit.step(!ran, dice());
		if (!ran && !worked && !release()) break;
	}
	for (Fiber &f : machine.fibers)
		for (const auto &group : f.groups)
			if (!group.empty()) fail("block %u ends before its copies have arrived", machine.block);
	if (unit.end) unit.end();
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
	machine.launch = launch, machine.body = &body;
	machine.memory.resize(launch.shared_bytes);
	machine.memory.shrink_to_fit();
	machine.shadows.resize(launch.shared_bytes);
	machine.fibers.resize(launch.threads);
	for (Fiber &f : machine.fibers)
		if (!f.stack) f.stack = std::make_unique_for_overwrite<char[]>(STACK);
	machine.random.seed(launch.order);
	for (u32 block : order_of(launch.blocks)) {
		machine.block = block;
		run_block();
	}
}

void wait(Collective call, void *arguments) {
	Fiber &f = machine.fibers[machine.thread];
	f.call = call, f.arguments = arguments;
	pause(WARP_WAIT);
}

void wait_block() { pause(BLOCK_WAIT); }
u32 thread() { return machine.thread; }
u32 block() { return machine.block; }
u32 grid() { return machine.launch.blocks; }

bool install(Unit installed) {
	unit = installed;
	return true;
}

u32 dice() { return machine.launch.order > 1 ? machine.random() : machine.launch.order; }

void wait_until(const std::function<bool()> &condition, const std::function<std::string()> &what) {
	Fiber &f = machine.fibers[machine.thread];
	f.condition = &condition, f.what = &what;
	if (machine.launch.order > 1 && machine.random() % 4 == 0) pause(UNTIL); // others go first though it need not wait
	while (!condition()) pause(UNTIL);
}

char *shared(u32 offset, u32 size) {
	char *at = raw(offset, size);
	std::fill_n(&machine.shadows[offset], size, u16(1 + machine.thread));
	return at;
}

void clear_shadows(u32 thread) {
	for (u16 &shadow : machine.shadows)
		if (shadow == 1 + thread) shadow = 0;
}

int unfenced(u32 offset, u32 size) {
	for (u32 i = offset; i < offset + size; i++)
		if (machine.shadows[i]) return machine.shadows[i] - 1;
	return -1;
}

char *raw(u32 offset, u32 size) {
	if (offset % size || u64(offset) + size > machine.memory.size())
		fail("block %u, thread %u: %u bytes at %u of %zu bytes of shared memory", machine.block, machine.thread, size, offset,
			machine.memory.size());
	return &machine.memory[offset];
}

void check_source(const void *from, size_t size) {
	const char *first = static_cast<const char *>(machine.launch.from), *at = static_cast<const char *>(from);
	if (first && (at < first || at + size > first + machine.launch.from_bytes || (at - first) % 16))
		fail("block %u, thread %u copies from byte %td of %zu", machine.block, machine.thread, at - first,
			machine.launch.from_bytes);
}

void copy(u32 offset, const void *from) {
	check_source(from, 16);
	memset(shared(offset, 16), POISON, 16);
	machine.fibers[machine.thread].open.push_back({offset, from});
}

void commit() {
	Fiber &f = machine.fibers[machine.thread];
	f.groups.push_back(std::move(f.open));
	f.open.clear();
}

void wait_copies(size_t pending) {
	auto &groups = machine.fibers[machine.thread].groups;
	for (; groups.size() > pending; groups.erase(groups.begin()))
		for (const Copy &c : groups.front()) memcpy(shared(c.to, 16), c.from, 16);
}

namespace {
struct Kernel {
	std::string name;
	u32 threads;
	Entry entry;
};
std::vector<Kernel> &kernels() {
	static std::vector<Kernel> list;
	return list;
}
} // namespace

Registration::Registration(const char *name, u32 threads, Entry entry) { kernels().push_back({name, threads, entry}); }

Entry find(const char *name, u32 *threads) {
	for (const Kernel &k : kernels()) {
		if (k.name != name) continue;
		*threads = k.threads;
		return k.entry;
	}
	fail("no kernel is called %s", name);
}

} // namespace emu
