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
// AdamW or SGD with momentum, a learning rate by schedule, the gradient cut to a global norm, and weight decay that is
// decoupled from the gradient: each step takes rate * L2 * weight off every weight, and nothing off biases. The network
// that is saved is the exponential moving average of the steps' weights.
//
// # Exactness
//
// The same configuration, seed and data give the same weights bit for bit on one machine, with any number of threads,
// and however often the run was stopped, killed and begun again: what a step learns from is a function of the seed and
// the step's number, and all else is in the checkpoint.
package train
