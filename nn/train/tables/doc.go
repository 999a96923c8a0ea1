// Package tables trains networks of pattern tables (package nn/pattern).
//
// # Losses
//
// Two cross-entropies in nats, each a mean weighted by the examples' weights: win, draw and loss, and the policy over legal
// moves. If a search counted visits, the policy's target is their shares. If a solver found the moves that are equally good
// (Example.Solved), the target is their probability together, p, and in part that they share it evenly:
//
//	-(1-even) log p  -  even * mean over those moves of log of its probability
//
// So the network may choose among good moves, and does not have to learn which of them a search would prefer. Finished games
// teach nothing: such a network is never asked about them.
//
// # Optimizer
//
// Adam in float32. Rows of the table are changed only in steps whose batch has them (lazy Adam): a batch has some thousands of
// the 158,974 rows. There is no weight decay, no moving average and no limit on the gradient. Weights of layers stay within
// what whole numbers can say. What is saved is rounded (pattern.Real.Round).
//
// # Exactness
//
// The same configuration, seed and data give the same weights bit for bit on one machine, with any number of threads, and
// however often the run was stopped, killed and resumed. Examples are computed in blocks of fixed size whose gradients are
// added in order, and a row's gradient is the sum over its positions in order.
//
// # Decisions
//
// The inner loops are plain Go. A trainer in C with vectors was two to three times as fast, which did not seem worth kernels
// of its own.
package tables
