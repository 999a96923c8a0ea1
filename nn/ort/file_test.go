package ort

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/nn/net"
	"github.com/evald/evald/nn/onnx"
)

// nested is inside as a field of a message of each number, the last one outermost.
func nested(inside []byte, numbers ...protowire.Number) []byte {
	for _, n := range numbers {
		inside = protowire.AppendBytes(protowire.AppendTag(nil, n, protowire.BytesType), inside)
	}
	return inside
}

// Weights in other files are found wherever a model can have a tensor.
func TestExternalData(t *testing.T) {
	external := protowire.AppendVarint(protowire.AppendTag(nil, dataLocation, protowire.VarintType), 1)
	named := nested([]byte("x"), externalData)
	for name, path := range map[string][]protowire.Number{
		"initializer":                {5, 7},
		"sparse initializer":         {1, 15, 7},
		"sparse indices":             {2, 15, 7},
		"attribute":                  {5, 5, 1, 7},
		"list in an attribute":       {10, 5, 1, 7},
		"graph of an attribute":      {5, 6, 5, 1, 7},
		"one of the graphs of one":   {5, 11, 5, 1, 7},
		"sparse tensor of one":       {1, 22, 5, 1, 7},
		"sparse tensors of one":      {1, 23, 5, 1, 7},
		"function":                   {5, 5, 7, 25},
		"attribute of a function":    {5, 11, 25},
		"graph of training":          {5, 1, 20},
		"initialization of training": {5, 2, 20},
	} {
		for _, tensor := range [][]byte{external, named} {
			file := slices.Concat(oneNode("Add", 2, Float32, 4), nested(tensor, path...))
			if err := checkFile(file); err == nil || !strings.Contains(err.Error(), "weights in other files") {
				t.Errorf("%s: error %v", name, err)
			}
		}
	}
	inside := protowire.AppendVarint(protowire.AppendTag(nil, dataLocation, protowire.VarintType), 0)
	gametest.OK(t, checkFile(slices.Concat(oneNode("Add", 2, Float32, 4), nested(inside, 5, 7))))
	deep := slices.Concat(nested(nil, 7), nested(nil, slices.Repeat([]protowire.Number{1, 5, 6}, 200)...))
	if err := checkFile(nested(deep, 6, 5, 1, 7)); err != nil {
		t.Errorf("unknown parts: %v", err)
	}
	graph := nested(nil, 5)
	for range 200 {
		graph = nested(graph, 6, 5, 1) // a graph of an attribute of a node
	}
	if err := checkFile(nested(graph, 7)); err == nil || !strings.Contains(err.Error(), "too deep") {
		t.Errorf("deep graphs: error %v", err)
	}
}

// Any bytes are an error or no error.
func FuzzCheckFile(f *testing.F) {
	n := gametest.Must(net.NewScrambled(gametest.Must(net.ParseConfig("1x2/1/1"))(f), 1))(f)
	f.Add(gametest.Must(onnx.Marshal(n, "x"))(f))
	f.Add(nested([]byte("x"), externalData, 5, 7))
	f.Fuzz(func(t *testing.T, data []byte) { _ = checkFile(data) })
}
