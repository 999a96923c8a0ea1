package onnx_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/evald/evald/engine/game/gametest"
	kernel "github.com/evald/evald/kernels/cpu/pattern"
	"github.com/evald/evald/nn/onnx"
	"github.com/evald/evald/nn/pattern"
)

func TestReadOurs(t *testing.T) {
	n := scrambled(t, "2x16")
	got := gametest.Must(onnx.Read(gametest.Must(onnx.Marshal(n, "ours", onnx.Options{}))(t)))(t)
	free := func(names ...string) (shape []onnx.Dim) {
		for _, name := range names {
			d := onnx.Dim{Size: -1, Name: name}
			if size, err := fmt.Sscan(name, &d.Size); size == 1 && err == nil {
				d.Name = ""
			}
			shape = append(shape, d)
		}
		return shape
	}
	parameters := int64(n.Config().Parameters())
	want := &onnx.Info{
		IR: 8, Producer: "evald", Opsets: map[string]int64{"": 17}, Nodes: got.Nodes, Parameters: parameters + 6, // axes, shapes and constants
		Metadata: map[string]string{"evald.name": "scrambled 2x16", "evald.format": "1", "evald.config": got.Metadata["evald.config"]},
		Inputs:   []onnx.Value{{Name: "planes", Type: onnx.Float32, Shape: free("N", "5", "H", "W")}},
		Outputs: []onnx.Value{
			{Name: "wdl", Type: onnx.Float32, Shape: free("N", "3")},
			{Name: "gameover", Type: onnx.Float32, Shape: free("N", "4")},
			{Name: "cells", Type: onnx.Float32, Shape: free("N", "H", "W")},
			{Name: "outcome", Type: onnx.Float32, Shape: free("N", "3")},
			{Name: "policy", Type: onnx.Float32, Shape: free("N", "W")},
			{Name: "cell_policy", Type: onnx.Float32, Shape: free("N", "H", "W")},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" || got.Nodes < 20 {
		t.Errorf("%d nodes, %s", got.Nodes, diff)
	}

	p := gametest.Must(pattern.New(*kernel.Random(rand.New(rand.NewPCG(3, 3)), pattern.RowCount(), 64, 32, 16)))(t)
	got = gametest.Must(onnx.Read(onnx.MarshalPattern(p, "tables")))(t)
	if diff := cmp.Diff([]onnx.Value{
		{Name: "rows", Type: onnx.Int64, Shape: free("N", "33")}, {Name: "legal", Type: onnx.Float32, Shape: free("N", "7")},
	}, got.Inputs); diff != "" || got.Metadata["evald.kind"] != "pattern" {
		t.Errorf("metadata %v, %s", got.Metadata, diff)
	}
}

// m builds a message: numbers and texts are fields, and a nested one is made with m.
type m []byte

func (x m) n(number protowire.Number, v int64) m {
	return protowire.AppendVarint(protowire.AppendTag(x, number, protowire.VarintType), uint64(v))
}

func (x m) s(number protowire.Number, v string) m {
	return protowire.AppendString(protowire.AppendTag(x, number, protowire.BytesType), v)
}

func (x m) m(number protowire.Number, v m) m { return x.s(number, string(v)) }

// The smallest file, and parts of it.
var (
	output = m{}.s(1, "y").m(2, m{}.m(1, m{}.n(1, 1).m(2, m{}.m(1, m{}.n(1, 3)))))
	weight = m{}.n(1, 2).n(2, 1).s(8, "w").s(9, "12345678")
	away   = m{}.n(1, 2).n(2, 1).s(8, "w").m(13, m{}.s(1, "location").s(2, "/etc/passwd")).n(14, 1)
)

func node(op, domain string, attributes ...m) m {
	x := m{}.s(3, "the "+op).s(4, op).s(7, domain)
	for _, a := range attributes {
		x = x.m(5, a)
	}
	return x
}

func graph(nodes ...m) m {
	x := m{}.m(12, output)
	for _, n := range nodes {
		x = x.m(1, n)
	}
	return x
}

func file(g m) m { return m{}.n(1, 8).m(7, g) }

func nested(depth int) m {
	g := graph()
	for range depth {
		g = graph(node("If", "", m{}.s(1, "then_branch").m(6, g)))
	}
	return g
}

// What a stranger's file must not do is refused, with the name of the node or tensor, wherever it stands.
func TestReadRefuses(t *testing.T) {
	custom, local := node("Steal", "evil"), m{}.s(1, "Steal").s(10, "evil").m(7, node("Relu", ""))
	another := "data are in another file, which is not read: save the network in one file: in PyTorch torch.onnx.export(..., external_data=False)"
	for _, c := range []struct {
		name    string
		content m
		want    []string // parts of the error; none if the file is fine
	}{
		{"smallest", file(graph()), nil},
		{"weights", file(graph().m(5, weight)), nil},
		{"microsoft", file(graph(node("FusedConv", "com.microsoft"))), nil},
		{"function", file(graph(custom)).m(25, local), nil},
		{"deep", file(nested(32)), nil},
		{"empty", nil, []string{"no graph"}},
		{"two graphs", file(graph()).m(7, graph()), []string{"two graphs"}},
		{"no outputs", file(m{}), []string{"no outputs"}},
		{"training", file(graph()).m(20, m{}), []string{"for training"}},
		{"custom", file(graph(custom)), []string{`node "the Steal" (Steal)`, `"evil"`, "standard operators"}},
		{"other function", file(graph(node("Rob", "evil"))).m(25, local), []string{`node "the Rob"`}},
		{"in a function", file(graph()).m(25, m{}.s(1, "F").m(7, custom)), []string{`"the Steal"`, `function "F"`}},
		{"in a branch", file(graph(node("If", "", m{}.m(6, graph(custom))))), []string{`"the Steal"`, `in node "the If"`}},
		{"in graphs", file(graph(node("If", "", m{}.m(11, graph(custom))))), []string{`"the Steal"`}},
		{"context", file(graph(node("EPContext", "com.microsoft"))), []string{`node "the EPContext"`, "other files"}},
		{"external", file(graph().m(5, away)), []string{`initializer "w"`, another}},
		{"external entries", file(graph().m(5, m{}.s(8, "w").m(13, m{}))), []string{another}},
		{"external twice", file(graph().m(5, m{}.s(8, "w").n(14, 1).n(14, 0))), []string{another}},
		{"sparse values", file(graph().m(15, m{}.m(1, away))), []string{`initializer "w"`, another}},
		{"sparse indices", file(graph().m(15, m{}.m(2, away))), []string{another}},
		{"constant", file(graph(node("Constant", "", m{}.m(5, away)))), []string{`tensor "w" in node "the Constant"`, another}},
		{"tensors", file(graph(node("Constant", "", m{}.m(10, away)))), []string{another}},
		{"sparse constant", file(graph(node("Constant", "", m{}.m(22, m{}.m(1, away))))), []string{another}},
		{"sparse constants", file(graph(node("Constant", "", m{}.m(23, m{}.m(1, away))))), []string{another}},
		{"in the loop", file(graph(node("Loop", "", m{}.m(6, graph().m(5, away))))), []string{`initializer "w" in node "the Loop"`, another}},
		{"default of a function", file(graph()).m(25, m{}.s(1, "F").m(11, m{}.m(5, away))), []string{`function "F"`, another}},
		{"too deep", file(nested(33)), []string{"nested more than 32 deep"}},
		{"far too deep", file(nested(3000)), []string{"nested more than 32 deep"}},
		{"numbers missing", file(graph().m(5, m{}.n(1, 1<<20).s(8, "w"))), []string{`"w"`, "1048576 numbers"}},
		{"overflow", file(graph().m(5, m{}.n(1, 1<<31-1).n(1, 1<<31-1).n(1, 4).s(8, "w"))), []string{"shape"}},
		{"negative", file(graph().m(5, m{}.n(1, -1).s(8, "w"))), []string{"shape"}},
		{"many dimensions", file(graph().m(5, m{}.s(1, strings.Repeat("\x01", 65)).s(8, "w"))), []string{"64 dimensions"}},
		{"no tensor", file(m{}.m(12, m{}.s(1, "y").m(2, m{}.m(4, m{})))), []string{`output "y"`, "not a tensor"}},
		{"wire type", file(graph()).n(7, 1), []string{"two graphs"}},
		{"wire type of the graph", m{}.n(1, 8).n(7, 1), []string{"wire type"}},
		{"group", file(graph().m(1, protowire.AppendTag(nil, 1, protowire.StartGroupType))), []string{"damaged"}},
		{"latin", file(graph()).m(14, m{}.s(1, "name").s(2, "\xe4")), []string{"UTF-8"}},
		{"runtime's own", m("\x18\x00\x00\x00ORTM...."), []string{"own format"}},
		{"many", file(slices.Repeat(graph(), 1<<18)), []string{"more than 262144"}},
	} {
		_, err := onnx.Read(c.content)
		if (err == nil) != (c.want == nil) {
			t.Errorf("%s: error %v", c.name, err)
		}
		for _, part := range c.want {
			if err != nil && !strings.Contains(err.Error(), part) {
				t.Errorf("%s: error %q has no %q", c.name, err, part)
			}
		}
		if err != nil && len(err.Error()) > 700 {
			t.Errorf("%s: the error has %d bytes", c.name, len(err.Error()))
		}
	}
}

// Inputs with initializers are constants, and free dimensions have names, -1 or nothing.
func TestReadInputs(t *testing.T) {
	input := func(name string, dims ...m) m {
		shape := m{}
		for _, d := range dims {
			shape = shape.m(1, d)
		}
		return m{}.s(1, name).m(2, m{}.m(1, m{}.n(1, 9).m(2, shape)))
	}
	g := graph().m(11, input("x", m{}.s(2, "batch"), m{}.n(1, 7), m{}, m{}.n(1, 0), m{}.n(1, -1))).m(11, input("w")).m(5, weight)
	info := gametest.Must(onnx.Read(file(g)))(t)
	want := []onnx.Value{{Name: "x", Type: onnx.Bool, Shape: []onnx.Dim{{-1, "batch"}, {7, ""}, {-1, ""}, {-1, ""}, {-1, ""}}}}
	if diff := cmp.Diff(want, info.Inputs); diff != "" {
		t.Error(diff)
	}
	if info.Parameters != 2 {
		t.Errorf("%d parameters, want 2", info.Parameters)
	}
	many := m{}.m(12, input("y", slices.Repeat([]m{{}}, 9)...))
	if _, err := onnx.Read(file(many)); err == nil || !strings.Contains(err.Error(), `output "y": it has more than 8 dimensions`) {
		t.Error(err)
	}
}

// A cut file is an error or the same network without what was cut off, and no byte that is changed makes Read panic or hang.
func TestReadDamaged(t *testing.T) {
	content := gametest.Must(onnx.Marshal(scrambled(t, "1x2/1/1"), "damaged", onnx.Options{}))(t)
	errs := 0
	for i := range content {
		if _, err := onnx.Read(content[:i]); err != nil {
			errs++
		}
		changed := slices.Clone(content)
		changed[i] ^= 0x5a
		_, _ = onnx.Read(changed)
	}
	if errs < len(content)*9/10 {
		t.Errorf("of %d cut files %d are errors", len(content), errs)
	}
}

func FuzzRead(f *testing.F) {
	for _, x := range []m{nil, file(graph()), file(nested(3)), file(graph(node("Constant", "", m{}.m(5, away)))), file(graph(node("Steal", "evil")))} {
		f.Add([]byte(x))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		info, err := onnx.Read(content)
		if (info == nil) == (err == nil) {
			t.Fatalf("info %v, error %v", info, err)
		}
		if info != nil && (info.Parameters < 0 || info.Parameters > int64(8*len(content)) || len(info.Outputs) == 0 || info.Nodes > math.MaxInt32) {
			t.Fatalf("%+v", info)
		}
	})
}

// The files of other programs are read: what nn/encoding tests with.
func TestReadOthers(t *testing.T) {
	names, _ := filepath.Glob("../encoding/testdata/*.onnx")
	if len(names) < 4 {
		t.Fatalf("only %v", names)
	}
	for _, name := range names {
		info, err := onnx.Read(gametest.Must(os.ReadFile(name))(t))
		if err != nil || len(info.Inputs) == 0 || info.Parameters == 0 {
			t.Errorf("%s: %+v, error %v", name, info, err)
		}
	}
}
