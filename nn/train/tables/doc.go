// Package tables trains networks of pattern tables (package nn/pattern).
//
// # Losses
//
// Two cross-entropies in nats, each a mean weighted by the examples' weights: win, draw and loss, and the policy over legal moves. The
// policy's target is each move's share of a search's visits. If a solver has found the equally good moves (Example.Solved), the loss
// depends on the sum p of their probabilities, mixed with an even distribution among them:
//
//	-(1-even) log p  -  even * mean over those moves of log of its probability
//
// So the network may choose among good moves, and need not learn which of them a search would prefer. Finished games are not learned,
// because such a network never has to evaluate them.
//
// # Optimizer
//
// The optimizer is Adam in float32. A step changes only the rows of the table that its batch contains (lazy Adam): a batch contains some
// thousands of the 158,974 rows. There is no weight decay, no moving average and no limit on the gradient. The weights of layers are kept
// within the range of integers. The saved network is rounded (pattern.Real.Round).
//
// # Exactness
//
// The same configuration, seed and data give the same weights bit for bit on one machine, with any number of threads, and also if the run
// is stopped, killed and resumed. Examples are computed in blocks of fixed size, whose gradients are added in order. The gradient of a row
// is the sum over its examples, in order.
//
// # Decisions
//
// The inner loops are plain Go. A trainer in C with vectors was two to three times as fast, which is too small a gain for more kernels to
// maintain.
package tables
