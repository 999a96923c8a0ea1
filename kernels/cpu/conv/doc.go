// Package conv has the float32 convolutions that training the network on a CPU takes: 3x3 with a border of zeros and
// 1x1, forward and backward, with bias, residual addition and ReLU in the same pass. They are made for what the
// network needs, small boards (a few dozen cells), 5 to 256 channels, batches of 64 to some thousands.
//
// Tensors are row-major as in PyTorch: activations [N,C,H,W] (or [N,H,W,C], see Shape), weights [O,I,kernel row,
// kernel column].
//
// # Determinism
//
// Results are the same bit for bit on repeated runs and with any number of threads: work is cut into pieces by the
// shape alone, and sums over pieces run in the order of the pieces.
package conv
