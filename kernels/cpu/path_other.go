//go:build !(amd64 && cgo)

package cpu

// vectorKernels needs cgo and amd64, so there are none here.
func vectorKernels() []kernel { return nil }

// emulated are kernels for tests.
func emulated() []kernel { return nil }
