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
// #include <link.h>
//
// extern int evald_main(int argc, char **argv);
//
// int __libc_start_main(int (*main)(int, char **), int argc, char **argv, void (*init)(int, char **, char **), void (*fini)(void), void (*end)(void), void *stack);
//
// extern const char __ehdr_start[] __attribute__((visibility("hidden"))); // where the library begins in memory
//
// // Runs the library's constructors, one of which starts Go. The C library leaves that to a program before glibc 2.34; later ones
// // leave it to a program that has such a function.
// static void evaldinit(int argc, char **argv, char **variables) {
// 	void (**all)(int, char **, char **) = 0;
// 	unsigned long bytes = 0;
// 	for (const ElfW(Dyn) *d = _DYNAMIC; d->d_tag != DT_NULL; d++) {
// 		if (d->d_tag == DT_INIT_ARRAY) all = (void (**)(int, char **, char **))(__ehdr_start + d->d_un.d_ptr);
// 		if (d->d_tag == DT_INIT_ARRAYSZ) bytes = d->d_un.d_val;
// 	}
// 	for (unsigned long i = 0; i < bytes / sizeof *all; i++) all[i](argc, argv, variables);
// }
//
// // The stack has the number of arguments, then the arguments. end is the dynamic linker's.
// __attribute__((used)) void evaldstarted(long *stack, void (*end)(void)) {
// 	__libc_start_main(evald_main, stack[0], (char **)(stack + 1), evaldinit, 0, end, stack);
// }
import "C"
