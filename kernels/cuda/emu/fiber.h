// Fibers. begin makes a fiber. change leaves one fiber and continues another.
#pragma once

#include <cstddef>
#include <cstdint>

// swapcontext makes a system call for the signal mask each time, which would take most of the emulation's time.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__)

namespace emu {

// Context is the stack of a fiber that does not run. What the fiber needs to continue is on top of the stack.
struct Context {
	void *top;
};

// emu_change pushes the registers that a function must preserve, changes the stack, and pops them.
extern "C" void emu_change(void **from, void *to);
asm(R"(
	.text
	.type emu_change, @function
emu_change:
	push %rbp
	push %rbx
	push %r12
	push %r13
	push %r14
	push %r15
	mov %rsp, (%rdi)
	mov %rsi, %rsp
	pop %r15
	pop %r14
	pop %r13
	pop %r12
	pop %rbx
	pop %rbp
	ret
	.size emu_change, . - emu_change
)");

inline void change(Context &from, Context &to) { emu_change(&from.top, to.top); }

// begin makes a fiber that begins with f. f must not return.
inline void begin(Context &c, char *stack, size_t size, void (*f)()) {
	uintptr_t end = reinterpret_cast<uintptr_t>(stack + size) & ~uintptr_t(15);
	void **top = reinterpret_cast<void **>(end) - 8; // six registers, the function, and no return address
	for (int i = 0; i < 8; i++) top[i] = nullptr;
	top[6] = reinterpret_cast<void *>(f);
	c.top = top;
}

} // namespace emu

#else
#include <ucontext.h>

namespace emu {

typedef ucontext_t Context;

inline void change(Context &from, Context &to) { swapcontext(&from, &to); }

inline void begin(Context &c, char *stack, size_t size, void (*f)()) {
	getcontext(&c);
	c.uc_stack.ss_sp = stack;
	c.uc_stack.ss_size = size;
	c.uc_link = nullptr;
	makecontext(&c, f, 0);
}

} // namespace emu
#endif
