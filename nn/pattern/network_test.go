package pattern

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/evald/evald/engine/game/gametest"
	kernel "github.com/evald/evald/kernels/cpu/pattern"
	"github.com/evald/evald/nn/safetensors"
)

func random(t testing.TB) *Network {
	t.Helper()
	return randomShape(t, 64, 32, 16)
}

// randomShape is a network with small weights, a third of whose rows are all 0.
func randomShape(t testing.TB, lanes, h1, h2 int) *Network {
	t.Helper()
	w := kernel.Random(rand.New(rand.NewPCG(7, 7)), RowCount(), lanes, h1, h2)
	for r := range RowCount() {
		row := w.Table[r*w.Lanes : (r+1)*w.Lanes]
		for i := range row {
			if row[i] /= 2; r%3 == 0 {
				row[i] = 0
			}
		}
	}
	n := gametest.Must(New(*w))(t)
	return n
}

func TestFile(t *testing.T) {
	n := random(t)
	n.Metadata["trained"] = "never"
	path := filepath.Join(t.TempDir(), "n.safetensors")
	gametest.OK(t, os.WriteFile(path, gametest.Must(n.Marshal())(t), 0o644))
	got := gametest.Must(ReadFile(path))(t)
	if !reflect.DeepEqual(got, n) {
		t.Error("the network that was read is not the one that was written")
	}
	if got.String() != "pattern64x32x16" {
		t.Errorf("the network calls itself %s", got)
	}
	a, _ := n.Marshal()
	if b, _ := got.Marshal(); !bytes.Equal(a, b) {
		t.Error("the same network gives other bytes")
	}
	if !Is(a) || Is(a[:100]) || Is(safetensors.Join(map[string]string{}, nil)) {
		t.Error("what Is says of files is wrong")
	}
	n.Metadata[configKey] = "mine"
	if _, err := n.Marshal(); err == nil || !strings.Contains(err.Error(), configKey) {
		t.Errorf("a reserved key: %v", err)
	}
}

// The table of a network that has hardly been trained may be rounded to 0. Its file can be read.
func TestEmptyTable(t *testing.T) {
	n := random(t)
	clear(n.Weights.Table)
	readsAgain(t, n)
}

// readsAgain writes a network and reads it again.
func readsAgain(t *testing.T, n *Network) {
	t.Helper()
	file := gametest.Must(n.Marshal())(t)
	if got, err := Parse(file); err != nil || !reflect.DeepEqual(got, n) {
		t.Errorf("the network that was read is not the one that was written: %v", err)
	}
}

// Rows that do not fit bytes are written as words, and read as they were written.
func TestFormats(t *testing.T) {
	for _, c := range []struct {
		row  []int16
		want string
	}{
		{[]int16{127, -127, 1}, inBytes},
		{[]int16{128, 1, 0}, inWords},
		{[]int16{-128, 1, 0}, inWords},
		{[]int16{254, -12, 4}, inBytes},
		{[]int16{254, -12, 3}, inWords},
		{[]int16{127 * 255, 0, 255}, inBytes},
		{[]int16{127 * 256, 0, 256}, inWords},
		{[]int16{300, 0, 0}, inWords}, // its factor is 300
		{[]int16{0, 0, 0}, inBytes},
	} {
		n := Network{Weights: kernel.Weights{Lanes: 3, Table: append([]int16{3, 1, 2}, c.row...)}}
		if got := n.format(); got != c.want {
			t.Errorf("%v is written in format %s, want %s", c.row, got, c.want)
		}
	}
	n := random(t)
	copy(n.Weights.Table[1000*64:], []int16{254, -12, 3})
	if readsAgain(t, n); n.format() != inWords {
		t.Error("a row that does not fit bytes is not written as words")
	}
	// Words that would fit bytes, as an older evald wrote them, with their checksum.
	n = random(t)
	metadata := n.fileMetadata(inWords)
	metadata[safetensors.SumKey] = safetensors.Sum(n.plain(inWords))
	if got, err := Parse(safetensors.Join(metadata, n.tensors(inWords))); err != nil || !reflect.DeepEqual(got, n) {
		t.Errorf("an older file: %v", err)
	}
}

// Real numbers are rounded to the network that they came from, and with a step to multiples of the step that fit bytes.
func TestRound(t *testing.T) {
	n := random(t)
	for _, d := range n.Weights.Dense {
		for i := range d.Weight {
			d.Weight[i] = max(d.Weight[i], -127) // which rounding never goes below
		}
	}
	got := gametest.Must(n.Real().Round(1))(t)
	if !reflect.DeepEqual(got, n) {
		t.Error("the real numbers of a network are rounded to another one")
	}
	r := n.Real()
	r.Table[1000*64+5] = 3 // 765 of 255: more than 127 sixths
	const largest = 3      // half of a step of 6
	coarse := gametest.Must(r.Round(6))(t)
	for i, x := range coarse.Weights.Table {
		switch row, was := i/64, int(n.Weights.Table[i]); {
		case row == 1000 && (x%7 != 0 || i%64 == 5 && x != 763):
			t.Fatalf("lane %d of a row with a large number is %d, want a multiple of 7", i%64, x)
		case row != 1000 && (x%6 != 0 || int(x)-was > largest || was-int(x) > largest):
			t.Fatalf("%d was rounded to %d, want the nearest multiple of 6", was, x)
		}
	}
	if coarse.format() != inBytes {
		t.Error("the rounded network does not fit bytes")
	}
}

func TestDamagedFiles(t *testing.T) {
	n := random(t)
	metadata := n.fileMetadata(inBytes)
	change := func(key, value string) []byte {
		m := n.fileMetadata(inBytes)
		m[key] = value
		return safetensors.Join(m, n.tensors(inBytes))
	}
	tensor := func(name string, edit func(s *safetensors.Tensor)) []byte {
		all := n.tensors(inBytes)
		for i := range all {
			if all[i].Name == name {
				edit(&all[i])
			}
		}
		return safetensors.Join(metadata, all)
	}
	flipped := gametest.Must(n.Marshal())(t)
	flipped[len(flipped)-3] ^= 1
	for _, c := range []struct {
		file []byte
		want string
	}{
		{nil, "too few"},
		{flipped, "damaged"},
		{change(kindKey, "tower"), `metadata evald.kind is "tower", want "pattern"`},
		{change(formatKey, "3"), `metadata evald.format is "3"`},
		{change(formatKey, "1"), `tensor "table" is I8`},
		{change(configKey, "{}"), "0 lanes"},
		{change(configKey, `{"lanes":64,"hidden":[32,16],"more":1}`), `"more" is unknown`},
		{change(configKey, `{"lanes":1000000,"hidden":[32,16]}`), "1000000 lanes"},
		{change(configKey, `{"lanes":64,"hidden":[32,32]}`), `tensor "dense.1.weight"`},
		{change(configKey, `{"lanes":8,"hidden":[32,16]}`), `tensor "table"`},
		{safetensors.Join(metadata, n.tensors(inBytes)[1:]), `tensor "rows"`},
		{safetensors.Join(metadata, append(n.tensors(inBytes), safetensors.Tensor{Name: "x", Dtype: "I8", Shape: []int{1}, Data: []byte{1}})), `tensor "x" is unknown`},
		{tensor("bias", func(s *safetensors.Tensor) { s.Dtype, s.Shape = "I8", []int{128} }), `tensor "bias" is I8`},
		{tensor("rows", func(s *safetensors.Tensor) { s.Data[0] = 2 }), "above the one before"},
		{tensor("rows", func(s *safetensors.Tensor) { s.Data[len(s.Data)-1] = 0x7f }), "must be below"},
		{tensor("dense.0.bias", func(s *safetensors.Tensor) { s.Data[3] = 0x7f }), "layer 1 has bias"},
		{tensor("factor", func(s *safetensors.Tensor) { s.Data[0] = 0 }), `tensor "factor": that of row 1 is 0`},
		{tensor("factor", func(s *safetensors.Tensor) { s.Data[1] = 1 }), "must be 1 to 255"},
		{tensor("factor", func(s *safetensors.Tensor) {
			for i := 0; i < len(s.Data); i += 2 {
				s.Data[i] = 0xff
			}
		}), "sums of lane 0"},
	} {
		if _, err := Parse(c.file); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want one with %q", err, c.want)
		}
	}
}
