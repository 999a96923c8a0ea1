//go:build !cgo || !(amd64 || arm64)

package cpu

// vectorKernels returns none: they need cgo, and amd64 or arm64.
func vectorKernels() []kernel { return nil }

// emulated are kernels for tests.
func emulated() []kernel { return nil }
