package open_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/nn/open"
)

// A graph is a network under construction, as an ONNX file. Numbers of fields are those of
// onnx.proto.
type graph []byte

func nest(m []byte, field protowire.Number, inner []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(m, field, protowire.BytesType), inner)
}

func number(m []byte, field protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(m, field, protowire.VarintType), v)
}

// node adds op(in) = out with attributes of one whole number, or of a list with one for the names
// that begin with +.
func (g *graph) node(op, in, out string, attributes map[string]uint64) {
	var n []byte
	for _, name := range strings.Fields(in) {
		n = nest(n, 1, []byte(name))
	}
	for _, name := range strings.Fields(out) {
		n = nest(n, 2, []byte(name))
	}
	n = nest(n, 4, []byte(op))
	for name, v := range attributes {
		list := strings.TrimPrefix(name, "+")
		a := nest(nil, 1, []byte(list))
		if list != name {
			a = number(number(a, 8, v), 20, 7) // INTS
		} else {
			a = number(number(a, 3, v), 20, 2) // INT
		}
		n = nest(n, 5, a)
	}
	*g = nest(*g, 1, n)
}

// weights adds a tensor of float32.
func (g *graph) weights(name string, value func() float64, shape ...uint64) {
	var t, raw []byte
	size := uint64(1)
	for _, d := range shape {
		t, size = number(t, 1, d), size*d
	}
	for range size {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(float32(value())))
	}
	*g = nest(*g, 5, nest(nest(number(t, 2, 1), 8, []byte(name)), 9, raw))
}

// port adds an input (field 11) or output (12). Batch 0 is a free one.
func (g *graph) port(field protowire.Number, name string, batch uint64, shape ...uint64) {
	dims := nest(nil, 1, nest(nil, 2, []byte("N")))
	if batch > 0 {
		dims = nest(nil, 1, number(nil, 1, batch))
	}
	for _, d := range shape {
		dims = nest(dims, 1, number(nil, 1, d))
	}
	*g = nest(*g, field, nest(nest(nil, 1, []byte(name)), 2, nest(nil, 1, nest(number(nil, 1, 1), 2, dims))))
}

// file returns the network with a layer x of obs in front, and linear policy and value.
func file(batch uint64, layer func(*graph)) []byte {
	r := rand.New(rand.NewPCG(1, 1))
	g := graph(nest(nil, 2, []byte("test")))
	layer(&g)
	g.node("Flatten", "x", "f", nil)
	g.node("MatMul", "f P", "p", nil)
	g.node("MatMul", "f V", "l", nil)
	g.node("Tanh", "l", "v", nil)
	g.weights("P", func() float64 { return 0.1 * r.NormFloat64() }, 126, 7)
	g.weights("V", func() float64 { return 0.1 * r.NormFloat64() }, 126, 1)
	g.port(11, "obs", batch, 3, 6, 7)
	g.port(12, "p", batch, 7)
	g.port(12, "v", batch, 1)
	return nest(nest(number(nil, 1, 8), 7, g), 8, number(nil, 2, 17)) // IR version 8, opset 17
}

// norm is batch normalisation, with the statistics of the batch in training mode.
func norm(training uint64) func(*graph) {
	return func(g *graph) {
		out := "x"
		if training == 1 {
			out = "x mean1 var1"
		}
		g.node("BatchNormalization", "obs scale bias mean var", out, map[string]uint64{"training_mode": training})
		for name, v := range map[string]float64{"scale": 1, "bias": 0, "mean": 0, "var": 1} {
			g.weights(name, func() float64 { return v }, 3)
		}
	}
}

// A network whose answers depend on the other rows of a batch is refused, and the likely reason is
// named. Networks that compute the same per position are not, with any batch.
func TestCompanyOfForeignRows(t *testing.T) {
	needRuntime(t)
	layers := map[string]func(*graph){
		"evaluation": norm(0), "training": norm(1),
		"mean": func(g *graph) {
			g.node("ReduceMean", "obs", "m", map[string]uint64{"+axes": 0, "keepdims": 1})
			g.node("Sub", "obs m", "x", nil)
		},
		"each": func(g *graph) {
			g.node("ReduceMean", "obs", "m", map[string]uint64{"+axes": 1, "keepdims": 1})
			g.node("Sub", "obs m", "x", nil)
		},
		"softmax": func(g *graph) { g.node("Softmax", "obs", "x", map[string]uint64{"axis": 0}) },
	}
	for name, layer := range layers {
		for _, batch := range []uint64{0, 1, 4, 40} {
			if batch > 0 && name == "softmax" || batch == 1 && name == "mean" {
				continue // with a batch of one row it is the same for each position
			}
			t.Run(fmt.Sprintf("%s, batch %d", name, batch), func(t *testing.T) {
				path := inFile(t, "net.onnx", file(batch, layer))
				gametest.OK(t, os.WriteFile(open.DescriptionFile(path), []byte("{rules: 7x6x4, planes: [own, other, 0.5*ones+0.5*player]}"), 0o644))
				e, err := open.Open(open.Options{Model: path})
				if name == "evaluation" || name == "each" {
					gametest.OK(t, err)
					defer e.Close()
					if b := evaluate(t, e.Evaluator, connect4, make([]game.Position, 5)); b.Source[4] != eval.ORTCPU {
						t.Errorf("source %s", b.Source[4])
					}
					return
				}
				for _, says := range []string{"model net: its rows depend on their batch", "training mode", "model.eval()"} {
					if err == nil || !strings.Contains(err.Error(), says) {
						t.Errorf("error %v, want %q", err, says)
					}
				}
			})
		}
	}
}
