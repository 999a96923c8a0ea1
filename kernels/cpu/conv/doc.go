// Package conv has the float32 convolutions for training the network on a CPU: 3x3 with a border of zeros and 1x1, forward
// and backward, with bias, residual addition and ReLU in the same pass. They are made for the network's sizes: small boards
// (a few dozen cells), 5 to 256 channels, batches of 64 to a few thousand.
//
// Tensors are row-major as in PyTorch: activations [N,C,H,W] (or [N,H,W,C], see Shape), weights [O,I,kernel row,
// kernel column].
//
// # Paths
//
// There are three ways to compute: AVX-512, AVX2 with FMA, both in C (fast.c), and plain Go. A Pool takes the first that the
// processor and the build support. The vector paths do 3x3 convolutions on transformed tiles, with about half the
// multiplications of the plain loop. Their error is like that of a float32 sum, but results differ between paths in the last
// bits.
//
// # Determinism
//
// On one path results are the same bit for bit in repeated runs and with any number of threads. A board's result does not
// depend on the other boards, and sums over boards are split into parts that depend on the shape alone and are added in a
// fixed order.
package conv
