// Package train trains the network of package net on the CPU: gorgonia's graph and differentiation around operations
// of our own, which are the kernels of package conv.
//
// # Losses
//
// All are cross-entropies in nats, computed from logits in float64, each the mean over the examples that have the
// target, weighed by the examples' weights: win, draw and loss (3 classes, soft targets), the policy over legal actions
// (soft targets) and gameover (4 classes). The total is their weighted sum.
//
// # Optimiser
//
// Muon (for the blocks, and AdamW for the rest), AdamW or SGD with momentum, a learning rate by schedule, the gradient cut
// to a global norm, and weight decay that is decoupled from the gradient: each step takes rate * L2 * weight off every
// weight, and nothing off biases. The network that is saved is the exponential moving average of the steps' weights.
//
// A fresh network is its own mirror image (net.Network.Symmetric) and stays so: it need not learn everything twice, and a
// position and its mirror image get the same answer. One that is not symmetric is trained as it is; either learns from
// examples of which a random half is mirrored.
//
// # Exactness
//
// The same configuration, seed and data give the same weights bit for bit on one machine, with any number of threads,
// and however often the run was stopped, killed and begun again: what a step learns from is a function of the seed and
// the step's number, and all else is in the checkpoint.
package train
