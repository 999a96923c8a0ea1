package onnx_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	kernel "github.com/evald/evald/kernels/cpu/pattern"
	"github.com/evald/evald/models"
	"github.com/evald/evald/nn/net"
	"github.com/evald/evald/nn/onnx"
	"github.com/evald/evald/nn/pattern"
)

func scrambled(t *testing.T, config string) *net.Network {
	t.Helper()
	c := gametest.Must(net.ParseConfig(config))(t)
	n := gametest.Must(net.NewScrambled(c, 7))(t)
	n.Metadata = map[string]string{"evald.name": "scrambled " + config}
	return n
}

// The same network always gives the same bytes. After an intended change of the export, change the checksum here;
// TestRuntime says whether the new file is right.
func TestGolden(t *testing.T) {
	file := gametest.Must(onnx.Marshal(scrambled(t, "2x16"), "golden", onnx.Options{}))(t)
	sum := sha256.Sum256(file)
	const want = "c4a8894d50340b594e136cdc174a9e920fa151a4dbec517acfcf7d667d505158"
	if got := hex.EncodeToString(sum[:]); got != want {
		t.Errorf("the file of %d bytes has sha256 %s, want %s", len(file), got, want)
	}
}

func TestNotFinite(t *testing.T) {
	n := scrambled(t, "1x2/1/1")
	n.Weight("value.fc.weight").Float32s()[1] = float32(math.Inf(1))
	if _, err := onnx.Marshal(n, "x", onnx.Options{}); err == nil || err.Error() != `write ONNX: tensor "value.fc.weight" has +Inf as value 1` {
		t.Errorf("error %v", err)
	}
}

// batch is positions of one board.
type batch struct {
	board     *game.Board
	positions []game.Position
}

// MarshalJSON is the form that run.py reads.
func (b batch) MarshalJSON() ([]byte, error) {
	var boards [][]int
	var marks []int
	for _, p := range b.positions {
		boards = append(boards, game.State{Board: b.board, Position: p, Mark: p.Mover()}.Kaggle())
		marks = append(marks, p.Mover())
	}
	r := b.board.Rules()
	return json.Marshal(map[string]any{
		"rows": r.Rows, "columns": r.Columns, "inarow": r.InARow, "gravity": r.Gravity, "boards": boards, "marks": marks,
	})
}

type model struct {
	File    string  `json:"file"`
	Batches []batch `json:"batches"`
	network *net.Network
}

// outputs are those of one batch by their names.
type outputs map[string]struct {
	Shape  []int
	Values []float32
}

type answer struct {
	Metadata map[string]string
	Batches  []outputs
}

// onnx.checker accepts the files, and onnxruntime agrees with the reference, on boards and in batches of all sizes.
func TestRuntime(t *testing.T) {
	models := []model{}
	for _, config := range []string{"2x16", "1x2/1/1", "3x24/8/16"} {
		n := scrambled(t, config)
		file := gametest.Must(onnx.Marshal(n, config, onnx.Options{}))(t)
		models = append(models, model{write(t, file), batches(), n})
	}
	answers := run(t, models)
	for i, m := range models {
		config := m.network.Config()
		text, _ := json.Marshal(config)
		want := map[string]string{"evald.name": "scrambled " + config.String(), "evald.format": "1", "evald.config": string(text)}
		if diff := cmp.Diff(want, answers[i].Metadata); diff != "" {
			t.Errorf("metadata: %s", diff)
		}
		for j, b := range m.Batches {
			t.Run(fmt.Sprintf("%v/%v/%d", config, b.board.Rules(), len(b.positions)), func(t *testing.T) {
				compare(t, m.network, b, answers[i].Batches[j])
			})
		}
	}
}

// write returns the name of a new file.
func write(t *testing.T, content []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "model.onnx")
	gametest.OK(t, os.WriteFile(file, content, 0o644))
	return file
}

// run lets run.py answer models, which JSON describes. It skips the test if there is no Python for that.
func run(t *testing.T, models any) (answers []answer) {
	t.Helper()
	python := gametest.Python(t, "onnx", "onnxruntime")
	input := gametest.Must(json.Marshal(models))(t)
	c := exec.Command(python, "testdata/run.py")
	c.Stdin, c.Stderr = bytes.NewReader(input), t.Output()
	out := gametest.Must(c.Output())(t)
	gametest.OK(t, json.Unmarshal(out, &answers))
	return answers
}

// batches are random positions of all boards, including finished games, full boards and the smallest board.
func batches() (all []batch) {
	random := gametest.Rand(11)
	boards := append(gametest.Boards(), game.MustBoard(game.Rules{Rows: 1, Columns: 1, InARow: 1, Gravity: true}))
	for i, b := range boards {
		all = append(all, batch{b, gametest.Positions(random, b, []int{1, 3, 16}[i%3], false)})
	}
	return all
}

func compare(t *testing.T, n *net.Network, b batch, got outputs) {
	N, H, W := len(b.positions), b.board.Rows(), b.board.Columns()
	layers := map[string][]float32{}
	for _, p := range b.positions {
		planes := net.NewPlanes(b.board, []game.Position{p}).Float32s()
		n.Trace(planes, H, W, func(layer string, values []float32) { layers[layer] = append(layers[layer], values...) })
	}
	check := func(name string, want []float32, shape ...int) {
		t.Helper()
		if !slices.Equal(got[name].Shape, shape) {
			t.Fatalf("%s has shape %v, want %v", name, got[name].Shape, shape)
		}
		for i, w := range want {
			if g := got[name].Values[i]; !(math.Abs(float64(g-w)) <= 1e-4*max(1, math.Abs(float64(w)))) {
				t.Fatalf("%s has %v as value %d, want %v", name, g, i, w)
			}
		}
	}
	check("wdl", layers["value.wdl"], N, 3)
	check("gameover", layers["value.gameover"], N, 4)
	check("cells", layers["policy.logit"], N, H, W)

	// The outputs computed from them agree with the evaluator's answers, except in finished games, which the evaluator
	// leaves to the rules.
	e := eval.NewBatch(b.board, N)
	copy(e.Pos, b.positions)
	gametest.OK(t, net.NewBackend(n).Compute(t.Context(), e))
	policy, other := "cell_policy", "policy"
	if b.board.Rules().Gravity {
		policy, other = other, policy
	}
	wantWDL, wantPolicy := slices.Clone(got["outcome"].Values), slices.Clone(got[policy].Values)
	for i, p := range b.positions {
		if b.board.Result(p) == game.Ongoing {
			copy(wantWDL[3*i:], e.WDLRow(i))
			copy(wantPolicy[i*b.board.Actions():], e.PolicyRow(i))
		} else if p.All == b.board.Full() {
			clear(wantPolicy[i*b.board.Actions() : (i+1)*b.board.Actions()])
		}
	}
	check("outcome", wantWDL, N, 3)
	shapes := map[string][]int{"cell_policy": {N, H, W}, "policy": {N, W}}
	check(policy, wantPolicy, shapes[policy]...)
	check(other, nil, shapes[other]...)
	for i := range got["cell_policy"].Values { // must be exactly 0 if no stone can land in the cell
		at := b.board.FlatIndex(i % (H * W))
		if !b.board.Legal(b.positions[i/(H*W)]).Has(at) && got["cell_policy"].Values[i] != 0 {
			t.Fatalf("cell_policy has %v as value %d, where no stone can land", got["cell_policy"].Values[i], i)
		}
	}
}

// tables is a batch for a network of pattern tables in the form that run.py reads.
type tables struct {
	Rows  [][]int32 `json:"rows"`
	Legal [][]int   `json:"legal"`
}

// onnx.checker accepts the file of a network of pattern tables, and onnxruntime computes its whole numbers exactly.
func TestPatternRuntime(t *testing.T) {
	board := game.MustBoard(game.Connect4)
	n := gametest.Must(pattern.New(*kernel.Random(rand.New(rand.NewPCG(3, 3)), pattern.RowCount(), 64, 32, 16)))(t)
	n.Metadata["evald.name"] = "quick"
	b := eval.NewBatch(board, 200)
	copy(b.Pos, gametest.Open(gametest.Rand(5), board, len(b.Pos)))
	gametest.OK(t, pattern.NewBackend(n).Compute(t.Context(), b))
	k := gametest.Must(kernel.New(&n.Weights, kernel.Go))(t)
	asked := tables{}
	want := make([]int32, len(b.Pos)*kernel.Outputs)
	for i, p := range b.Pos {
		rows, legal := pattern.AppendRows(nil, p), make([]int, board.Actions())
		k.Forward(rows, pattern.Each, want[i*kernel.Outputs:(i+1)*kernel.Outputs])
		for a := range legal {
			if board.CanPlay(p, a) {
				legal[a] = 1
			}
		}
		asked.Rows, asked.Legal = append(asked.Rows, rows), append(asked.Legal, legal)
	}
	got := run(t, []map[string]any{{"file": write(t, onnx.MarshalPattern(n, "quick")), "tables": []tables{asked}}})[0]
	if diff := cmp.Diff(map[string]string{"evald.name": "quick", "evald.kind": "pattern"}, got.Metadata); diff != "" {
		t.Errorf("metadata: %s", diff)
	}
	answers := got.Batches[0]
	for i := range b.Pos {
		got := slices.Concat(answers["wdl"].Values[3*i:3*i+3], answers["moves"].Values[7*i:7*i+7])
		for o, x := range got {
			if want := float32(want[i*kernel.Outputs+o]) * (1. / kernel.Unit); x != want {
				t.Fatalf("position %d: wdl and moves are %v, want %v as value %d", i, got, want, o)
			}
		}
		for name, want := range map[string][]float32{"outcome": b.WDLRow(i), "policy": b.PolicyRow(i)} {
			for k, w := range want {
				if got := answers[name].Values[i*len(want)+k]; got-w > 1e-5 || w-got > 1e-5 || w == 0 && got != 0 {
					t.Fatalf("position %d: %s has %v as value %d, want %v", i, name, got, k, w)
				}
			}
		}
	}
}

// With FP16 the outputs of the network that ships are off by little, on 1,024 positions, and its weights take half of the memory.
func TestFP16(t *testing.T) {
	content, _, err := models.Open("default")
	gametest.OK(t, err)
	n := gametest.Must(net.Parse(content))(t)
	full := gametest.Must(onnx.Marshal(n, "full", onnx.Options{}))(t)
	halved := gametest.Must(onnx.Marshal(n, "half", onnx.Options{FP16: true}))(t)
	if share := float64(len(halved)) / float64(len(full)); share > 0.55 {
		t.Errorf("with fp16 the file has %.2f of its size", share)
	}
	info := gametest.Must(onnx.Read(halved))(t)
	if got := info.Metadata["evald.tower"]; got != "float16" || info.Inputs[0].Type != onnx.Float32 || info.Outputs[0].Type != onnx.Float32 {
		t.Errorf("evald.tower is %q, input %v, output %v", got, info.Inputs[0], info.Outputs[0])
	}
	board := game.MustBoard(game.Connect4)
	positions := []batch{{board, gametest.Positions(gametest.Rand(9), board, 1024, true)}}
	answers := run(t, []model{{write(t, full), positions, n}, {write(t, halved), positions, n}})
	for _, name := range []string{"outcome", "policy", "cell_policy"} {
		worst := 0.
		want := answers[0].Batches[0][name].Values
		for i, x := range answers[1].Batches[0][name].Values {
			worst = max(worst, math.Abs(float64(x-want[i])))
		}
		t.Logf("%s: off by up to %.5f", name, worst)
		if worst == 0 || !(worst <= 0.003) {
			t.Errorf("%s: off by up to %v, want at most 0.003, and the tower in fp16", name, worst)
		}
	}
}

func TestFP16TooLarge(t *testing.T) {
	n := scrambled(t, "1x2/1/1")
	n.Weight("value.fc.weight").Float32s()[1] = 1e6 // the heads have float32
	if _, err := onnx.Marshal(n, "x", onnx.Options{FP16: true}); err != nil {
		t.Error(err)
	}
	n.Weight("blocks.0.conv2.weight").Float32s()[1] = -65520
	want := `write ONNX: tensor "blocks.0.conv2.weight" has -65520 as value 1, and float16 has numbers up to 65504: export it without fp16`
	if _, err := onnx.Marshal(n, "x", onnx.Options{FP16: true}); err == nil || err.Error() != want {
		t.Errorf("error %v", err)
	}
}
