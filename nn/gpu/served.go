//go:build gpu && cgo && linux && amd64

package gpu

import (
	"context"
	"fmt"
	"sync"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/kernels/cuda"
	"github.com/evald/evald/nn/net"
)

// served is the network of an Evaluator, with everything that the devices need of it.
type served struct {
	network *net.Network
	only    string // the kernel to use; empty: the best

	mu      sync.RWMutex
	plans   map[planKey]*planned
	making  sync.Mutex         // locked before mu while something new is made, which may take long
	layouts map[string]*layout // by kernel; guarded by making
}

type planKey struct {
	rules game.Rules
	on    Target
}

// planned is how positions of one board are evaluated.
type planned struct {
	Plan
	layout *layout
}

// layout is the weights in the format of one kernel, and the expected result of their self-test.
type layout struct {
	plan    Plan // for the self-test's board
	weights []byte
	want    *eval.Batch // some positions with the reference's answers
}

func newServed(n *net.Network) *served {
	return &served{network: n, plans: map[planKey]*planned{}, layouts: map[string]*layout{}}
}

// maxPlans limits the memory for plans, in case a caller uses more and more boards.
const maxPlans = 256

// planned returns the plan for a board. The first plan for a kernel packs the weights for it and computes the self-test's
// expected answers with the reference, which takes seconds for a large network.
func (n *served) planned(board *game.Board, on Target) (*planned, error) {
	key := planKey{board.Rules(), on}
	n.mu.RLock()
	p := n.plans[key]
	n.mu.RUnlock()
	if p != nil {
		return p, nil
	}
	n.making.Lock()
	defer n.making.Unlock()
	plan, err := planOnly(n.only, n.network.Config(), key.rules, on)
	if err != nil {
		return nil, err
	}
	l := n.layouts[plan.Kernel.Name]
	if l == nil {
		if l, err = n.lay(plan, board); err != nil {
			return nil, err
		}
		n.layouts[plan.Kernel.Name] = l
	}
	p = &planned{plan, l}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.plans) >= maxPlans {
		clear(n.plans)
	}
	n.plans[key] = p
	return p, nil
}

func (n *served) lay(p Plan, board *game.Board) (*layout, error) {
	l := &layout{plan: p, want: eval.NewBatch(board, probes)}
	probe(l.want)
	var err error
	if l.weights, err = Pack(p, n.network); err != nil {
		return nil, err
	}
	if err := net.NewEvaluator(n.network).Evaluate(context.Background(), l.want); err != nil {
		return nil, fmt.Errorf("gpu: self-test: network %s: %w", n.network.Config(), err)
	}
	return l, nil
}

// probes is the number of positions that the self-test compares with the reference.
const probes = 8

// probe fills a batch with the empty board and other unfinished positions, always the same.
func probe(b *eval.Batch) {
	at := game.Position{}
	for i, x := 0, uint64(1); i < len(b.Pos); {
		if b.Board.Result(at) != game.Ongoing {
			at = game.Position{}
		}
		b.Pos[i] = at
		i++
		for moves := 0; moves < 3; { // so that few positions cover many stages of a game
			x = x*6364136223846793005 + 1442695040888963407
			if a := int(x >> 33 % uint64(b.Board.Actions())); b.Board.CanPlay(at, a) {
				if at = b.Board.Play(at, a); b.Board.Result(at) != game.Ongoing {
					break
				}
				moves++
			}
		}
	}
}

// share returns how many of n rows go to a device in one launch. It is a number of whole waves, where a wave is what all
// multiprocessors compute at a time. If there is less than a wave, it is everything, and the launch shares it out evenly.
func (p Plan) share(n, processors int) int {
	wave := p.Boards * processors
	room := min(slotPositions/p.PositionBytes(), slotAnswers/p.RowBytes())
	if most := min(n, room); most >= wave {
		return min(most/wave, wavesALaunch) * wave
	}
	return min(n, room)
}

// wavesALaunch is the most waves in a launch: enough that its overhead does not matter, and few enough that others do not
// wait long and that a large batch is read while its next part is computed.
const wavesALaunch = 4

// Memory for the positions and answers of one launch, in bytes.
const (
	slotPositions = 512 << 10
	slotAnswers   = 1 << 20
)

// slotRows is an upper bound on the rows of a launch.
const slotRows = slotPositions / 16

// name is the kernel's name, for messages.
func (l *layout) name() string { return l.kernel().Name }

func (l *layout) kernel() cuda.Kernel { return l.plan.Kernel }
