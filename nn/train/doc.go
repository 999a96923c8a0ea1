// Package train trains the network of package net on the CPU. gorgonia provides the graph and the differentiation; the
// operations are our own, made of the kernels of package conv.
//
// # Losses
//
// All losses are cross-entropies in nats, computed from logits in float64. Each is the mean over the examples that have its
// target, weighted by the examples' weights: win, draw and loss (3 classes, soft targets), the policy over legal actions
// (soft targets) and gameover (4 classes). The total is their weighted sum.
//
// # Optimiser
//
// A run uses Muon (for the blocks, with AdamW for the rest), AdamW or SGD with momentum. The learning rate follows a
// schedule, the gradient is clipped to a global norm, and weight decay is decoupled from the gradient: each step takes
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
// number, and all else is in the checkpoint.
package train
