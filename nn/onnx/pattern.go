package onnx

import (
	"fmt"

	"github.com/evald/evald/engine/game"
	kernel "github.com/evald/evald/kernels/cpu/pattern"
	"github.com/evald/evald/nn/net"
	"github.com/evald/evald/nn/pattern"
)

// MarshalPattern returns a network of pattern tables as an ONNX file, which computes the network's integers in float32, exactly unless a
// sum exceeds 24 bits. The same network always gives the same bytes. name is for readers of the file.
//
// Inputs:
//
//	rows         int64 [N,33]    the position's rows of the table (pattern.AppendRows)
//	legal        float32 [N,7]   1 for columns with room, 0 for full ones
//
// Outputs, float32 and for the side to move:
//
//	wdl          [N,3]  logits of win, draw, loss
//	moves        [N,7]  logits of the moves by column, legal or not
//	outcome      [N,3]  probabilities of win, draw, loss: the softmax of wdl
//	policy       [N,7]  probabilities of the moves: the softmax of moves over the legal ones, 0 elsewhere
//
// metadata_props contains evald.kind and Network.Metadata.
func MarshalPattern(n *pattern.Network, name string) []byte {
	g := &graph{}
	g.patterns(&n.Weights)
	about := "ConnectX network " + n.String() + " for 7x6x4. Inputs: rows [N,33], legal [N,7]. Outputs, for the side to move: logits wdl, moves; probabilities outcome, policy."
	return g.file(name, about, n.Metadata, map[string]string{"evald.kind": "pattern"})
}

// patterns adds the network of package kernels/cpu/pattern as nodes.
func (g *graph) patterns(w *kernel.Weights) {
	sizes, columns := w.Sizes(), game.Connect4.Columns
	g.input("rows", int64Type, "N", pattern.Each)
	g.input("legal", float32Type, "N", columns)
	g.tensor("table", int16Type, []int{w.Rows(), w.Lanes}, w.Table)
	for _, c := range []struct {
		name  string
		value float32
	}{{"zero", 0}, {"32", 32}, {"127", 127}, {"255", 255}, {"1/64", 1. / 64}, {"1/512", 1. / 512}, {"1/unit", 1. / kernel.Unit}, {"minus.infinity", -1e30}} {
		g.floats(c.name, nil, []float32{c.value})
	}
	g.floats("bias", []int{w.Lanes}, floats(w.Bias))
	g.int64s("axis", []int{1}, 1)
	for i, b := range []int{0, sizes[0], 2 * sizes[0], w.Lanes} {
		g.int64s(fmt.Sprint("lane.", i), []int{1}, int64(b))
	}

	// The accumulator: two halves whose lanes are multiplied, and the lanes that are added to the results.
	each := g.node("Cast", "rows.float", []string{g.node("Gather", "rows.table", []string{"table", "rows"})}, integer("to", float32Type))
	acc := g.node("Add", "acc", []string{g.node("ReduceSum", "rows.sum", []string{each, "axis"}, integer("keepdims", 0)), "bias"})
	part := func(i int) string {
		return g.node("Slice", fmt.Sprint("acc.", i), []string{acc, fmt.Sprint("lane.", i), fmt.Sprint("lane.", i+1), "axis"})
	}
	clip := func(x, high string) string { return g.node("Clip", x+".clip", []string{x, "zero", high}) }
	shift := func(x, scale string) string {
		return g.node("Floor", x+".floor", []string{g.node("Mul", x+".scaled", []string{x, scale})})
	}
	x := shift(g.node("Mul", "product", []string{clip(part(0), "255"), clip(part(1), "255")}), "1/512")
	for i, l := range w.Dense {
		name := fmt.Sprint("dense.", i)
		g.floats(name+".weight", []int{sizes[i+1], sizes[i]}, floats(l.Weight))
		g.floats(name+".bias", []int{sizes[i+1]}, floats(l.Bias))
		if x = g.linear(name, name, x); i < 2 {
			x = clip(shift(x, "1/64"), "127")
		}
	}
	sum := g.node("Add", "sum", []string{x, g.node("Mul", "direct", []string{part(2), "32"})})
	logits := g.node("Mul", "logits", []string{sum, "1/unit"})
	for i, b := range []int64{0, net.WDLs, net.WDLs + int64(columns)} {
		g.int64s(fmt.Sprint("logit.", i), []int{1}, b)
	}
	g.node("Slice", "wdl", []string{logits, "logit.0", "logit.1", "axis"})
	g.node("Slice", "moves", []string{logits, "logit.1", "logit.2", "axis"})

	g.node("Softmax", "outcome", []string{"wdl"}, integer("axis", 1))
	can := g.node("Greater", "can", []string{"legal", "zero"})
	masked := g.node("Where", "masked", []string{can, "moves", "minus.infinity"})
	g.node("Mul", "policy", []string{g.node("Softmax", "masked.softmax", []string{masked}, integer("axis", 1)), "legal"})

	g.output("wdl", "N", net.WDLs)
	g.output("moves", "N", columns)
	g.output("outcome", "N", net.WDLs)
	g.output("policy", "N", columns)
}

func floats[T int8 | int16 | int32](numbers []T) []float32 {
	all := make([]float32, len(numbers))
	for i, x := range numbers {
		all[i] = float32(x)
	}
	return all
}
