package bench

import "golang.org/x/sys/cpu"

// hasVector says whether this CPU can run spinVector and the kernels whose ceiling it measures.
var hasVector = cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512VPOPCNTDQ

//go:noescape
func spinVector(n int)
