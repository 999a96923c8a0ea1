package gpu

import "github.com/evald/evald/kernels/cuda"

// speed is what a kernel does on one multiprocessor of an H100, as measured (LOG.md in kernels/cuda). Other devices have other
// numbers, but it is ratios of times that choose a kernel.
type speed struct {
	rate  float64 // FLOP/s of the tower's products, those with rows of zeros included, if a block of threads has all the boards that it can take
	least float64 // the part of that time which it takes for one board
}

// speeds has the kernels of a kind by their channels.
var speeds = map[bool]map[bool]map[int]speed{ // for Hopper alone?, for few boards?
	false: {
		false: {64: {3.4e12, 0.6}, 128: {3.4e12, 0.6}, 256: {2.9e12, 0.7}},
		true:  {64: {1.4e12, 1}, 128: {1.8e12, 1}, 256: {3.0e12, 1}},
	},
	true: {
		false: {64: {5.9e12, 0.7}, 128: {6.7e12, 1}, 256: {6.4e12, 0.7}},
		true:  {64: {5.0e12, 0.5}, 128: {5.0e12, 0.5}, 256: {5.0e12, 0.6}},
	},
}

// predict is about the seconds that a launch of n positions takes on so many multiprocessors. It chooses kernels for boards on which
// none was measured, and on devices that measure none. Of tower_any nothing is known; it is the only one of its family.
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
	s := speeds[k.Exact][k.Few][k.Channels]
	products := 2 * 18 * float64(p.config.Blocks*rows*k.Channels*k.Channels/k.Cluster) / s.rate
	return launch + waves*(beside+products*max(s.least, float64(boards)/float64(p.Boards)))
}
