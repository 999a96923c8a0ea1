// Package onnx writes networks as ONNX files, for ONNX Runtime, Netron and other programs. MarshalPattern is for networks of pattern
// tables. The rest of this text is about networks of convolutions (Marshal). Like the network, the file does not depend on a board size:
// batch, rows and columns are free.
//
// # Input
//
//	planes       float32 [N,5,H,W]  defined by package net: own, other, playable, parity, board
//
// # Outputs
//
// All are float32 and for the side to move. The first three are the network's; the others are computed from them, so that users need not
// mask the policy.
//
//	wdl          [N,3]    logits of win, draw, loss
//	gameover     [N,4]    logits of not over, own win, other's win, draw
//	cells        [N,H,W]  logits of landing in each cell, top row first, playable or not
//	outcome      [N,3]    probabilities of win, draw, loss: the softmax of wdl
//	cell_policy  [N,H,W]  probabilities of moves by the cell where the stone lands: the softmax of cells over the
//	                      playable ones, 0 elsewhere; all 0 if no cell is playable
//	policy       [N,W]    the sum of cell_policy over the rows: with gravity the probability of each column. Without
//	                      gravity take cell_policy, whose cells are in the order of Kaggle's flat board
//
// The network is not trained to evaluate finished games, so callers should check the rules first.
//
// # Metadata
//
// metadata_props contains evald.format and evald.config, as in the safetensors file, and all of Network.Metadata. Read returns these and
// the rest of an ONNX file's header.
//
// # fp16
//
// With Options.FP16, the tower's weights and arithmetic are float16, which GPUs compute several times faster. Planes, heads and outputs
// stay float32: users need not convert them, and float16 is too coarse for probabilities.
package onnx

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/evald/evald/nn/net"
)

// Versions of the format: opset 17 came with ONNX 1.12 of 2022, whose files have IR version 8.
const (
	irVersion = 8
	opset     = 17
)

// Options of Marshal.
type Options struct {
	FP16 bool // float16 in the tower, float32 in the heads
}

// Marshal returns the network as an ONNX file. The same network always gives the same bytes. name is for readers of the file. The error
// names a weight that is not finite, or that float16 cannot represent.
func Marshal(n *net.Network, name string, o Options) ([]byte, error) {
	config, err := json.Marshal(n.Config())
	if err != nil {
		return nil, err
	}
	g := &graph{}
	own := map[string]string{"evald.format": "1", "evald.config": string(config)}
	if o.FP16 {
		own["evald.tower"] = Float16.String()
	}
	for _, spec := range n.Config().Specs() {
		values := n.Weight(spec.Name).Float32s()
		for i, v := range values {
			if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
				return nil, fmt.Errorf("write ONNX: tensor %q has %v as value %d", spec.Name, v, i)
			}
		}
		if o.FP16 && inTower(spec.Name) {
			if err := g.halves(spec.Name, spec.Shape, values); err != nil {
				return nil, fmt.Errorf("write ONNX: %w", err)
			}
		} else {
			g.floats(spec.Name, spec.Shape, values)
		}
	}
	g.network(n.Config(), o)
	about := "ConnectX network " + n.Config().String() + ". Input: planes [N,5,H,W]. Outputs, for the side to move: logits wdl, gameover, cells; probabilities outcome, policy, cell_policy."
	return g.file(name, about, n.Metadata, own), nil
}

// inTower reports whether a weight belongs to the stem or the blocks.
func inTower(weight string) bool {
	return strings.HasPrefix(weight, "stem.") || strings.HasPrefix(weight, "blocks.")
}

// file returns a ModelProto with the graph. about is a text for readers of the file. If both metadata contain a key, own takes precedence.
func (g *graph) file(name, about string, network, own map[string]string) []byte {
	metadata := map[string]string{}
	maps.Copy(metadata, network)
	maps.Copy(metadata, own)
	var m message
	m.number(1, irVersion)
	m.text(2, "evald")
	m.text(6, about)
	m.bytes(7, g.marshal(name))
	m.nest(8, func(m *message) { m.number(2, opset) })
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		m.nest(14, func(m *message) {
			m.text(1, key)
			m.text(2, metadata[key])
		})
	}
	return m
}

// network adds the forward pass of package net as nodes. A node's output has its layer's name.
func (g *graph) network(c net.Config, o Options) {
	g.input("planes", float32Type, "N", net.PlaneCount, "H", "W")
	g.int64s("axis.rows", []int{1}, 1)
	g.int64s("plane.playable", nil, 2)
	g.int64s("shape.flat", []int{2}, 0, -1) // keeps N and flattens all other dimensions
	g.floats("minus.infinity", nil, []float32{-1e30})
	g.floats("zero", nil, []float32{0})

	x := "planes"
	if o.FP16 {
		x = g.node("Cast", "planes.half", []string{x}, integer("to", float16Type))
	}
	x = g.relu(g.conv("stem", x, 3))
	for i := range c.Blocks {
		name := "blocks." + strconv.Itoa(i)
		inner := g.relu(g.conv(name+".conv1", x, 3))
		sum := g.node("Add", name, []string{x, g.conv(name+".conv2", inner, 3)})
		x = g.relu(sum)
	}
	if o.FP16 {
		x = g.node("Cast", "tower", []string{x}, integer("to", float32Type))
	}

	v := g.relu(g.conv("value.conv", x, 1))
	cells := []message{ints("axes", 2, 3), integer("keepdims", 0)}
	mean := g.node("ReduceMean", "value.mean", []string{v}, cells...)
	highest := g.node("ReduceMax", "value.max", []string{v}, cells...)
	pool := g.node("Concat", "value.pool", []string{mean, highest}, integer("axis", 1))
	f := g.relu(g.linear("value.fc", "value.fc", pool))
	g.linear("wdl", "value.wdl", f)
	g.linear("gameover", "value.gameover", f)

	q := g.relu(g.conv("policy.conv", x, 1))
	logits := g.conv("policy.logit", q, 1) // [N,1,H,W]
	g.node("Squeeze", "cells", []string{logits, "axis.rows"})
	g.node("Softmax", "outcome", []string{"wdl"}, integer("axis", 1))

	// Outputs computed from the network's: a softmax over the playable cells, summed over columns. Multiplying by the mask makes
	// illegal moves exactly 0, even if all moves are illegal.
	playable := g.node("Gather", "playable", []string{"planes", "plane.playable"}, integer("axis", 1))
	legal := g.node("Greater", "legal", []string{playable, "zero"})
	masked := g.node("Where", "masked", []string{legal, "cells", "minus.infinity"})
	flat := g.node("Reshape", "masked.flat", []string{masked, "shape.flat"})
	soft := g.node("Softmax", "masked.softmax", []string{flat}, integer("axis", 1))
	back := g.node("Reshape", "masked.board", []string{soft, g.node("Shape", "board", []string{"cells"})})
	g.node("Mul", "cell_policy", []string{back, playable})
	g.node("ReduceSum", "policy", []string{"cell_policy", "axis.rows"}, integer("keepdims", 0))

	g.output("wdl", "N", net.WDLs)
	g.output("gameover", "N", net.GameOvers)
	g.output("cells", "N", "H", "W")
	g.output("outcome", "N", net.WDLs)
	g.output("policy", "N", "W")
	g.output("cell_policy", "N", "H", "W")
}

// conv adds a convolution with the weights of the given name. kernel is 1, or 3 with a border of zeros.
func (g *graph) conv(name, x string, kernel int64) string {
	pad := kernel / 2
	return g.node("Conv", name, []string{x, name + ".weight", name + ".bias"}, ints("kernel_shape", kernel, kernel), ints("pads", pad, pad, pad, pad))
}

// linear adds a fully connected layer with weight [out,in], as in PyTorch.
func (g *graph) linear(output, name, x string) string {
	return g.node("Gemm", output, []string{x, name + ".weight", name + ".bias"}, integer("transB", 1))
}

func (g *graph) relu(x string) string { return g.node("Relu", x+".relu", []string{x}) }
