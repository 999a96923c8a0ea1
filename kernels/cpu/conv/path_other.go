//go:build !cgo || !(amd64 || arm64)

package conv

// vectorKernels is empty: they need cgo, and amd64 or arm64.
var vectorKernels []kernels
