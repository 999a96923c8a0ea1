// Package gpu evaluates networks on GPUs, with the kernels of kernels/cuda.
//
//	plan.go, pack.go, rows.go   which kernel for a network and a board, its weights, positions in and answers out
//	evaluator.go, call.go       Evaluator: batches of callers, cut into launches
//	device.go, session.go       a device, and one life of it: from a new context to a fault
//	slot.go                     a launch on its way: pinned memory, a stream
//	served.go, selftest.go      the network, and the test before it serves
//
// All but the first line needs the tag gpu (see kernels/cuda/driver); without it New says why there is no evaluator.
package gpu

import (
	"fmt"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/kernels/cuda"
	"github.com/evald/evald/nn/net"
)

// Plan is how a network of one configuration evaluates positions of one board.
type Plan struct {
	Kernel  cuda.Kernel
	Boards  int // positions that a block of threads takes at a time
	Scratch int // bytes of global memory that each block of threads needs for itself

	config   net.Config
	rules    game.Rules
	channels int // C, padded
	columns  int // 2V, padded: outputs of the heads' convolution
	stem     int // inputs of the stem, padded
}

// stemInputs are the numbers that the stem multiplies for one cell: the planes of 3x3 cells.
const stemInputs = 9 * net.PlaneCount

// NewPlan chooses the first kernel that holds the board and the network in at most so many bytes of shared memory a
// block of threads, which is what the device allows (232448 on an H100 or H200, 166912 on an A100, 101376 on
// most others since sm_80). There is one for every
// network and board.
func NewPlan(c net.Config, r game.Rules, shared int) (Plan, error) {
	if err := c.Validate(); err != nil {
		return Plan{}, err
	}
	if err := r.Validate(); err != nil {
		return Plan{}, err
	}
	for _, k := range cuda.Kernels() {
		if p, ok := fit(k, c, r); ok && k.Shared <= shared {
			return p, nil
		}
	}
	return Plan{}, fmt.Errorf("gpu: no kernel for network %s on board %s", c, r)
}

// fit plans with a kernel, if network and board fit it.
func fit(k cuda.Kernel, c net.Config, r game.Rules) (Plan, bool) {
	p := Plan{Kernel: k, config: c, rules: r}
	heads := 2 * c.HeadChannels
	if k.Channels == 0 {
		p.Boards, p.channels, p.columns, p.stem = 1, padded(c.Channels), padded(heads), padded(stemInputs)
		bf16 := cuda.MaxCells * (p.stem + 2*p.channels)
		floats := cuda.MaxCells*(p.channels+p.columns) + heads + c.Hidden + r.Actions()
		p.Scratch = (2*bf16 + 4*floats + 255) &^ 255
		return p, true
	}
	keep := 4 * (heads + c.Hidden + r.Actions())
	p.Boards = min(k.Rows/r.Cells(), k.Keep/keep)
	p.channels, p.columns, p.stem = k.Channels, k.Channels, 64
	return p, p.Boards > 0 && c.Channels <= k.Channels && heads <= k.Channels
}

// padded is the next multiple of 16, what one matrix instruction multiplies.
func padded(n int) int { return (n + 15) &^ 15 }

// Job is the argument of a kernel as it lies in memory: Job of kernels/cuda/board.h.
type Job struct {
	Weights, Positions, Out, Scratch uint64 // addresses on the device
	ScratchBytes                     uint64 // of each block of threads
	N                                int32  // positions

	rows, columns, inARow, gravity, wide int32
	blocks, channels, head, hidden       int32
	boards, actions                      int32
}

// Job is the launch for n positions on a device with so many multiprocessors; addresses are the caller's to add. Where the
// positions would not fill the device, each block of threads gets fewer: it is done sooner then. Answers do not depend
// on that.
func (p Plan) Job(n, processors int) Job {
	flag := func(b bool) int32 {
		if b {
			return 1
		}
		return 0
	}
	r, c := p.rules, p.config
	return Job{
		ScratchBytes: uint64(p.Scratch), N: int32(n),
		rows: int32(r.Rows), columns: int32(r.Columns), inARow: int32(r.InARow),
		gravity: flag(r.Gravity), wide: flag(p.words() == 4),
		blocks: int32(c.Blocks), channels: int32(p.channels), head: int32(c.HeadChannels), hidden: int32(c.Hidden),
		boards: int32(max(1, min(p.Boards, ceil(n, processors)))), actions: int32(r.Actions()),
	}
}

// Groups is how many blocks of threads the job keeps busy. Fewer may be started: each takes the next group in turn.
func (j Job) Groups() int { return ceil(int(j.N), int(j.boards)) }

func ceil(n, d int) int { return (n + d - 1) / d }
