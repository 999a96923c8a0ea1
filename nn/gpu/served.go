//go:build gpu && cgo && linux && amd64

package gpu

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/kernels/cuda"
)

// served is the network of a Backend, with everything that the devices need of it.
type served struct {
	network network
	only    string // the kernel to use; empty: the best

	// What tune has found; it does not change once there are sessions.
	measured map[Target]Samples // of the test board
	hopper   bool               // the kernels for Hopper are used for all boards that they hold
	barred   []string           // kernels that are not used

	mu      sync.RWMutex
	plans   map[planKey]*planned
	making  sync.Mutex             // locked before mu while something new is made, which may take long; it guards what follows
	weights map[cuda.Family][]byte // packed
	tests   map[string]*test       // by kernel
	wants   map[game.Rules]*eval.Batch
}

type planKey struct {
	rules game.Rules
	on    Target
}

// planned is how positions of one board are evaluated.
type planned struct {
	choice
	variants []*variant // of choice.plans
}

// variant is a kernel with all that a session needs to use it for a board.
type variant struct {
	plan
	weights []byte // in the format of its family
	test    *test
}

// test is the self-test of a kernel, on the first board that it was needed for.
type test struct {
	plan plan
	want *eval.Batch // some positions with the reference's answers
}

func newServed(n network) *served {
	return &served{
		network: n, measured: map[Target]Samples{}, plans: map[planKey]*planned{},
		weights: map[cuda.Family][]byte{}, tests: map[string]*test{}, wants: map[game.Rules]*eval.Batch{},
	}
}

// maxPlans limits the memory for plans, in case a caller uses more and more boards.
const maxPlans = 256

// planned returns the plan for a board. The first plan for a family of kernels packs the weights for it, and the first for a
// kernel computes its self-test's expected answers with the reference, which takes seconds for a large network.
func (n *served) planned(board *game.Board, on Target) (*planned, error) {
	key := planKey{board.Rules(), on}
	n.mu.RLock()
	p := n.plans[key]
	n.mu.RUnlock()
	if p != nil {
		return p, nil
	}
	choice, err := n.choice(key.rules, on)
	if err != nil {
		return nil, err
	}
	p = &planned{choice: choice}
	if p.variants, err = n.variants(board, choice.plans); err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.plans) >= maxPlans {
		clear(n.plans)
	}
	n.plans[key] = p
	return p, nil
}

// choice is by the measured times on the test board, and by predicted ones on others.
func (n *served) choice(r game.Rules, on Target) (choice, error) {
	if n.only != "" {
		p, err := n.network.named(n.only, r, on)
		if err != nil {
			return choice{}, err
		}
		return choose([]plan{p}, on, nil), nil
	}
	families, err := n.families(r, on)
	if err != nil {
		return choice{}, err
	}
	plans := families[0]
	if n.hopper {
		plans = families[len(families)-1]
	}
	var measured Samples
	if r == testBoard.Rules() {
		measured = n.measured[on]
	}
	return choose(plans, on, measured), nil
}

// families are those of the network without the barred kernels, except the first, which is for all sizes. A family whose first kernel is
// barred is left out.
func (n *served) families(r game.Rules, on Target) ([][]plan, error) {
	all, err := n.network.families(r, on)
	if err != nil {
		return nil, err
	}
	barred := func(p plan) bool { return slices.Contains(n.barred, p.Kernel.Name) }
	left := [][]plan{append(all[0][:1:1], slices.DeleteFunc(all[0][1:], barred)...)}
	for _, plans := range all[1:] {
		if !barred(plans[0]) {
			left = append(left, slices.DeleteFunc(plans, barred))
		}
	}
	return left, nil
}

// variants makes what sessions need for plans on a board.
func (n *served) variants(board *game.Board, plans []plan) (all []*variant, err error) {
	n.making.Lock()
	defer n.making.Unlock()
	for _, p := range plans {
		k := p.Kernel
		v := &variant{p, n.weights[k.Family()], n.tests[k.Name]}
		if v.weights == nil {
			if v.weights, err = n.network.pack(p); err != nil {
				return nil, err
			}
			n.weights[k.Family()] = v.weights
		}
		if v.test == nil {
			v.test = &test{plan: p}
			if v.test.want, err = n.want(board); err != nil {
				return nil, err
			}
			n.tests[k.Name] = v.test
		}
		all = append(all, v)
	}
	return all, nil
}

// want is the reference's answers to the probes on a board. There is no more of them than kernels.
func (n *served) want(board *game.Board) (*eval.Batch, error) {
	if b := n.wants[board.Rules()]; b != nil {
		return b, nil
	}
	b := eval.NewBatch(board, probes)
	probe(b)
	if err := n.network.reference().Compute(context.Background(), b); err != nil {
		return nil, fmt.Errorf("gpu: self-test: network %s: %w", n.network, err)
	}
	n.wants[board.Rules()] = b
	return b, nil
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
