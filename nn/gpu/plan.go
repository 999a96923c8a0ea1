// Package gpu evaluates networks on GPUs, with the kernels of kernels/cuda.
//
//	plan.go, pack.go, rows.go   a kernel for a network and a board, its weights, positions in and answers out
//	network.go, tables.go       the two kinds of network; plan, weights and answers of pattern tables
//	choice.go                   which kernel for how many positions, by measured or predicted times
//	evaluator.go                Backend: the batches of callers; none.go: without GPU support
//	slot.go                     a batch cut into launches, and the place of one: pinned memory and a stream
//	stats.go                    Options, and what the devices have done
//	device.go, session.go       a device, and a session with it: from a new context to the first fault
//	served.go, selftest.go      the network that serves, its test before it does, and the time of launches
//	tune.go, trial.go           a trial of all kernels in another process, and their times, before a device serves
//
// The files of the last three lines, evaluator.go and slot.go need the tag gpu (see kernels/cuda/driver). Without it New says why there
// is no evaluator.
//
// # Decisions
//
// A session is one life of a device (session.go): a context with all that is in it, from a self-test to the first
// call that fails, whatever that was. What went wrong is not repaired; a new session begins. So there is one way back
// from all faults, and a test takes it from each call.
//
// Kernels are tried in a process of its own (Options.Trial). A kernel that faults or does not end costs that process alone, which is
// killed, and the driver frees its context. In this process it would cost the GPU, or keep a thread and a context busy for ever.
//
// One thread a device calls the driver. It asks for a millisecond whether the oldest launch is done, starting others
// as they come, and only then waits. Callers fill and read pinned memory themselves, in slots that are always in one
// place, so a session can gather them all before its memory goes.
package gpu

import (
	"fmt"
	"strings"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/kernels/cuda"
	"github.com/evald/evald/nn/net"
)

// plan is how a network of one configuration evaluates positions of one board.
type plan struct {
	Kernel  cuda.Kernel
	Boards  int // how many positions a block of threads takes at a time
	Scratch int // bytes of global memory that each block of threads needs for itself

	rules game.Rules

	tables cuda.TablesKernel // of a network of pattern tables, and its widths, padded; the rest is of networks of convolutions
	widths [4]int

	config   net.Config
	channels int // C, padded
	columns  int // 2V, padded: outputs of the heads' convolution
	stem     int // inputs of the stem, padded
}

// stemInputs is how many numbers the stem multiplies for one cell: the planes of 3x3 cells.
const stemInputs = 9 * net.PlaneCount

// Target is what a plan must know of a device.
type Target struct {
	Major, Minor int // its compute capability: 9 and 0 are sm_90
	Shared       int // bytes of shared memory that a block of threads may ask for, as the driver says
	Processors   int // its multiprocessors
}

// runs reports whether the target's architecture runs a kernel.
func (t Target) runs(k cuda.Kernel) bool {
	have := 10*t.Major + t.Minor
	return k.Arch == have || k.Arch < have && !k.Exact
}

func (t Target) String() string { return fmt.Sprintf("sm_%d%d", t.Major, t.Minor) }

// newPlan takes the first kernel that the target's architecture runs and that holds the board and the network in the
// shared memory of a block of threads. From sm_80 on there is one for every network and board. It is the kernel for whole
// waves; choose has others for fewer positions.
//
// How much shared memory there is differs by compute capability: 163 KiB on 8.0 (A100) and 8.7, 99 KiB on 8.6, 8.9 and 12.0
// (cards for games and workstations), and 227 KiB on 9.0 (H100, H200) and 10.0 (B200). So the same network is planned for
// the whole tower on one device, and for a half of it, with fewer positions at a time, on another.
func newPlan(c net.Config, r game.Rules, on Target) (plan, error) {
	if err := c.Validate(); err != nil {
		return plan{}, err
	}
	if err := r.Validate(); err != nil {
		return plan{}, err
	}
	plans := plansOf(c, r, on)
	if len(plans) == 0 {
		return plan{}, fmt.Errorf("gpu: no kernel for network %s on board %s runs on %v: take a device of sm_80 or later, or the CPU", c, r, on)
	}
	return plans[0], nil
}

// planOnly is newPlan with the kernel of that name. The error names the kernels that can be chosen.
func planOnly(kernel string, c net.Config, r game.Rules, on Target) (plan, error) {
	if _, err := newPlan(c, r, on); err != nil {
		return plan{}, err
	}
	for _, p := range plansOf(c, r, on) {
		if p.Kernel.Name == kernel {
			return p, nil
		}
	}
	return plan{}, fmt.Errorf("gpu: kernel %q does not evaluate network %s on board %s on %v: choose one of %s", kernel, c, r, on, strings.Join(Variants(c, r, on), ", "))
}

// planHopper is the plan for the first kernel for Hopper alone, if one fits.
//
// Such a kernel serves a network on a board for batches of all sizes, or not at all: the order of its sums, and so the last bits
// of an answer, is another than that of the other kernels, and a row's answer must not depend on its batch or its device. tune
// decides.
func planHopper(c net.Config, r game.Rules, on Target) (plan, bool) {
	for _, p := range plansOf(c, r, on) {
		if p.Kernel.Exact {
			return p, true
		}
	}
	return plan{}, false
}

// plansOf is the plans of all kernels that can evaluate the network on the board and the target, in the order of cuda.Kernels.
// Configuration and rules are valid.
func plansOf(c net.Config, r game.Rules, on Target) (plans []plan) {
	for _, k := range cuda.Kernels() {
		if p, ok := fit(k, c, r); ok && k.Shared <= on.Shared && on.runs(k) {
			plans = append(plans, p)
		}
	}
	return plans
}

// Variants names these kernels.
func Variants(c net.Config, r game.Rules, on Target) []string {
	var names []string
	for _, p := range plansOf(c, r, on) {
		names = append(names, p.Kernel.Name)
	}
	return names
}

// fit makes the plan for one kernel. ok is false if the network or the board does not fit it.
func fit(k cuda.Kernel, c net.Config, r game.Rules) (p plan, ok bool) {
	p = plan{Kernel: k, config: c, rules: r}
	heads := 2 * c.HeadChannels
	if k.Channels == 0 {
		p.Boards, p.channels, p.columns, p.stem = 1, padded(c.Channels), padded(heads), padded(stemInputs)
		halves := cuda.MaxCells * (p.stem + 2*p.channels)
		floats := cuda.MaxCells*p.columns + kept(c, r)
		p.Scratch = (2*halves + 4*floats + 255) &^ 255
		return p, true
	}
	if k.Exact && k.Few {
		return fitFew(k, c, r)
	}
	if k.Exact && k.Channels < 256 {
		return fitHopper(k, c, r)
	}
	keep := 4 * kept(c, r)
	p.Boards = min(k.Rows/r.Cells(), k.Keep/keep)
	p.channels, p.columns, p.stem = k.Channels, k.Channels, 64
	width := max(c.Channels, heads)
	worth := !k.Exact || 2*width > k.Channels // of narrower networks hopper.h has only those on boards that it holds
	return p, p.Boards > 0 && width <= k.Channels && worth
}

// fitHopper is fit for a kernel of hopper.h in kernels/cuda.
func fitHopper(k cuda.Kernel, c net.Config, r game.Rules) (p plan, ok bool) {
	heads := 2 * c.HeadChannels
	// The outputs of the heads' convolution, and what the heads keep, take the place of a board.
	keep := 4 * (r.Cells()*k.Channels + kept(c, r))
	p = plan{Kernel: k, Boards: k.Rows / (cuda.HopperColumns * cuda.HopperRows), config: c, rules: r, channels: k.Channels, columns: k.Channels}
	fits := r.Columns <= cuda.HopperColumns && r.Rows <= cuda.HopperRows && keep <= k.Keep
	return p, fits && c.Channels <= k.Channels && heads <= k.Channels
}

// fitFew is fit for a kernel of few.h in kernels/cuda, which is for boards that its family's first kernel holds too.
func fitFew(k cuda.Kernel, c net.Config, r game.Rules) (p plan, ok bool) {
	for _, first := range cuda.Kernels() {
		if first.Family() == k.Family() {
			p, ok = fit(first, c, r)
			break
		}
	}
	keep := 4 * (64*r.Cells() + kept(c, r)) // the outputs of the heads' convolution are float32
	p.Kernel, p.Boards = k, k.Rows/cuda.FewRows
	return p, ok && r.Columns <= cuda.FewColumns && r.Rows*(r.Columns+1) <= cuda.FewRows && 2*c.HeadChannels <= 64 && keep <= k.Keep
}

// kept is how many float32 the heads keep for a board: means and maxima, features, the logits and weights of actions, and the logits of
// outcomes.
func kept(c net.Config, r game.Rules) int { return 2*c.HeadChannels + c.Hidden + 2*r.Actions() + 3 }

// padded is n rounded up to a multiple of 16, which is what one matrix instruction multiplies.
func padded(n int) int { return (n + 15) &^ 15 }

// job is the argument of a kernel, laid out in memory like Job of kernels/cuda/board.h.
type job struct {
	Weights, Positions, Out, Scratch uint64 // addresses on the device
	ScratchBytes                     uint64 // of each block of threads
	N                                int32  // how many positions

	rows, columns, inARow, gravity, wide int32
	blocks, channels, head, hidden       int32
	boards, actions                      int32
}

// Job is the launch for n positions on a device with the given number of multiprocessors. The caller sets the addresses. If there are
// too few positions to fill the device, each block of threads gets fewer and ends earlier. Answers do not depend on that.
func (p plan) Job(n, processors int) job {
	flag := func(b bool) int32 {
		if b {
			return 1
		}
		return 0
	}
	r, c := p.rules, p.config
	if p.isTables() {
		c = net.Config{HeadChannels: p.widths[1], Hidden: p.widths[2]}
	}
	return job{
		ScratchBytes: uint64(p.Scratch), N: int32(n),
		rows: int32(r.Rows), columns: int32(r.Columns), inARow: int32(r.InARow),
		gravity: flag(r.Gravity), wide: flag(p.words() == 4),
		blocks: int32(c.Blocks), channels: int32(p.channels), head: int32(c.HeadChannels), hidden: int32(c.Hidden),
		boards: int32(p.together(n, processors)), actions: int32(r.Actions()),
	}
}

// together is how many of n positions a block of threads, or a cluster of them, takes at a time.
func (p plan) together(n, processors int) int {
	if p.isTables() {
		return p.tablesTogether(n, processors)
	}
	return max(1, min(p.Boards, ceil(n, max(1, processors/p.Kernel.Cluster))))
}

// Groups is how many blocks of threads, or clusters of them, the job keeps busy. Fewer may be started: each takes the next group in turn.
func (j job) Groups() int { return ceil(int(j.N), int(j.boards)) }

// Blocks is how many blocks of threads to start for a job. atOnce is the number of clusters that run on the device at the same time.
func (p plan) Blocks(j job, atOnce int) int {
	return p.Kernel.Cluster * max(1, min(j.Groups(), atOnce))
}

func ceil(n, d int) int { return (n + d - 1) / d }
