// Package cpu evaluates the network of nn/net (see there for the layers) on the CPU. A Tower is the weights packed for one
// path of the processor, and Forward computes logits from the planes of a block of positions. Training has convolutions of its own,
// in the folder conv, which are made of the same vectors and the same microkernel, in the folder vector.
//
// Read the files in this order:
//
//	conv.go                         the operation, and what a kernel is
//	go.go                           the operation in plain Go
//	path.go, path_*.go              paths, and which of them this processor has; amx_*.go, features_*.go: how it is asked
//	call.go                         a call of C
//	words.go, int8.go               pairs of bfloat16, and bytes
//	sparse.go, winograd.go          two faster forms
//	tower.go, heads.go, scratch.go  Tower: layers of the operation, the heads, and their memory
//	selftest.go                     each path beside plain Go
//	rates.go, system_*.go           how fast each path is here; the processor's model and its clock
//
// # One operation
//
// Every layer is a conv: for some cells, and each output channel o,
//
//	y[cell][o] = relu(add[cell][o] + bias[o] + sum over taps t and inputs i of weight[t][i][o] * x[cell + t][i])
//
// add and relu are optional, and taps off the board may be skipped, since they add zero. A 3x3 convolution has nine taps; a
// 1x1 convolution and a fully connected layer have one. Each path is one form of this operation, and all are compared with
// the loop in reference_test.go. A value is always summed in the same order (bias, taps, inputs, add), whatever cells are
// computed beside it, so that a position's result does not depend on its block.
//
// On the float32 paths in C the convolutions of the residual blocks are Winograd's (winograd.go). They give the same numbers
// up to rounding, with 110 products per position of 7x6 instead of 304, and those products use the same operation.
//
// If most inputs of a convolution of the residual blocks are zero, only the products of the others are computed (sparse.go).
// In a trained network that is so for nearly all second convolutions.
//
// # Activations
//
// Channels are innermost: [position][padded cell][channel], with the channels rounded up to whole vectors. A board of H rows
// and W columns takes (H+2)*(W+1)+1 padded cells, so that every cell has all its neighbours and those off the board are
// zero. The border to the right of a row is also the border to the left of the next. 2x3, with . for the border:
//
//	. . . .
//	. a b c
//	. d e f
//	. . . .
//	.
//
// Tiles of AMX take 16 rows at a constant distance. For them the positions of a block stand side by side: [padded cell][position][channel].
// So the rows of a tile are one cell of 16 positions, no row is a border, and a tap off the board is skipped.
//
// All layers of a block of positions are computed before the next block begins, so that activations stay in the cache and
// each layer's weights are read once per block.
//
// # Paths
//
// A path is chosen when a network is opened (nn/cpu), of those that the processor has the features for. A path that multiplies bfloat16 still adds in
// float32, keeps the residual stream x in float32 beside its rounded copy, and computes the heads in float32 (amx all but their convolutions). So does a path
// with 8 bits, which has them in the first convolutions of blocks alone (int8.go), and only for networks with ranges.
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
// All but amx also have the sparse form. Tiles are so much faster that skipping zeros would not pay there.
//
// All but the last are C with intrinsics and need cgo. Each is one file, conv_PATH_ARCH.c, which includes the
// vectors of its instructions (folder vector) and the templates that all share: the operation (direct.h; tiles_amd64.h for
// amx), its sparse form (sparse.h, and rows.h for AVX-512), bytes (int8.h) and Winograd's (winograd.h). neon, neonbf16 and
// neoni8mm have been tested by emulation only (make test-arm64), on no processor that has them; EmulatedAMX tests amx where there is none. SelfTest compares each path with plain Go before it is used, so that
// a path that is wrong on some machine is not used there.
//
// # Decisions
//
// A path is one form of the operation (a C template of 6 cells by 4 vectors, tiles, or a Go loop). Everything else,
// the tower and the heads, is Go that all paths share. The operation is C by cgo rather than Go assembly, because
// Go's assembler knows neither AMX nor AVX512-BF16, and there is one call for a layer of a block of positions.
//
// Only first convolutions have 8 bits. The inputs of second convolutions are mostly zero, and the sparse form is faster than any dense
// one. With 8 bits in all layers of the default network the probabilities of win, draw and loss moved by 0.06 to 0.10
// at the 99th percentile, however scales were chosen and weights rounded. Now its weights lie on the steps, where they are as good as
// before, and the inputs are all that is rounded, by 0.016. What is beyond a range is added in float32: with ranges that nothing
// exceeded, the same figure was 0.027, because most values are far below the largest.
//
// Tiles have no form with 8 bits. It would take half the time of a first convolution's products, but to number the inputs and to add what is
// beyond the ranges took as much, on an Intel Xeon (Emerald Rapids): 1.15 times the time of amx for 7x64.
//
// The heads' convolutions are of bfloat16 on amx, and in float32 on all other paths: there they would be a tenth of the time, and the tiles
// make them in a hundredth. Probabilities of win, draw and loss of the default network are off by 0.0082 in place of 0.0072 at the 99th percentile.
//
// Winograd's convolution takes six positions of a block at a time, or their values at the points do not stay in the
// cache. The bfloat16 paths keep the direct form: their inputs at the points would be rounded once more.
//
// avx512 comes before avx512bf16, although that has half the products of direct convolutions: by Winograd's method it is about as
// fast on AMD's Zen 4, and on an Intel Xeon (Emerald Rapids) 3.3 times as fast, where products of bfloat16 have a sixth of AMD's rate.
//
// Rates measures trained networks by what they are like, not any one network: so a shape has one path, and a network that is trained
// further keeps it. It takes the least time of several rounds by the clock of the thread, because other programs then change it by a few in a hundred.
//
// neonbf16 multiplies by BFMMLA, which makes four products where FMLA makes one. BFDOT would fit the template of the others,
// but it makes two, and Winograd's form in float32 makes one where the direct form makes 2.8. If a processor has fewer than
// about 2.4 BFMMLA a cycle to 4 FMLA, neon is faster; so on macOS, where the rate is not known, neon comes first.
//
// BFMMLA rounds otherwise than FMLA: each sum to odd, not to nearest, and numbers below the normal ones become zero. QEMU does
// the same, and the tests hold its sums to the tolerance of all paths.
package cpu
