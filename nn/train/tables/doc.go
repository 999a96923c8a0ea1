// Package tables trains networks of pattern tables (package nn/pattern).
//
// # Losses
//
// Two cross-entropies in nats, each a mean weighted by the examples' weights: win, draw and loss, and the policy over legal
// moves. The policy's target is the shares of a search's visits. If a solver found the equally good moves (Example.Solved), the
// target is the sum p of their probabilities, mixed with an even distribution among them:
//
//	-(1-even) log p  -  even * mean over those moves of log of its probability
//
// So the network may choose among good moves, and need not learn which of them a search would prefer. Finished games are not
// learned: such a network is never asked about them.
//
// # Optimizer
//
// Adam in float32. Rows of the table are changed only in steps whose batch contains them (lazy Adam): a batch contains some
// thousands of the 158,974 rows. There is no weight decay, no moving average and no limit on the gradient. Weights of layers stay
// within the range of integers. The saved network is rounded (pattern.Real.Round).
//
// # Exactness
//
// The same configuration, seed and data give the same weights bit for bit on one machine, with any number of threads, however
// often the run was stopped, killed and resumed. Examples are computed in blocks of fixed size whose gradients are added in
// order, and a row's gradient is the sum over its positions in order.
//
// # Decisions
//
// The inner loops are plain Go. A trainer in C with vectors was two to three times as fast, too little gain to justify more
// kernels.
package tables
