package gpu

import "github.com/evald/evald/kernels/cuda"

// speed is what a kernel does on one multiprocessor of an H100, by the measurements in LOG.md of kernels/cuda. Other devices have other
// numbers, but ratios of times are enough to choose a kernel.
type speed struct {
	rate  float64 // FLOP/s of the tower's products, those with rows of zeros included, if a block of threads has all the boards that it can take
	least float64 // the part of that time which it takes for one board
}

// kind is the kernels of a family, either those for few boards or the others.
type kind struct {
	cuda.Family
	few bool
}

// The speeds of few.h are rough guesses; all others follow from measured times.
var speeds = map[kind]speed{
	{cuda.Family{Channels: 64}, false}:  {3.4e12, 0.6},
	{cuda.Family{Channels: 128}, false}: {3.4e12, 0.6},
	{cuda.Family{Channels: 256}, false}: {2.9e12, 0.7},
	{cuda.Family{Channels: 64}, true}:   {1.4e12, 1},
	{cuda.Family{Channels: 128}, true}:  {1.8e12, 1},
	{cuda.Family{Channels: 256}, true}:  {3.0e12, 1},

	{cuda.Family{Channels: 64, Exact: true}, false}:  {5.9e12, 0.7},
	{cuda.Family{Channels: 128, Exact: true}, false}: {6.7e12, 1},
	{cuda.Family{Channels: 256, Exact: true}, false}: {6.4e12, 0.7},
	{cuda.Family{Channels: 64, Exact: true}, true}:   {5.0e12, 0.5},
	{cuda.Family{Channels: 128, Exact: true}, true}:  {5.0e12, 0.5},
	{cuda.Family{Channels: 256, Exact: true}, true}:  {5.0e12, 0.6},
}

// predict estimates the seconds that a launch of n positions takes on a device with the given number of multiprocessors. It chooses among kernels
// whose times were not measured: on boards other than 7x6, and in emulation. It knows nothing of tower_any, whose family has no other kernel.
func (p plan) predict(n, processors int) float64 {
	const launch, beside = 3e-6, 15e-6 // beside: a group's planes, heads and layers
	k, boards := p.Kernel, p.together(n, processors)
	waves := float64(ceil(ceil(n, boards), max(1, processors/k.Cluster)))
	if k.Channels == 0 {
		return waves
	}
	rows := k.Rows
	if k.Exact && !k.Few && k.Channels < 256 {
		rows = p.Boards * cuda.HopperRows * 8
	}
	if !k.Few && k.Threads == 128 {
		rows *= 2 // two blocks share a multiprocessor, and each has half of its speed
	}
	s := speeds[kind{k.Family(), k.Few}]
	products := 2 * 18 * float64(p.config.Blocks*rows*k.Channels*k.Channels/k.Cluster) / s.rate
	return launch + waves*(beside+products*max(s.least, float64(boards)/float64(p.Boards)))
}
