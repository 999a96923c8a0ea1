// Package train trains the network of package net. gorgonia provides the graph and the differentiation on the CPU; the
// operations are our own, made of the kernels of package conv. PyTorch in a Python process can make the steps instead, on a
// GPU if there is one (torch.go, torch_trainer.py).
//
// Read the files in this order:
//
//	config.go                            Config of a run
//	records.go, survey.go                examples from records, and what is counted in them first; foretold.go: targets of draws
//	rules.go, taste.go, batch.go         examples of the rules; which of equally good moves to prefer; Example, and batches of examples
//	graph.go, layers.go, loss.go, op.go  the network in gorgonia's graph: its layers, losses and operations
//	solver.go, muon.go                   optimizers
//	trainer.go                           steps; gorgonia.go and torch.go: where they are made
//	measure.go, metrics.go               losses and accuracies of other examples; lines of metrics
//	checkpoint.go, run.go                what a killed run resumes from; Run: a run in a folder
//
// # Losses
//
// All losses are cross-entropies in nats, computed from logits in float64. Each is the mean over the examples that have its
// target, weighted by the examples' weights: win, draw and loss (3 classes, soft targets), the policy over legal actions
// (soft targets) and gameover (4 classes). The total is their weighted sum. Where several moves are known to be equally good, the
// policy's target is their probability together, and Weights.Taste mixes in how they should share it.
//
// # Optimiser
//
// A run uses Muon (for the blocks, with AdamW for the rest) or AdamW. The learning rate rises, and then falls along a
// cosine, the gradient is clipped to a global norm, and weight decay is decoupled from the gradient: each step takes
// rate*L2*weight off every weight, and nothing off biases. The saved network is the exponential moving average of the
// weights over the steps.
//
// A fresh network is its own mirror image (net.Network.Symmetric) and stays so: it need not learn everything twice, and a
// position and its mirror image get the same answer. A network that is not symmetric is trained as it is. Each example is
// mirrored with probability 1/2 in both cases.
//
// # Exactness
//
// The same configuration, seed and data give the same weights bit for bit on one machine, with any number of threads, and
// however often the run was stopped, killed and resumed. The data of a step are a function of the seed and the step's
// number, and all else is in the checkpoint. PyTorch's weights are the same bit for bit with the same number of threads on
// the CPU, and gorgonia's up to rounding.
//
// # Decisions
//
// Games are held out by their numbers, a hash of seed and number each, and not by shares of files (survey.go). Which
// ones does not depend on the files' order, and more files change nothing for the games that were there.
//
// A convolution is one operation, with bias, residual and relu in it. gorgonia keeps every result's memory, so a step
// allocates next to nothing, and all but a few percent of its time is in the kernels. gorgonia's solvers are not
// used, because their state cannot be saved.
//
// Muon teaches the blocks' weights, because with as many steps the losses come out lower. Its products of matrices
// cost the same in a step of any batch: an eighth of the rate at 256, and the less the larger.
//
// The policy's loss is by cell, its targets the cells in which stones would land, so that the graph has no actions in
// it.
//
// Gradients keep a symmetric network symmetric (net.Spec.Mirror): every example counts for its mirror image too, and the
// kernels need not know.
//
// Python gets batches and gives losses through a pipe, and the state when a run is saved. So there is one reader of records,
// one schedule, one form of checkpoint, and the two trainers cannot drift apart in them. A position travels as a byte a cell
// and its targets. Batches are made ahead, in other goroutines than the one that waits for Python.
//
// One number says little of draws. A search's value becomes a target for win, draw and loss by how the games of the
// same records with such a value ended (foretold.go). The triple with the fewest decisive games gives a draw 0.55 if
// the value is 0.45; of such positions 1 in 10 was drawn.
package train
