package gpu

import "math"

// Of an H200, measured or assumed as in LOG.md of kernels/cuda. Other devices have other numbers, but it is ratios of times
// that choose a kernel.
const (
	clock      = 1.755e9      // of a multiprocessor, 1/s
	towerRate  = 490e12 / 132 // FLOP/s of mma.sync on a multiprocessor
	hopperRate = 790e12 / 132 // FLOP/s of all matrix instructions
	fromL2     = 5.5e12       // bytes/s that all multiprocessors together read from L2
	launching  = 5e-6         // seconds of a launch
)

// predict is the seconds that a launch of n positions takes on so many multiprocessors, by the models in LOG.md of
// kernels/cuda, of which nothing is measured yet. There is no model of tower_any.
func (p plan) predict(n, processors int) float64 {
	boards := min(p.Boards, ceil(n, processors))
	groups := ceil(n, boards)
	cluster := p.Kernel.Cluster
	waves := float64(ceil(ceil(groups, cluster), max(1, processors/cluster)))
	var group float64
	switch k := p.Kernel; {
	case k.Channels == 0:
		return waves
	case k.Exact:
		group = p.predictHopper(boards, min(groups, processors))
	case k.Wide:
		group = p.predictWide(min(groups, processors))
	default:
		group = p.predictTower(boards)
	}
	return waves*group + launching
}

// layers is how many convolutions follow each other.
func (p plan) layers() float64 { return float64(2*p.config.Blocks + 2) }

// predictTower is the seconds of a group of boards by tower.h. A warp without a board computes nothing; if each scheduler has
// one warp, it waits alone at barriers.
func (p plan) predictTower(boards int) float64 {
	k, c := p.Kernel, float64(p.channels)
	computed := 2 * float64(k.Rows) * (64*c + float64(18*p.config.Blocks)*c*c + c*c) / towerRate
	switch {
	case k.Threads == 128:
		computed *= 2 * 0.57
	case 2*boards*p.rules.Cells() <= k.Rows:
		computed *= 0.57
	}
	return computed + 0.5e-6*p.layers() + 5e-6
}

// predictWide is the seconds of a group by wide.h, if so many multiprocessors read weights.
func (p plan) predictWide(busy int) float64 {
	k := p.Kernel
	warps, m := k.Threads/32, k.Rows/16
	n := k.Channels / (8 * warps)
	steps := float64(p.stem+(18*p.config.Blocks+1)*k.Channels) / 16
	shared := float64(warps * 4 * (m + n))
	matrix := float64(warps*m*n) * 6.5 / 4
	weights := 32 * float64(k.Channels)
	l2 := max(weights*float64(busy)/fromL2*clock, weights/64)
	return steps*(max(shared, matrix, l2)+15)/clock + 0.3e-6*p.layers() + 4e-6
}

// predictHopper is the seconds of a group of boards by hopper.h or hopper256.h, if so many multiprocessors have one.
func (p plan) predictHopper(boards, busy int) float64 {
	if p.channels == 256 {
		return p.predictHopper256(boards, busy)
	}
	c, whole := float64(p.channels), 16*64/p.channels
	position := 2 * 48 * (48*c + float64(16*p.config.Blocks)*c*c + math.Ceil(c/48)*48*c)
	if boards <= whole/2 && p.channels == 64 { // one of two warpgroups works
		return position*float64(whole/2)/(0.85*hopperRate) + 1.2e-6*p.layers() + 8e-6
	}
	return position*float64(whole)/(0.9*hopperRate) + 0.6e-6*p.layers() + 8e-6
}

// predictHopper256 is the seconds of a group by hopper256.h: the products and what a layer costs beside them, as both warpgroups wait
// for each other and in a cluster for the other block; or else the weights that blocks or clusters read from L2, for which the ring has
// room meanwhile.
func (p plan) predictHopper256(boards, busy int) float64 {
	c, cluster, layer := float64(p.channels), p.Kernel.Cluster, 1.2e-6
	if cluster > 1 {
		layer = 1.4e-6
	}
	numbers := 64*c + float64(18*p.config.Blocks)*c*c + c*c
	products := 2 * float64(p.Kernel.Rows) * numbers / (0.9 * hopperRate)
	if 2*boards*p.rules.Cells() <= p.Kernel.Rows { // one of two warpgroups works
		products = float64(p.Kernel.Rows) * numbers / (0.85 * hopperRate)
	}
	bytes := 2 * numbers
	l2 := max(bytes*float64(ceil(busy, cluster))/fromL2, bytes/(64*clock))
	return max(products+layer*p.layers(), l2) + 8e-6
}
