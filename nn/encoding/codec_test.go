package encoding_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/nn/encoding"
	"github.com/evald/evald/nn/net"
	"github.com/evald/evald/nn/onnx"
	"github.com/evald/evald/nn/pattern"
)

// families are the networks of other projects that testdata/make.py makes, and the file of each.
var families = map[string]string{
	"alpha_zero_general": "alpha_zero_general", "open_spiel": "open_spiel", "open_spiel_egocentric": "open_spiel", "lightzero": "lightzero", "pgx": "pgx",
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	return gametest.Must(os.ReadFile("testdata/" + name))(t)
}

// family is the description of a network of another project and its file.
func family(t *testing.T, name string) (encoding.Description, *onnx.Info) {
	t.Helper()
	return gametest.Must(encoding.Parse(read(t, name+".yaml")))(t), gametest.Must(onnx.Read(read(t, families[name]+".onnx")))(t)
}

// numbers are the inputs in of positions as float64, whatever their type.
func numbers(c *encoding.Codec, in int, pos []game.Position) []float64 {
	n := len(pos) * c.Inputs[in].Size
	switch c.Inputs[in].Type {
	case onnx.Float32:
		return fill[float32](c, in, pos, n)
	case onnx.Float64:
		return fill[float64](c, in, pos, n)
	case onnx.Int64:
		return fill[int64](c, in, pos, n)
	case onnx.Int32:
		return fill[int32](c, in, pos, n)
	case onnx.Int8:
		return fill[int8](c, in, pos, n)
	default:
		return fill[uint8](c, in, pos, n)
	}
}

func fill[T encoding.Number](c *encoding.Codec, in int, pos []game.Position, n int) []float64 {
	const guard = 99
	dst := make([]T, n+1)
	for i := range dst {
		dst[i] = guard
	}
	encoding.Fill(c, in, pos, dst[:n])
	if dst[n] != guard {
		panic("Fill writes beyond the end")
	}
	all := make([]float64, n)
	for i := range all {
		all[i] = float64(dst[i])
	}
	return all
}

// Inputs are equal to those by each project's own code, and answers are what the project would read. testdata/make.py had OpenSpiel and Pgx
// from PyPI, and checkouts of LightZero and alpha-zero-general, which cannot be installed. The networks are not the projects' own: they
// have their layers, and weights that know nothing.
func TestFamilies(t *testing.T) {
	for name := range families {
		t.Run(name, func(t *testing.T) {
			d, info := family(t, name)
			board := game.MustBoard(game.Connect4)
			c := gametest.Must(encoding.NewCodec(d, board, info))(t)
			var cases []struct {
				Moves   string
				Inputs  map[string][]float64
				Outputs map[string][]float32
				Value   float64
				Policy  []float64
			}
			gametest.OK(t, json.Unmarshal(read(t, name+".json"), &cases))
			if len(cases) != 20 {
				t.Fatalf("%d positions", len(cases))
			}
			b := eval.NewBatch(board, len(cases))
			var value, policy []float32
			for i, x := range cases {
				if x.Moves != "-" {
					b.Pos[i] = parse(t, board, x.Moves)
				}
				value, policy = append(value, x.Outputs[c.Value.Name]...), append(policy, x.Outputs[c.Policy.Name]...)
			}
			c.Decode(b, value, policy)
			gametest.OK(t, b.Finite())
			for in, input := range c.Inputs {
				got := numbers(c, in, b.Pos)
				for i, x := range cases {
					same(t, fmt.Sprintf("%s of %s", input.Name, x.Moves), got[i*input.Size:(i+1)*input.Size], x.Inputs[input.Name], 0)
				}
			}
			for i, x := range cases {
				same(t, "value of "+x.Moves, []float64{float64(b.Value(i))}, []float64{x.Value}, 1e-6)
				var got []float64
				for _, p := range b.PolicyRow(i) {
					got = append(got, float64(p))
				}
				same(t, "policy of "+x.Moves, got, x.Policy, 1e-6)
			}
		})
	}
}

func parse(t *testing.T, b *game.Board, moves string) game.Position {
	t.Helper()
	p, _, err := b.ParseMoves(moves)
	gametest.OK(t, err)
	return p
}

func same(t *testing.T, what string, got, want []float64, off float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s has %d numbers, want %d", what, len(got), len(want))
	}
	for i := range got {
		if !(math.Abs(got[i]-want[i]) <= off) {
			t.Fatalf("%s: %v, want %v", what, got, want)
		}
	}
}

// file is the head of a file with these inputs and outputs: "name type N,3,6,7", where N, H and W are free.
func file(t *testing.T, inputs, outputs []string) *onnx.Info {
	t.Helper()
	types := map[string]onnx.Type{"f": onnx.Float32, "d": onnx.Float64, "b": onnx.Bool, "u": onnx.Uint8, "i": onnx.Int8, "l": onnx.Int64, "h": onnx.Float16, "w": onnx.Int32}
	values := func(texts []string) (all []onnx.Value) {
		for _, text := range texts {
			words := strings.Fields(text)
			v := onnx.Value{Name: words[0], Type: types[words[1]]}
			for _, word := range words[2:] {
				d := onnx.Dim{Size: -1, Name: word}
				if n, err := fmt.Sscan(word, &d.Size); n == 1 && err == nil {
					d.Name = ""
				}
				v.Shape = append(v.Shape, d)
			}
			all = append(all, v)
		}
		return all
	}
	return &onnx.Info{Inputs: values(inputs), Outputs: values(outputs)}
}

// value is a plane's value in a cell of an array board, straight from the definitions.
func value(name string, b *game.Board, n *gametest.Naive, column, row int) float64 {
	mover, stone := n.Mover(), n.Cell[column][row]
	is := func(yes bool) float64 {
		if yes {
			return 1
		}
		return 0
	}
	r := b.Rules()
	switch name {
	case "own":
		return is(stone == mover)
	case "other":
		return is(stone == 3-mover)
	case "first":
		return is(stone == 1)
	case "second":
		return is(stone == 2)
	case "empty":
		return is(stone == 0)
	case "playable":
		return is(stone == 0 && (!r.Gravity || row == 0 || n.Cell[column][row-1] != 0))
	case "ones":
		return 1
	case "player":
		return float64(mover - 1)
	case "parity":
		return is((r.Cells()-r.Rows+row+n.Plies)%2 == 0)
	case "inarow":
		return float64(r.InARow) / 4
	}
	panic(name)
}

// Every plane, in every layout, from the top or the bottom, on all boards, in every type that can hold it, is what the definitions say.
func TestFillNaive(t *testing.T) {
	random := gametest.Rand(21)
	sums := []struct {
		text  string
		terms map[string]float64
	}{
		{"own", nil},
		{"other", nil},
		{"first", nil},
		{"second", nil},
		{"empty", nil},
		{"playable", nil},
		{"ones", nil},
		{"player", nil},
		{"parity", nil},
		{"2*own - 3*other + playable", map[string]float64{"own": 2, "other": -3, "playable": 1}},
		{"first-second+2*parity-player+1", map[string]float64{"first": 1, "second": -1, "parity": 2, "player": -1, "ones": 1}},
		{"inarow", nil},
		{"0.5*ones+0.5*player-2.5e-1*empty", map[string]float64{"ones": 0.5, "player": 0.5, "empty": -0.25}},
	}
	for _, kind := range []string{"f", "d", "l", "w", "i", "u", "b"} {
		planes := sums
		switch kind {
		case "l", "w", "i":
			planes = sums[:11]
		case "u", "b":
			planes = sums[:9]
		}
		for _, b := range gametest.Boards() {
			h, w, all := b.Rows(), b.Columns(), len(planes)
			for _, layout := range []string{"NCHW", "NHWC", "NHW", "NF"} {
				for _, rows := range []encoding.Rows{encoding.Top, encoding.Bottom} {
					count := all
					if layout == "NHW" {
						count = 1
					}
					first := random.IntN(all - count + 1)
					used := planes[first : first+count]
					d := gametest.Must(encoding.Parse([]byte("{value: {output: v}, policy: {output: p, actions: cells}}")))(t)
					d.Layout, d.Rows, d.Planes = encoding.Layout(layout), rows, nil
					for _, s := range used {
						d.Planes = append(d.Planes, s.text)
					}
					shape := map[string]string{"NCHW": fmt.Sprint(count, " H W"), "NHWC": fmt.Sprintf("H %d %d", w, count), "NHW": "H W", "NF": fmt.Sprint(count * h * w)}[layout]
					info := file(t, []string{"x " + kind + " N " + shape}, []string{"v f N", "p f N H W"})
					c, err := encoding.NewCodec(d, b, info)
					if err != nil {
						t.Fatalf("%v %s: %v", b.Rules(), layout, err)
					}
					n := gametest.NewNaive(b.Rules())
					for range random.IntN(b.Cells()) {
						legal := n.Legal()
						n.Play(legal[random.IntN(len(legal))])
					}
					got := numbers(c, 0, []game.Position{n.Position(b)})
					for i, s := range used {
						for column := range w {
							for row := range h {
								from := row
								if rows == encoding.Top {
									from = h - 1 - row
								}
								at := i*h*w + from*w + column
								if layout == "NHWC" {
									at = (from*w+column)*count + i
								}
								want := 0.
								for name, factor := range s.terms {
									want += factor * value(name, b, n, column, row)
								}
								if s.terms == nil {
									want = value(s.text, b, n, column, row)
								}
								if got[at] != want {
									t.Fatalf("%v %s %s %s: plane %s in column %d, row %d is %v, want %v", b.Rules(), kind, layout, rows, s.text, column, row, got[at], want)
								}
							}
						}
					}
				}
			}
		}
	}
}

// Our own exports need no description: inputs and answers are those of our own backends.
func TestOurs(t *testing.T) {
	n := gametest.Must(net.NewScrambled(gametest.Must(net.ParseConfig("1x4/4/4"))(t), 7))(t)
	info := gametest.Must(onnx.Read(gametest.Must(onnx.Marshal(n, "ours", onnx.Options{}))(t)))(t)
	d := gametest.Must(encoding.FromMetadata(info.Metadata))(t)
	random := gametest.Rand(3)
	for _, b := range gametest.Boards() {
		c := gametest.Must(encoding.NewCodec(d, b, info))(t)
		batch := eval.NewBatch(b, 20)
		copy(batch.Pos, gametest.Positions(random, b, 20, true))
		planes, want := make([]float32, net.PlanesSize(b, 20)), make([]float32, net.PlanesSize(b, 20))
		encoding.Fill(c, 0, batch.Pos, planes)
		net.Planes(b, batch.Pos, want)
		for i := range want {
			if planes[i] != want[i] {
				t.Fatalf("%v: value %d of the planes is %v, want %v", b.Rules(), i, planes[i], want[i])
			}
		}
		var wdl, cells []float32
		for i := range batch.Pos {
			size := len(planes) / 20
			n.Trace(planes[i*size:(i+1)*size], b.Rows(), b.Columns(), func(layer string, values []float32) {
				switch layer {
				case "value.wdl":
					wdl = append(wdl, values...)
				case "policy.logit":
					cells = append(cells, values...)
				}
			})
		}
		c.Decode(batch, wdl, cells)
		reference := eval.NewBatch(b, 20)
		copy(reference.Pos, batch.Pos)
		gametest.OK(t, net.NewBackend(n).Compute(t.Context(), reference))
		close(t, "WDL", batch.WDL, reference.WDL)
		close(t, "Policy", batch.Policy, reference.Policy)
	}
}

func close(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i := range want {
		if !(math.Abs(float64(got[i]-want[i])) <= 1e-6) {
			t.Fatalf("%s has %v as value %d, want %v", what, got[i], i, want[i])
		}
	}
}

// The same of networks of pattern tables, whose inputs are rows of a table.
func TestOurTables(t *testing.T) {
	d := gametest.Must(encoding.FromMetadata(map[string]string{"evald.kind": "pattern"}))(t)
	info := file(t, []string{"rows l N 33", "legal f N 7"}, []string{"wdl f N 3", "moves f N 7", "outcome f N 3", "policy f N 7"})
	board := game.MustBoard(game.Connect4)
	c := gametest.Must(encoding.NewCodec(d, board, info))(t)
	pos := gametest.Open(gametest.Rand(8), board, 30)
	rows, legal := numbers(c, 0, pos), numbers(c, 1, pos)
	for i, p := range pos {
		for k, want := range pattern.AppendRows(nil, p) {
			if got := rows[i*pattern.Each+k]; got != float64(want) {
				t.Fatalf("row %d of position %d is %v, want %d", k, i, got, want)
			}
		}
		for a := range 7 {
			if board.CanPlay(p, a) != (legal[7*i+a] == 1) {
				t.Fatalf("position %d: legal is %v", i, legal[7*i:7*i+7])
			}
		}
	}
	if c.Value.Name != "wdl" || c.Policy.Name != "moves" {
		t.Errorf("outputs are %v and %v", c.Value, c.Policy)
	}
	if _, err := encoding.NewCodec(d, game.MustBoard(game.TicTacToe), info); err == nil || !strings.Contains(err.Error(), "knows 7x6x4 alone") {
		t.Error(err)
	}
}

func TestFillAllocates(t *testing.T) {
	board := game.MustBoard(game.Connect4)
	for name := range families {
		d, info := family(t, name)
		c := gametest.Must(encoding.NewCodec(d, board, info))(t)
		b := eval.NewBatch(board, 64)
		copy(b.Pos, gametest.Positions(gametest.Rand(2), board, 64, true))
		x, y := make([]float32, 64*c.Inputs[0].Size), make([]uint8, 64*7)
		v, p := make([]float32, 64*c.Value.Size), make([]float32, 64*c.Policy.Size)
		if n := testing.AllocsPerRun(10, func() {
			encoding.Fill(c, 0, b.Pos, x)
			if len(c.Inputs) > 1 {
				encoding.Fill(c, 1, b.Pos, y)
			}
			c.Decode(b, v, p)
		}); n > 0 && !gametest.Race {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkFill(b *testing.B) {
	board := game.MustBoard(game.Connect4)
	info := &onnx.Info{Inputs: []onnx.Value{{Name: "x", Type: onnx.Float32}}, Outputs: []onnx.Value{{Name: "v", Type: onnx.Float32}, {Name: "p", Type: onnx.Float32}}}
	d, err := encoding.Parse([]byte("planes: [own, other, 0.5*ones+0.5*player]\nvalue: {output: v}\npolicy: {output: p}"))
	if err != nil {
		b.Fatal(err)
	}
	c, err := encoding.NewCodec(d, board, info)
	if err != nil {
		b.Fatal(err)
	}
	pos := gametest.Positions(gametest.Rand(2), board, 256, true)
	x := make([]float32, 256*c.Inputs[0].Size)
	for b.Loop() {
		encoding.Fill(c, 0, pos, x)
	}
	b.ReportMetric(256*float64(b.N)/b.Elapsed().Seconds(), "positions/s")
}
