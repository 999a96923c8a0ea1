package bench

import "golang.org/x/sys/cpu"

// hasVector says that spinVector, and the kernels whose ceiling it measures, can run here.
var hasVector = cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512VPOPCNTDQ

//go:noescape
func spinVector(n int)
