// Package net is the network: its configuration, its weights and their file, its input planes, and a forward pass in plain Go. The forward
// pass is deliberately slow and simple: it defines what the kernels compute, and tests compare every fast kernel with it.
//
// Read the files in this order:
//
//	config.go, network.go              Config and Network
//	file.go, ranges.go                 its file; ranges of activations for 8 bits
//	init.go, mirror.go                 fresh weights; mirror images
//	planes.go                          planes of positions
//	forward.go, layers.go, softmax.go  the reference forward pass
//	evaluator.go                       the same as a Backend
//	torch.go                           the same network as a PyTorch module, torch_model.py
//
// # Shapes
//
// N is the batch, C channels, H = Rows with row 0 at the TOP (as on Kaggle's flat board), W = Columns, B residual blocks, V = HeadChannels,
// F = Hidden. As in PyTorch, tensors are float32 and row-major, convolutions are cross-correlations with kernels [out, in, kernel row,
// kernel column], and cells off the board count as zero. The names of tensors are those of the module in torch_model.py.
//
// # Planes [N,5,H,W]
//
//	0 own       1 where the side to move has a stone
//	1 other     1 where the other side has a stone
//	2 playable  1 where the next stone may land: the lowest empty cell of a column, every empty cell without gravity
//	3 parity    1 in rows that the side to move will fill, if the columns fill up to the end
//	4 board     InARow/4 everywhere: exactly 1 for connect four
//
// Parity decides zugzwang, and zugzwang decides most long games of Connect Four. Late in the game, both sides must play in turn in the last
// open column, and a threat helps only the side that gets to play on its row. Which side that is depends on the number of stones on the
// whole board, which no stack of 3x3 convolutions can count. Row r (counted from 0 at the BOTTOM) of the last column is played when Cells -
// Rows + r stones have been played. The side to move plays when the number of stones has the parity of plies, so the plane is 1 if r +
// Cells - Rows + plies is even. On the empty 7x6 board, these are the rows r = 0, 2 and 4.
//
// The board plane tells a network that was trained on several games which of them it plays. It also shows where the edges are, because the
// padding around the plane is zero.
//
// # Tower
//
//	stem      x = relu(conv3x3(planes))                                  5 -> C
//	block i   x = relu(x + conv2(relu(conv1(x)))), both 3x3              C -> C, B times
//
// There is no batch normalisation. In a fresh network conv2 is zero, so every block is the identity, and conv1 is scaled by 1/sqrt(B)
// (after Zhang et al., "Fixup Initialization", 2019).
//
// # Value head
//
//	v = relu(conv1x1(x))                                                 C -> V
//	p = [mean of v over the cells, then max of v over the cells]         [2V]
//	f = relu(fc p)                                                       2V -> F
//	wdl(f)       logits of win, draw, loss for the side to move          F -> 3
//	gameover(f)  logits of: not over, own win, other's win, draw         F -> 4
//
// # Policy head
//
//	q = relu(conv1x1(x))                                                 C -> V
//	cells = conv1x1(q)                                                   V -> 1, one logit a cell
//
// The logit of an action is the logit of the cell in which its stone would land. With gravity this is the sum of logit*playable over a
// column; without gravity an action is a cell. Probabilities are the softmax over the legal actions.
//
// No tensor depends on the size of a board, so a file of weights can be used with any Rules.
//
// # Mirror images
//
// A network that package train starts is its own mirror image, weight by weight (Spec.Mirror). Channels come in pairs: one of a pair sees
// the board as the other sees its mirror image. In such a symmetric network, a position and its mirror image have the same value and
// mirrored policies, up to rounding. Nothing in this package requires symmetry.
//
// # Tensors
//
//	stem.weight             [C,5,3,3]   stem.bias            [C]
//	blocks.0.conv1.weight   [C,C,3,3]   blocks.0.conv1.bias  [C]
//	blocks.0.conv2.weight   [C,C,3,3]   blocks.0.conv2.bias  [C]   and so on for each block
//	value.conv.weight       [V,C,1,1]   value.conv.bias      [V]
//	value.fc.weight         [F,2V]      value.fc.bias        [F]
//	value.wdl.weight        [3,F]       value.wdl.bias       [3]
//	value.gameover.weight   [4,F]       value.gameover.bias  [4]
//	policy.conv.weight      [V,C,1,1]   policy.conv.bias     [V]
//	policy.logit.weight     [1,V,1,1]   policy.logit.bias    [1]
//
// # Exactness
//
// A position's result never depends on its batch: each position is computed separately, in a fixed order of summation. On one machine,
// results are the same bit for bit. On other architectures the last bits may differ, because Go may fuse multiplications and additions
// there.
package net

// gorgonia.org/tensor requires a version of this package that panics with our Go release. This import makes `go mod tidy` keep a newer
// version.
import _ "go4.org/unsafe/assume-no-moving-gc"
