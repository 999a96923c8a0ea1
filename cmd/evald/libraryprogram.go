//go:build library && linux && (amd64 || arm64)

package main

// The library can also be started as a program, so that a Python wheel contains the code once. For that it names the dynamic linker, as
// programs do, and has an entry point that calls main through the C library's start function.

// #cgo LDFLAGS: -Wl,-e,evaldstart
//
// #if defined(__x86_64__)
// const char evaldlinker[] __attribute__((section(".interp"), used)) = "/lib64/ld-linux-x86-64.so.2";
// __asm__(".globl evaldstart\n.type evaldstart,@function\nevaldstart:\n\txor %ebp, %ebp\n\tmov %rsp, %rdi\n\tmov %rdx, %rsi\n\tand $-16, %rsp\n\tcall evaldstarted\n\thlt\n");
// #else
// const char evaldlinker[] __attribute__((section(".interp"), used)) = "/lib/ld-linux-aarch64.so.1";
// __asm__(".globl evaldstart\n.type evaldstart,%function\nevaldstart:\n\tmov x29, #0\n\tmov x30, #0\n\tmov x1, x0\n\tmov x0, sp\n\tb evaldstarted\n");
// #endif
//
// extern int evald_main(int argc, char **argv);
//
// int __libc_start_main(int (*main)(int, char **), int argc, char **argv, void (*init)(void), void (*fini)(void), void (*end)(void), void *stack);
//
// // The stack has the number of arguments, then the arguments. end is the dynamic linker's.
// __attribute__((used)) void evaldstarted(long *stack, void (*end)(void)) {
// 	__libc_start_main(evald_main, stack[0], (char **)(stack + 1), 0, 0, end, stack);
// }
import "C"
