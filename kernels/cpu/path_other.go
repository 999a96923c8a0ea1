//go:build !cgo || !(amd64 || arm64)

package cpu

// vectorKernels needs cgo, and amd64 or arm64, so there are none here.
func vectorKernels() []kernel { return nil }

// emulated are kernels for tests.
func emulated() []kernel { return nil }
