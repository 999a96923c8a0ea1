/* A jump through evald_cuda_table for each function, in the order of cuda_functions.h. It leaves the arguments and the
 * return address unchanged. */
	.section .note.GNU-stack, "", @progbits
	.text
	.set index, 0

.macro trampoline name
	.globl \name
	.hidden \name
	.type \name, @function
	.balign 16
\name:
	endbr64
	jmp *(evald_cuda_table + 8 * index)(%rip)
	.size \name, . - \name
	.set index, index + 1
.endm

#define F(name, parameters) trampoline name
#include "cuda_functions.h"
