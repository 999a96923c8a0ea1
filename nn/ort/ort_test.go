package ort_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/models"
	"github.com/evald/evald/nn/net"
	"github.com/evald/evald/nn/onnx"
	"github.com/evald/evald/nn/ort"
)

// needLibrary skips a test if there is no ONNX Runtime.
func needLibrary(t testing.TB) {
	t.Helper()
	if !ort.Supported {
		t.Skip("this build cannot open ONNX Runtime")
	}
	_, err := ort.Open(ort.Options{})
	gametest.Need(t, err == nil, fmt.Sprint(err))
}

// network is a shipped one, or one with random weights of a configuration.
func network(t testing.TB, name string) *net.Network {
	t.Helper()
	if c, err := net.ParseConfig(name); err == nil {
		return gametest.Must(net.NewScrambled(c, 7))(t)
	}
	file, _, err := models.Open(name)
	gametest.OK(t, err)
	return gametest.Must(net.Parse(file))(t)
}

func export(t testing.TB, n *net.Network) ort.Model {
	t.Helper()
	return ort.Model{Name: "exported", Data: gametest.Must(onnx.Marshal(n, "exported", onnx.Options{}))(t)}
}

// planes is the codec for files of package onnx.
func planes() ort.Codec {
	answerers := sync.Pool{New: func() any { return new(net.Answerer) }}
	return ort.Codec{
		Inputs: []ort.Tensor{{Name: "planes", Type: ort.Float32, Shape: []int{net.PlaneCount, ort.Rows, ort.Columns}}},
		Outputs: []ort.Tensor{
			{Name: "wdl", Type: ort.Float32, Shape: []int{net.WDLs}},
			{Name: "gameover", Type: ort.Float32, Shape: []int{net.GameOvers}},
			{Name: "cells", Type: ort.Float32, Shape: []int{ort.Rows, ort.Columns}},
		},
		Fill: func(board *game.Board, pos []game.Position, inputs []ort.Buffer) {
			net.Planes(board, pos, inputs[0].Float32s())
		},
		Answer: func(b *eval.Batch, outputs []ort.Buffer) error {
			a := answerers.Get().(*net.Answerer)
			defer answerers.Put(a)
			for i := range b.Pos {
				if err := a.Answer(b, i, row(outputs[0], i), row(outputs[1], i), row(outputs[2], i)); err != nil {
					return fmt.Errorf("row %d: %w", i, err)
				}
			}
			return nil
		},
	}
}

func row(b ort.Buffer, i int) []float32 { return b.Float32s()[i*b.Row() : (i+1)*b.Row()] }

func newBackend(t testing.TB, m ort.Model, c ort.Codec, o ort.Options) *ort.Backend {
	t.Helper()
	b := gametest.Must(ort.New(m, c, o))(t)
	t.Cleanup(func() { gametest.OK(t, b.Close()) })
	return b
}

// The suite of all evaluators, on boards of many sizes, more than have sessions at once.
func TestContract(t *testing.T) {
	needLibrary(t)
	m := export(t, network(t, "1x2/1/1"))
	evaltest.Run(t, evaltest.Config{
		New:     func(t testing.TB) *eval.Evaluator { return evaltest.Raw(newBackend(t, m, planes(), ort.Options{})) },
		Sources: []eval.Source{eval.ORTCPU},
	})
}

// The answers are those of plain Go.
func TestReference(t *testing.T) {
	gametest.OneGoroutine(t)
	needLibrary(t)
	for _, name := range []string{"2x16", "3x24/8/16", "seeded-2x16"} {
		n := network(t, name)
		b := newBackend(t, export(t, n), planes(), ort.Options{})
		for _, board := range gametest.Boards()[:4] {
			got := positions(board, 70)
			want := positions(board, 70)
			gametest.OK(t, b.Compute(t.Context(), got))
			gametest.OK(t, net.NewBackend(n).Compute(t.Context(), want))
			for i := range want.WDL {
				near(t, got.WDL[i], want.WDL[i])
			}
			for i := range want.Policy {
				near(t, got.Policy[i], want.Policy[i])
			}
			if got.Source[69] != eval.ORTCPU {
				t.Errorf("source %v", got.Source[69])
			}
		}
	}
}

func near(t *testing.T, got, want float32) {
	t.Helper()
	if d := got - want; !(d < 1e-4 && d > -1e-4) {
		t.Fatalf("got %v, want %v", got, want)
	}
}

// positions returns random unfinished positions.
func positions(board *game.Board, n int) *eval.Batch {
	b := eval.NewBatch(board, n)
	copy(b.Pos, gametest.Positions(gametest.Rand(uint64(n)), board, n, true))
	return b
}

// The library's outputs are, bit for bit, those that it gives to Python, where no batch is padded. So no row depends on its batch, or on
// the rows that pad it. EVALD_SOAK does it with the network default.
func TestBits(t *testing.T) {
	gametest.OneGoroutine(t)
	needLibrary(t)
	python := gametest.Python(t, "onnxruntime")
	name := "seeded-2x16"
	if gametest.Soak() {
		name = "default"
	}
	const n = 3000
	sizes := []int{1, 3, 8, 64, 100, 256, 1024}
	board := game.MustBoard(game.Connect4)
	m, b := export(t, network(t, name)), positions(board, n)
	want := runPython(t, python, m, b, sizes)

	var got []float32 // rows of wdl and cells
	codec := planes()
	codec.Outputs = slices.Delete(codec.Outputs, 1, 2)
	codec.Answer = func(b *eval.Batch, outputs []ort.Buffer) error {
		for i := range b.Pos {
			got = append(append(got, row(outputs[0], i)...), row(outputs[1], i)...)
		}
		return nil
	}
	backend := newBackend(t, m, codec, ort.Options{})
	for k, size := range sizes {
		got = got[:0]
		for i := 0; i < n; i += size {
			part := b.Slice(i, min(i+size, n))
			gametest.OK(t, backend.Compute(t.Context(), &part))
		}
		length := n * (net.WDLs + board.Cells())
		for i, w := range want[k*length : (k+1)*length] {
			if math.Float32bits(got[i]) != math.Float32bits(w) {
				t.Errorf("batches of %d: value %d is %v, and %v in Python", size, i, got[i], w)
				break
			}
		}
	}
}

// runPython is the outputs that the library gives to Python, for all sizes of batches.
func runPython(t *testing.T, python string, m ort.Model, b *eval.Batch, sizes []int) []float32 {
	t.Helper()
	folder := t.TempDir()
	file := func(name string) string { return filepath.Join(folder, name) }
	gametest.OK(t, os.WriteFile(file("model.onnx"), m.Data, 0o644))
	values := gametest.Must(binary.Append(nil, binary.LittleEndian, net.NewPlanes(b.Board, b.Pos).Float32s()))(t)
	gametest.OK(t, os.WriteFile(file("planes"), values, 0o644))
	args := []string{"testdata/run.py", file("model.onnx"), file("planes"), file("outputs"), strconv.Itoa(b.Board.Rows()), strconv.Itoa(b.Board.Columns())}
	for _, n := range sizes {
		args = append(args, strconv.Itoa(n))
	}
	if out, err := exec.CommandContext(t.Context(), python, args...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	out := gametest.Must(os.ReadFile(file("outputs")))(t)
	outputs := make([]float32, len(out)/4)
	gametest.Must(binary.Decode(out, binary.LittleEndian, outputs))(t)
	return outputs
}

// A misfit of codec and model is found at New, and the error lists what the model has.
func TestMisfits(t *testing.T) {
	needLibrary(t)
	m := export(t, network(t, "1x2/1/1"))
	const lists = "; the model has inputs planes float32 [N,5,H,W]; outputs wdl float32 [N,3], gameover float32 [N,4], cells float32 [N,H,W], outcome float32 [N,3], policy float32 [N,W], cell_policy float32 [N,H,W]"
	for want, change := range map[string]func(*ort.Codec){
		`input "obs" is missing`:                                                   func(c *ort.Codec) { c.Inputs[0].Name = "obs" },
		`input "planes" is of float32, want bool`:                                  func(c *ort.Codec) { c.Inputs[0].Type = ort.Bool },
		`input "planes" has another shape, want planes float32 [N,3,rows,columns]`: func(c *ort.Codec) { c.Inputs[0].Shape[0] = 3 },
		`output "wdl" has another shape, want wdl float32 [N,3,actions]`:           func(c *ort.Codec) { c.Outputs[0].Shape = []int{3, ort.Actions} },
		`output "cells" is of float32, want int64`:                                 func(c *ort.Codec) { c.Outputs[2].Type = ort.Int64 },
		`input "planes" gets no values`:                                            func(c *ort.Codec) { c.Inputs = nil },
		`at least one input and one output must be named`:                          func(c *ort.Codec) { c.Outputs = nil },
	} {
		c := planes()
		change(&c)
		_, err := ort.New(m, c, ort.Options{})
		if err == nil || err.Error() != "model exported: "+want+lists {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	for want, o := range map[string]ort.Options{
		"ONNX Runtime: threads -1: must be at least 0":     {Threads: -1},
		"ONNX Runtime: batch 5000: must be from 0 to 4096": {Batch: 5000},
		"ONNX Runtime: provider cpu has no settings":       {Settings: map[string]string{"a": "b"}},
		"ONNX Runtime: plugin p.so: name its provider":     {Plugin: "p.so"},
	} {
		if _, err := ort.New(m, planes(), o); err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

// A damaged file is an error that names the model; nothing crashes.
func TestDamage(t *testing.T) {
	needLibrary(t)
	m := export(t, network(t, "1x2/1/1"))
	random := gametest.Rand(5)
	noise := make([]byte, 5000)
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	for name, data := range map[string][]byte{
		"empty": nil, "noise": noise, "text": []byte("not a model\n"), "zeros": make([]byte, 100), "safetensors": gametest.Must(network(t, "1x2/1/1").Marshal())(t),
	} {
		if _, err := ort.New(ort.Model{Name: name, Data: data}, planes(), ort.Options{}); err == nil || !strings.HasPrefix(err.Error(), "model "+name+": ") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v", name, err)
		}
	}
	board := game.MustBoard(game.Connect4)
	answered := 0
	try := func(data []byte) (err error) {
		b, err := ort.New(ort.Model{Name: "damaged", Data: data}, planes(), ort.Options{Threads: 1})
		if err != nil {
			return err
		}
		defer b.Close()
		if err = b.Compute(t.Context(), positions(board, 2)); err == nil {
			answered++
		}
		return err
	}
	for end := 0; end < len(m.Data); end += 1 + len(m.Data)/12 {
		if err := try(m.Data[:end]); err == nil || !strings.HasPrefix(err.Error(), "model damaged: ") {
			t.Errorf("the first %d bytes of %d: error %v", end, len(m.Data), err)
		}
	}
	flips := 100
	if gametest.Soak() {
		flips = 20000
	}
	for range flips {
		data := slices.Clone(m.Data)
		data[random.IntN(len(data))] ^= 1 << random.IntN(8)
		if err := try(data); err != nil && !strings.HasPrefix(err.Error(), "model damaged: ") {
			t.Error(err)
		}
	}
	if answered == 0 {
		t.Errorf("none of %d files with a bit flipped can be computed", flips)
	}
}
