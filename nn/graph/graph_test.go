package graph_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/nn/graph"
	"github.com/evald/evald/nn/net"
)

// A network of one layer, written as a gorgonia program: a logit is the sum of weights of the cells with an own stone, of those with
// another one, and so on. This one likes the centre.
func Example() {
	board := game.MustBoard(game.Connect4)
	const rows = 16
	g := gorgonia.NewGraph()
	planes := gorgonia.NewTensor(g, tensor.Float32, 4, gorgonia.WithShape(rows, net.PlaneCount, 6, 7), gorgonia.WithName("planes"))
	inputs := net.PlanesSize(board, 1)
	weights := make([]float32, inputs*7)
	for cell := range board.Cells() { // the third plane has the cells where the next stone can land
		weights[(2*board.Cells()+cell)*7+cell%7] = float32(3 - max(cell%7-3, 3-cell%7))
	}
	x := gorgonia.Must(gorgonia.Reshape(planes, tensor.Shape{rows, inputs}))
	policy := gorgonia.Must(gorgonia.Mul(x, gorgonia.NodeFromAny(g, tensor.New(tensor.WithShape(inputs, 7), tensor.WithBacking(weights)))))
	outcome := make([]float32, inputs*3)
	wdl := gorgonia.Must(gorgonia.Mul(x, gorgonia.NodeFromAny(g, tensor.New(tensor.WithShape(inputs, 3), tensor.WithBacking(outcome)))))

	backend, err := graph.NewBackend(graph.Program{Board: board, Planes: planes, WDL: wdl, Policy: policy})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer backend.Close()
	b := eval.NewBatch(board, 2)
	for range 6 {
		b.Pos[1] = board.Play(b.Pos[1], 3) // fills the centre
	}
	if err := eval.New(backend, eval.Options{}).Evaluate(context.Background(), b); err != nil {
		fmt.Println(err)
		return
	}
	best, err := graph.Policy(b).Argmax(1) // a tensor in the batch's memory
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("shape of the policy:", graph.Policy(b).Shape(), "best columns, from 0:", best.Data())
	// Output: shape of the policy: (2, 7) best columns, from 0: [3 2]
}

// reference makes a program that computes with random weights, and the same function in plain Go.
func reference(t testing.TB, board *game.Board, rows int) (graph.Program, func(game.Position) (wdl, policy []float32)) {
	t.Helper()
	g, r, inputs := gorgonia.NewGraph(), gametest.Rand(1), net.PlanesSize(board, 1)
	planes := gorgonia.NewTensor(g, tensor.Float32, 4, gorgonia.WithShape(rows, net.PlaneCount, board.Rows(), board.Columns()), gorgonia.WithName("planes"))
	x := gorgonia.Must(gorgonia.Reshape(planes, tensor.Shape{rows, inputs}))
	layer := func(outputs int) (*gorgonia.Node, []float32) {
		w := make([]float32, inputs*outputs)
		for i := range w {
			w[i] = float32(r.NormFloat64() / 4)
		}
		return gorgonia.Must(gorgonia.Mul(x, gorgonia.NodeFromAny(g, tensor.New(tensor.WithShape(inputs, outputs), tensor.WithBacking(w))))), w
	}
	wdl, w1 := layer(3)
	policy, w2 := layer(board.Actions())
	slow := func(p game.Position, w []float32, outputs int) []float32 {
		planes, sums := make([]float32, inputs), make([]float32, outputs)
		net.Planes(board, []game.Position{p}, planes)
		for i, x := range planes {
			for o := range sums {
				sums[o] += x * w[i*outputs+o]
			}
		}
		return sums
	}
	return graph.Program{Board: board, Planes: planes, WDL: wdl, Policy: policy}, func(p game.Position) (_, _ []float32) {
		return slow(p, w1, 3), slow(p, w2, board.Actions())
	}
}

// A program's rows are those of plain Go, in batches that do not fill its last run.
func TestBackend(t *testing.T) {
	board := game.MustBoard(game.Rules{Rows: 5, Columns: 6, InARow: 4, Gravity: true})
	p, slow := reference(t, board, 8)
	e := gametest.Must(graph.NewBackend(p))(t)
	t.Cleanup(func() { gametest.OK(t, e.Close()) })
	b := eval.NewBatch(board, 21)
	copy(b.Pos, gametest.Open(gametest.Rand(2), board, 21))
	gametest.OK(t, evaltest.Raw(e).Evaluate(t.Context(), b))
	for i, pos := range b.Pos {
		wdl, policy := slow(pos)
		legal := make([]bool, len(policy))
		for a := range legal {
			legal[a] = board.CanPlay(pos, a)
		}
		net.Softmax(wdl, wdl)
		net.MaskedSoftmax(policy, policy, legal)
		for j, want := range append(wdl, policy...) {
			if got := append(b.WDLRow(i), b.PolicyRow(i)...)[j]; math.Abs(float64(got-want)) > 1e-5 {
				t.Fatalf("row %d, number %d: %v, want %v", i, j, got, want)
			}
		}
	}
}

// A program is an evaluator like others.
func TestConformance(t *testing.T) {
	board := game.MustBoard(game.Connect4)
	evaltest.Run(t, evaltest.Config{
		New: func(t testing.TB) *eval.Evaluator {
			p, _ := reference(t, board, 16)
			e := gametest.Must(graph.NewBackend(p))(t)
			t.Cleanup(func() { gametest.OK(t, e.Close()) })
			return evaltest.Raw(e)
		},
		Boards: []*game.Board{board}, Sources: []eval.Source{eval.CPU},
	})
}

// The tensors of a batch are its own memory.
func TestTensorsShareMemory(t *testing.T) {
	b := eval.NewBatch(game.MustBoard(game.Connect4), 3)
	b.WDL[5], b.Policy[8] = 0.25, 0.5
	if x, err := graph.WDL(b).At(1, 2); err != nil || x != float32(0.25) {
		t.Errorf("WDL [1,2] is %v, %v", x, err)
	}
	if x, err := graph.Policy(b).At(1, 1); err != nil || x != float32(0.5) {
		t.Errorf("Policy [1,1] is %v, %v", x, err)
	}
	gametest.OK(t, graph.Policy(b).SetAt(float32(0.75), 2, 6))
	if b.PolicyRow(2)[6] != 0.75 {
		t.Errorf("a change of the tensor left the batch as %v", b.PolicyRow(2))
	}
}

// Wrong programs and boards are errors that name what is wrong, and numbers that are not finite name their position.
func TestErrors(t *testing.T) {
	board := game.MustBoard(game.Connect4)
	p, _ := reference(t, board, 4)
	swapped := p
	swapped.WDL = p.Policy
	other := p
	other.Board = game.MustBoard(game.Rules{Rows: 5, Columns: 7, InARow: 4, Gravity: true})
	for name, test := range map[string]graph.Program{"node wdl": swapped, "node planes": other, "needs Board": {}} {
		if _, err := graph.NewBackend(test); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	e := gametest.Must(graph.NewBackend(p))(t)
	defer e.Close()
	var unsupported *eval.UnsupportedError
	if err := e.Compute(t.Context(), eval.NewBatch(other.Board, 1)); !errors.As(err, &unsupported) {
		t.Errorf("another board: %v", err)
	}
	g := gorgonia.NewGraph()
	planes := gorgonia.NewTensor(g, tensor.Float32, 4, gorgonia.WithShape(1, net.PlaneCount, 6, 7), gorgonia.WithName("planes"))
	x := gorgonia.Must(gorgonia.Reshape(planes, tensor.Shape{1, net.PlanesSize(board, 1)}))
	bad := func(outputs int) *gorgonia.Node {
		w := make([]float32, net.PlanesSize(board, 1)*outputs)
		for i := range w {
			w[i] = float32(math.Inf(1))
		}
		return gorgonia.Must(gorgonia.Mul(x, gorgonia.NodeFromAny(g, tensor.New(tensor.WithShape(net.PlanesSize(board, 1), outputs), tensor.WithBacking(w)))))
	}
	broken := gametest.Must(graph.NewBackend(graph.Program{Board: board, Planes: planes, WDL: bad(3), Policy: bad(7)}))(t)
	defer broken.Close()
	if err := broken.Compute(t.Context(), eval.NewBatch(board, 1)); !errors.Is(err, eval.ErrNotFinite) {
		t.Errorf("infinite logits: %v", err)
	}
}
