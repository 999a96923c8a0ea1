// Package conv has the float32 convolutions that training the network on a CPU takes: 3x3 with a border of zeros and
// 1x1, forward and backward, with bias, residual addition and ReLU in the same pass. They are made for what the
// network needs, small boards (a few dozen cells), 5 to 256 channels, batches of 64 to some thousands.
//
// Tensors are row-major as in PyTorch: activations [N,C,H,W] (or [N,H,W,C], see Shape), weights [O,I,kernel row,
// kernel column].
//
// # Paths
//
// There are three ways to compute, of which a Pool takes the first that the processor and the build can: AVX-512, AVX2
// with FMA, both in C (fast.c), and plain Go. The vector paths do 3x3 convolutions on transformed tiles, with about half
// the multiplications of the plain loop. Their error is that of a float32 sum too, but results differ between paths in
// the last bits.
//
// # Determinism
//
// On one path results are the same bit for bit on repeated runs and with any number of threads: a board's result does
// not depend on those beside it, and sums over boards are cut into parts by the shape alone and added in their order.
package conv
