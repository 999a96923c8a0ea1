//go:build !(amd64 && cgo)

package cpu

// vectorKernels are those that need cgo and a processor that they were written for.
func vectorKernels() []kernel { return nil }

// emulated are kernels for tests.
func emulated() []kernel { return nil }
