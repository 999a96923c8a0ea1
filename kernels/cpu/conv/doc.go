// Package conv contains float32 convolutions for training the network on a CPU: 3x3 with a border of zeros and 1x1, forward and backward,
// with bias, residual addition and ReLU in the same pass. They are designed for the network's sizes: small boards (a few dozen cells), 5 to
// 256 channels, batches of 64 to a few thousand.
//
// Tensors are row-major: activations [N,H,W,C], channels last, weights [O,I,kernel row, kernel column] as in PyTorch.
//
// Read the files in this order:
//
//	conv.go             Shape, and the plain loops that define the results
//	plain.go            plain Go, with the same tiles; call.go: C
//	path.go, path_*.go  paths, which of them this processor has, and their comparison with plain Go
//	pool.go, job.go     Pool: threads, memory, and the parts of a call
//
// # Paths
//
// The paths are the float32 paths of kernels/cpu: avx512, avx2 and neon in C, and plain Go. A Pool uses the fastest path that the processor
// and the build support and that agrees with plain Go. The paths in C share the vectors and the microkernel of kernels/cpu
// (kernels/cpu/vector): each is one file, train_PATH_ARCH.c, around the template train_kernels.h. They compute 3x3 convolutions on
// transformed tiles, with about half the multiplications of the plain loop (train_layout.h). Their error is similar to that of a float32
// sum, but the last bits differ between paths. neon has been tested only in emulation (make test-arm64).
//
// # Determinism
//
// On one path, results are the same bit for bit in repeated runs and with any number of threads. A board's result does not depend on the
// other boards. Sums over boards are split into parts, which depend only on the shape and are added in a fixed order.
//
// # Decisions
//
// Winograd's tiles have 2x2 outputs here, but 4x4 and 3x3 in kernels/cpu. Larger tiles need fewer products, but their sums are less
// accurate, and they must be transformed three times per training step but only once for inference.
package conv
