// Package train trains the network of package net. gorgonia provides the graph and differentiation on the CPU; the operations are
// our own, made of the kernels of package conv. PyTorch in a Python process can compute the steps instead, on a GPU if there is
// one (torch.go, torch_trainer.py).
//
// Read the files in this order:
//
//	config.go                            Config of a run
//	records.go, survey.go                examples from records, and a first pass that counts them; foretold.go: targets of draws
//	rules.go, taste.go, batch.go         examples of the rules; which of equally good moves to prefer; Example, and batches of examples
//	graph.go, layers.go, loss.go, op.go  the network in gorgonia's graph: its layers, losses and operations
//	solver.go, muon.go                   optimizers
//	trainer.go                           steps; gorgonia.go and torch.go: their two implementations
//	measure.go, metrics.go               losses and accuracies of other examples; lines of metrics
//	checkpoint.go, run.go                the state of a run; Run: a run in a folder
//
// # Losses
//
// All losses are cross-entropies in nats, computed from logits in float64. Each is the mean over the examples that have its
// target, weighted by the examples' weights: win, draw and loss (3 classes, soft targets), the policy over legal actions (soft
// targets) and gameover (4 classes). The total is their weighted sum. Where several moves are known to be equally good, the
// policy's target is the sum of their probabilities, and Weights.Taste mixes in a distribution among them.
//
// # Optimiser
//
// A run uses Muon (for the blocks, with AdamW for the rest) or AdamW. The learning rate rises, and then falls along a
// cosine, the gradient is clipped to a global norm, and weight decay is decoupled from the gradient: each step takes
// rate*L2*weight off every weight, and nothing off biases. The saved network is the exponential moving average of the
// weights over the steps.
//
// A fresh network is its own mirror image (net.Network.Symmetric) and stays so: it need not learn everything twice, and a
// position and its mirror image get the same answer. Other networks are trained as they are. In both cases
// each example is replaced by a random image of it under the symmetries of its board: two with gravity, up to eight without.
//
// # Exactness
//
// The same configuration, seed and data give the same weights bit for bit on one machine, with any number of threads, however
// often the run was stopped, killed and resumed. A step's data are a function of the seed and the step's number; the checkpoint
// has everything else. PyTorch's weights are reproducible bit for bit with the same number of threads on the CPU, and equal
// gorgonia's up to rounding.
//
// # Decisions
//
// Games are held out by a hash of the seed and the game's number, not by shares of files (survey.go). So the choice does not
// depend on the order of files, and additional files do not change it.
//
// A convolution is one operation, including bias, residual and relu. gorgonia keeps every result's memory, so a step allocates
// next to nothing, and all but a few percent of its time is in the kernels. gorgonia's solvers are not used, because their state
// cannot be saved.
//
// Muon trains the blocks' weights, because it reaches lower losses in the same number of steps. Its matrix products cost the same for any
// batch size: an eighth of the rate at 256, and less for larger batches.
//
// The policy's loss is by cell, with the cells in which stones would land as targets, so that the graph needs no actions.
//
// Gradients keep a symmetric network symmetric (net.Spec.Mirror): every example counts for its mirror image too, without any code
// in the kernels.
//
// Python receives batches and returns losses through a pipe, and the state when a run is saved. There is therefore one reader of
// records, one schedule and one format of checkpoints, and the two trainers cannot diverge there. A position is sent as one byte
// per cell and its targets. Other goroutines prepare batches ahead of the one that waits for Python.
//
// One number says little about draws. A search's value becomes a target for win, draw and loss according to how games of the same
// records with such a value ended (foretold.go). The triple with the fewest decisive games would give a draw 0.55 at a value of
// 0.45; of such positions 1 in 10 was drawn.
package train
