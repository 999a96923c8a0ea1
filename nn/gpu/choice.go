package gpu

import (
	"math"
	"slices"

	"github.com/evald/evald/kernels/cuda"
)

// choice is what evaluates a network on a board: of a family of kernels, which give the same bits, for each number of
// positions the one that takes the least time.
type choice struct {
	plan         // for the largest batches
	plans []plan // of all kernels of the family that fit
	sizes []size // ascending; the last is for all larger batches too
	wave  int    // positions that all multiprocessors compute at a time with the family's first kernel
}

// size is the kernel for batches of at most `most` positions that exceed the size before.
type size struct {
	most    int
	plan    int     // of choice.plans
	seconds float64 // of a launch of `most` positions
}

// Samples are measured times of launches, by kernel.
type Samples map[string][]Sample

// Sample is the time of a launch.
type Sample struct {
	Positions int     `json:"positions"`
	Seconds   float64 `json:"seconds"`
}

// at is the measured time of a launch of n positions, infinite if it was not measured.
func (s Samples) at(kernel string, n int) float64 {
	for _, x := range s[kernel] {
		if x.Positions == n {
			return x.Seconds
		}
	}
	return math.Inf(1)
}

// family is the plans of all kernels of a plan's family that the target holds. The first is the plan itself.
func family(first plan, on Target) []plan {
	plans := []plan{first}
	for _, p := range plansOf(first.config, first.rules, on) {
		if p.Kernel.Family() == first.Kernel.Family() && p.Kernel.Name != first.Kernel.Name {
			plans = append(plans, p)
		}
	}
	return plans
}

// choose chooses among plans of one family by measured times, or by predicted ones if there are none.
func choose(plans []plan, on Target, measured Samples) choice {
	c := choice{plans: plans, wave: plans[0].Boards * on.Processors}
	for _, n := range c.grid(on.Processors) {
		s := size{n, 0, math.Inf(1)}
		for i, p := range plans {
			seconds := p.predict(n, on.Processors)
			if measured != nil {
				seconds = measured.at(p.Kernel.Name, n)
			}
			if seconds < s.seconds {
				s.plan, s.seconds = i, seconds
			}
		}
		c.sizes = append(c.sizes, s)
	}
	c.plan = plans[c.sizes[len(c.sizes)-1].plan]
	return c
}

// grid is the numbers of positions at which kernels are compared, up to two waves: quarters of the multiprocessors, whole
// numbers of boards on each of them, and waves.
func (c choice) grid(processors int) (sizes []int) {
	for _, quarters := range []int{1, 2, 3} {
		sizes = append(sizes, ceil(quarters*processors, 4))
	}
	for boards := 1; boards*processors < c.wave; boards += max(1, boards/2) {
		sizes = append(sizes, boards*processors)
	}
	sizes = append(sizes, 1, c.wave, 2*c.wave)
	slices.Sort(sizes)
	sizes = slices.Compact(sizes)
	room := c.plans[0].room()
	return slices.DeleteFunc(sizes, func(n int) bool { return n > max(room, 1) })
}

// index is the place in plans of the kernel for n positions.
func (c choice) index(n int) int { return c.size(n).plan }

// size is the first for n positions, or the last of all.
func (c choice) size(n int) size {
	for _, s := range c.sizes {
		if n <= s.most {
			return s
		}
	}
	return c.sizes[len(c.sizes)-1]
}

// seconds is the time of a launch of n positions: that of the next larger number that was measured or predicted, or beyond
// the last of as much more for each wave.
func (c choice) seconds(n int) float64 {
	s := c.size(n)
	return s.seconds * max(1, float64(n)/float64(s.most))
}

// splitThreshold is the fraction of a whole batch's time below which its parts are given to several devices.
const splitThreshold = 0.9

// share returns how many of n rows go to a device in one launch. devices is the number of idle devices, this one included. The share is
// a number of whole waves. Less than a wave is not divided, unless equal parts on several devices are faster; a launch
// distributes its positions evenly among multiprocessors.
func (c choice) share(n, devices int) int {
	room := c.room()
	if waves := min(n, room) / c.wave; waves >= 1 {
		return min(waves, wavesALaunch, ceil(n/c.wave, devices)) * c.wave
	}
	if n >= c.wave {
		return room
	}
	part, least := min(n, room), splitThreshold*c.seconds(n)
	for k := 2; k <= devices; k++ {
		if p := ceil(n, k); p <= room && c.seconds(p) < least {
			part, least = p, c.seconds(p)
		}
	}
	return part
}

// wavesALaunch is the most waves in a launch: enough that its overhead does not matter, and few enough that others do not
// wait long and that a large batch is read while its next part is computed.
const wavesALaunch = 4

// Memory for the positions and answers of one launch, in bytes.
const (
	slotPositions = 512 << 10
	slotAnswers   = 1 << 20
)

// room is how many positions fit the memory of a launch.
func (p plan) room() int { return min(slotPositions/p.PositionBytes(), slotAnswers/p.RowBytes()) }

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
	if p.isTables() {
		const rowsASecond = 3e12 / 33 // bytes of rows
		return launch + beside + float64(n*p.tables.RowBytes())/rowsASecond
	}
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
