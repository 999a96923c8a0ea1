// Package cpu evaluates the network of nn/net (which documents the layers) on the CPU. A Tower is the weights packed for one path, that is,
// for one set of instructions. Its Forward computes logits from the planes of a block of positions. Training has separate convolutions in
// the folder conv; both share the vectors and the microkernel of the folder vector.
//
// Read the files in this order:
//
//	conv.go                         the operation, and the definition of a kernel
//	go.go                           the operation in plain Go
//	path.go, path_*.go              paths, and which of them this processor has; amx_*.go, features_*.go: detection of features
//	call.go                         calls of C
//	words.go, int8.go               pairs of bfloat16, and bytes
//	sparse.go, winograd.go          two faster forms
//	tower.go, heads.go, scratch.go  Tower: layers of the operation, the heads, and their memory
//	selftest.go                     comparison of each path with plain Go
//	rates.go, system_*.go           measured rates of the paths; the processor's model and clock
//
// # One operation
//
// Every layer is a conv: for some cells, and each output channel o,
//
//	y[cell][o] = relu(add[cell][o] + bias[o] + sum over taps t and inputs i of weight[t][i][o] * x[cell + t][i])
//
// add and relu are optional. Taps off the board may be skipped, because they add zero. A 3x3 convolution has nine taps; a 1x1 convolution
// and a fully connected layer have one. Each path is one implementation of this operation; all are compared with the loop in
// reference_test.go. A value is always summed in the same order (bias, taps, inputs, add), so that a position's result does not depend on
// its block.
//
// On the float32 paths in C, the convolutions of the residual blocks use Winograd's method (winograd.go). It gives the same
// numbers up to rounding, with 110 products per position of 7x6 instead of 304, and computes those products with the same
// operation.
//
// If most inputs of a residual block's convolution are zero, only the products of the other inputs are computed (sparse.go). In a trained
// network this applies to nearly all second convolutions.
//
// # Activations
//
// Channels are innermost: [position][padded cell][channel], with the number of channels rounded up to whole vectors. A board of H rows and
// W columns takes (H+2)*(W+1)+1 padded cells, so that every cell has all its neighbours; those off the board are zero. The border to the
// right of a row is also the border to the left of the next row. A 2x3 board, with . for the border:
//
//	. . . .
//	. a b c
//	. d e f
//	. . . .
//	.
//
// AMX tiles take 16 rows at a constant distance. For them, the positions of a block are side by side: [padded
// cell][position][channel]. The rows of a tile are then one cell of 16 positions, no row is a border, and a tap off the board is
// skipped.
//
// All layers of a block of positions are computed before the next block begins. So activations stay in the cache, and each layer's weights
// are read once per block.
//
// # Paths
//
// nn/cpu chooses a path when it opens a network, among those that the processor supports. A path with bfloat16 sums in float32, keeps the
// residual stream x in float32 beside its rounded copy, and computes the heads in float32 (on amx, except their convolutions). The same
// holds for a path with 8 bits, which uses 8 bits only in the first convolutions of blocks (int8.go), and only for networks with ranges.
//
//	amx         bfloat16, tiles of 16x32 by 32x16 (AMX-BF16)
//	avx512vnni  avx512, with 8 bits, 6 cells by 64 channels (AVX512-VNNI)
//	avx512      float32, 6 cells by 64 channels (AVX512F)
//	avx512bf16  bfloat16, 6 cells by 64 channels (AVX512-BF16)
//	avxvnni     avx2, with 8 bits, 6 cells by 16 channels (AVX-VNNI)
//	avx2        float32, 6 cells by 16 channels (AVX2, FMA)
//	neoni8mm    neonbf16, with 8 bits, 6 cells by 16 channels, tiles of 2x8 by 8x2 (FEAT_I8MM)
//	neonbf16    bfloat16, 6 cells by 16 channels, tiles of 2x4 by 4x2 (FEAT_BF16)
//	neon        float32, 6 cells by 16 channels (every arm64)
//	go          float32, 3 cells by 2 channels, no assembly: every machine, every build
//
// All paths but amx also have the sparse form. Tiles are so fast that skipping zeros would not save time.
//
// All but the last are C with intrinsics and need cgo. Each is one file, conv_PATH_ARCH.c, which includes the vectors of its instructions
// (folder vector) and the shared templates: the operation (direct.h; tiles_amd64.h for amx), its sparse form (sparse.h, and rows.h for
// AVX-512), 8 bits (int8.h) and Winograd's method (winograd.h). neon, neonbf16 and neoni8mm have been tested only in emulation (make
// test-arm64), not on processors that have them; EmulatedAMX tests amx on processors without it. Before a path is used, SelfTest compares
// it with plain Go on this machine, so that no path with wrong results is used.
//
// # Decisions
//
// A path implements only the operation (a C template of 6 cells by 4 vectors, tiles, or a Go loop). The tower and the heads are Go code
// that all paths share. The operation is C with cgo rather than Go assembly: Go's assembler supports neither AMX nor AVX512-BF16, and there
// is only one call per layer of a block of positions.
//
// Only first convolutions use 8 bits. The inputs of second convolutions are mostly zero, so the sparse form is faster than any dense one.
// With 8 bits in all layers of the default network, the probabilities of win, draw and loss changed by 0.06 to 0.10 at the 99th percentile,
// for any choice of scales and rounding. With 8 bits in first convolutions only, they change by 0.016: the network's weights already lie on
// the 8-bit steps, without a loss of accuracy, and only the inputs are rounded. The excess of inputs beyond their ranges is added in
// float32. With ranges that no value exceeds, the change was 0.027, because most values are far below the largest.
//
// Tiles have no 8-bit form. It would halve the time of a first convolution's products. But converting the inputs to bytes and adding the
// excess took as much time as that saved, on an Intel Xeon (Emerald Rapids): 1.15 times the time of amx for 7x64.
//
// The heads' convolutions use bfloat16 on amx, and float32 on all other paths. On amx, they would take a tenth of the time in float32; with
// tiles they take a hundredth. The default network's probabilities of win, draw and loss then differ by 0.0082 instead of 0.0072 at the
// 99th percentile.
//
// Winograd's convolution computes six positions of a block at a time, so that their values at the points stay in the cache. The bfloat16
// paths use the direct form, because Winograd's would round the inputs once more, at the points.
//
// avx512 precedes avx512bf16, which needs half the products of direct convolutions: with Winograd's method, avx512 is about as
// fast on AMD's Zen 4, and 3.3 times as fast on an Intel Xeon (Emerald Rapids), where bfloat16 products have a sixth of AMD's
// rate.
//
// Rates measures typical trained networks, not the given one. So each shape has one path, and further training does not change a network's
// path. Rates uses the minimum of several rounds by the thread's clock, which other programs change by only a few percent.
//
// neonbf16 uses BFMMLA, which computes four products where FMLA computes one. BFDOT would fit the other paths' template, but it computes
// only two products, and Winograd's form in float32 needs one product where the direct form needs 2.8. On a processor that executes fewer
// than about 2.4 BFMMLA in the time of 4 FMLA, neon is faster. So on macOS, where the rate is not known, neon comes first.
// BFMMLA rounds differently from FMLA: each sum is rounded to odd, not to nearest, and subnormal numbers become zero. QEMU emulates this,
// and the tests hold its sums to the tolerance of all paths.
package cpu
