package gpu

import (
	"fmt"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/nn/net"
	"github.com/evald/evald/nn/pattern"
)

// network is what a Backend evaluates: a network of convolutions, or one of pattern tables.
type network interface {
	// families returns the plans for a board by family of kernels, whose answers have the same bits. The first plan is of the kernel
	// that every device of the target has. A second family is for Hopper alone.
	families(r game.Rules, on Target) ([][]plan, error)
	named(kernel string, r game.Rules, on Target) (plan, error) // the error names the kernels that can be chosen
	pack(p plan) ([]byte, error)
	reference() eval.Backend // gives the answers that kernels are tested with
	Marshal() ([]byte, error)
	String() string // its shape
}

// convolutions is a network of convolutions.
type convolutions struct{ *net.Network }

func (n convolutions) families(r game.Rules, on Target) ([][]plan, error) {
	first, err := newPlan(n.Config(), r, on)
	if err != nil {
		return nil, err
	}
	all := [][]plan{family(first, on)}
	if h, ok := planHopper(n.Config(), r, on); ok {
		all = append(all, family(h, on))
	}
	return all, nil
}

func (n convolutions) named(kernel string, r game.Rules, on Target) (plan, error) {
	return planOnly(kernel, n.Config(), r, on)
}

func (n convolutions) pack(p plan) ([]byte, error) { return pack(p, n.Network) }
func (n convolutions) reference() eval.Backend     { return net.NewBackend(n.Network) }
func (n convolutions) String() string              { return n.Config().String() }

// tables is a network of pattern tables.
type tables struct {
	*pattern.Network
	words bool // some row is not bytes times a factor: found once, because it needs the whole table
}

func ofTables(n *pattern.Network) tables {
	_, _, small := n.Bytes()
	return tables{n, !small}
}

func (n tables) families(r game.Rules, on Target) ([][]plan, error) {
	p, err := planTables(n, r, on)
	return [][]plan{{p}}, err
}

func (n tables) named(kernel string, r game.Rules, on Target) (plan, error) {
	p, err := planTables(n, r, on)
	if err == nil && p.Kernel.Name != kernel {
		err = fmt.Errorf("gpu: kernel %q does not evaluate network %s on board %s on %v: choose one of %s", kernel, n, r, on, p.Kernel.Name)
	}
	return p, err
}

func (n tables) pack(p plan) ([]byte, error) { return packTables(p.tables, n.Network), nil }
func (n tables) reference() eval.Backend     { return pattern.NewBackend(n.Network) }

// parseNetwork parses a network of either kind.
func parseNetwork(file []byte) (network, error) {
	if pattern.Is(file) {
		n, err := pattern.Parse(file)
		if err != nil {
			return nil, err
		}
		return ofTables(n), nil
	}
	n, err := net.Parse(file)
	return convolutions{n}, err
}
