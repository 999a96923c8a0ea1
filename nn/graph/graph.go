// Package graph makes a gorgonia program the network of an evaluator, and shows batches as gorgonia's tensors.
//
// A batch itself has bitboards: 16 bytes a position in place of the 840 of its planes. Planes are made when a program needs them. What a
// program answers needs no copy: WDL and Policy return tensors in the batch's own memory.
package graph

import (
	"context"
	"fmt"
	"sync"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/nn/net"
)

// WDL returns the batch's probabilities of win, draw and loss as a tensor [N,3] in the same memory. The batch has at least one row.
func WDL(b *eval.Batch) *tensor.Dense {
	return tensor.New(tensor.WithShape(len(b.Pos), 3), tensor.WithBacking(b.WDL))
}

// Policy returns the batch's probabilities of moves as a tensor [N,A] in the same memory. The batch has at least one row.
func Policy(b *eval.Batch) *tensor.Dense {
	return tensor.New(tensor.WithShape(len(b.Pos), b.Board.Actions()), tensor.WithBacking(b.Policy))
}

// Program is a gorgonia graph that evaluates N positions of a board at a time. All nodes are float32 matrices or tensors. Probabilities
// are for the side to move.
type Program struct {
	Board  *game.Board
	Planes *gorgonia.Node // the input [N,5,H,W], which NewBackend fills with net.Planes
	WDL    *gorgonia.Node // [N,3]: logits of win, draw and loss
	Policy *gorgonia.Node // [N,A]: logits of the actions; those of illegal ones do not matter
}

// Backend evaluates batches with a program, with Source eval.CPU.
type Backend struct {
	program Program
	rows    int

	mu          sync.Mutex // a machine runs one batch at a time
	vm          gorgonia.VM
	planes      *tensor.Dense
	wdl, policy gorgonia.Value
	legal       []bool
}

// NewBackend prepares a machine for the program's graph, to which nothing may be added from then on. The error names a node of the wrong
// shape or type. The caller must close the backend.
func NewBackend(p Program) (*Backend, error) {
	if p.Board == nil || p.Planes == nil || p.WDL == nil || p.Policy == nil {
		return nil, fmt.Errorf("graph: a program needs Board, Planes, WDL and Policy")
	}
	if p.Planes.Shape().Dims() != 4 {
		return nil, fmt.Errorf("graph: node planes is %v, want [N,%d,%d,%d]", p.Planes.Shape(), net.PlaneCount, p.Board.Rows(), p.Board.Columns())
	}
	e := &Backend{program: p, rows: p.Planes.Shape()[0], legal: make([]bool, p.Board.Actions())}
	for _, node := range []struct {
		name string
		*gorgonia.Node
		want tensor.Shape
	}{
		{"planes", p.Planes, tensor.Shape{e.rows, net.PlaneCount, p.Board.Rows(), p.Board.Columns()}},
		{"wdl", p.WDL, tensor.Shape{e.rows, 3}},
		{"policy", p.Policy, tensor.Shape{e.rows, p.Board.Actions()}},
	} {
		if !node.Shape().Eq(node.want) || node.Dtype() != tensor.Float32 {
			return nil, fmt.Errorf("graph: node %s is %v of %v, want %v of float32 for board %v", node.name, node.Shape(), node.Dtype(), node.want, p.Board.Rules())
		}
	}
	e.planes = tensor.New(tensor.WithShape(p.Planes.Shape()...), tensor.Of(tensor.Float32))
	if err := gorgonia.Let(p.Planes, e.planes); err != nil {
		return nil, fmt.Errorf("graph: node planes: %w", err)
	}
	gorgonia.Read(p.WDL, &e.wdl)
	gorgonia.Read(p.Policy, &e.policy)
	e.vm = gorgonia.NewTapeMachine(p.Planes.Graph())
	return e, nil
}

// Attributes implements eval.Backend. A program may answer a row otherwise in another place of its batch.
func (e *Backend) Attributes() eval.Attributes {
	return eval.Attributes{Rows: e.rows, Supports: e.supports}
}

func (e *Backend) supports(b *game.Board) error {
	if r := e.program.Board.Rules(); b.Rules() != r {
		return &eval.UnsupportedError{Model: "a gorgonia program", Rules: b.Rules(), Games: r.String(), Instead: "make a graph for that board"}
	}
	return nil
}

// Compute implements eval.Backend. It checks the context between runs of the program. If a logit is not finite, the error names the first
// such row.
func (e *Backend) Compute(ctx context.Context, b *eval.Batch) error {
	if err := e.supports(b.Board); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for first := 0; first < len(b.Pos); first += e.rows {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("evaluate: %w", err)
		}
		if err := e.run(b, first, min(e.rows, len(b.Pos)-first)); err != nil {
			return fmt.Errorf("evaluate: %w", err)
		}
	}
	return nil
}

// run answers n rows from first on. The program's other rows keep the planes of an earlier run.
func (e *Backend) run(b *eval.Batch, first, n int) error {
	planes := e.planes.Data().([]float32)
	net.Planes(b.Board, b.Pos[first:first+n], planes[:net.PlanesSize(b.Board, n)])
	defer e.vm.Reset()
	if err := e.vm.RunAll(); err != nil {
		return fmt.Errorf("run the graph: %w", err)
	}
	wdl, policy := e.wdl.Data().([]float32), e.policy.Data().([]float32)
	for k := range n {
		i, actions := first+k, len(e.legal)
		if err := e.answer(b, i, wdl[3*k:3*k+3], policy[k*actions:(k+1)*actions]); err != nil {
			return err
		}
	}
	return nil
}

// answer fills row i of the batch from its logits.
func (e *Backend) answer(b *eval.Batch, i int, wdl, policy []float32) error {
	clear(e.legal)
	for set := b.Board.Legal(b.Pos[i]); !set.IsZero(); set = set.WithoutFirst() {
		e.legal[b.Board.Action(set.First())] = true
	}
	for o, x := range wdl {
		if !finite(x) {
			return fmt.Errorf("row %d: %w", i, b.NotFinite(i, fmt.Sprintf("win-draw-loss logit %d is %v", o, x)))
		}
	}
	for a, x := range policy {
		if e.legal[a] && !finite(x) {
			return fmt.Errorf("row %d: %w", i, b.NotFinite(i, fmt.Sprintf("logit of action %d is %v", a, x)))
		}
	}
	net.Softmax(b.WDLRow(i), wdl)
	net.MaskedSoftmax(b.PolicyRow(i), policy, e.legal)
	b.Source[i] = eval.CPU
	return nil
}

func finite(x float32) bool { return x-x == 0 }

// Close frees the machine. There must be no more calls.
func (e *Backend) Close() error { return e.vm.Close() }
