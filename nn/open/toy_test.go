package open

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/short"
	"github.com/evald/evald/models"
)

// toy is a kind of networks as a newcomer would add it: this file, and a line in kinds (here in AddToy). Its network is a table with the
// chances of the side to move for each number of stones.
type toy struct {
	Free map[string]string `json:"metadata"`
	Wins []float32         `json:"wins"` // for a number of stones modulo their number; the other side has the rest
}

// toyMagic begins the files of toys. JSON follows.
const toyMagic = "evald toy\n"

var toyForm = form{
	is: func(file []byte) bool { return bytes.HasPrefix(file, []byte(toyMagic)) },
	parse: func(file []byte) (Kind, error) {
		t := &toy{}
		if err := json.Unmarshal(file[len(toyMagic):], t); err != nil {
			return nil, fmt.Errorf("parse toy: %w", err)
		}
		if len(t.Wins) == 0 || slices.Min(t.Wins) < 0 || slices.Max(t.Wins) > 1 {
			return nil, fmt.Errorf("parse toy: wins is %s: must be numbers from 0 to 1", short.Text(fmt.Sprint(t.Wins)))
		}
		return t, nil
	},
	shape:  func(config string) bool { return config == "toy" },
	memory: func(s Stored) (int64, error) { return int64(len(s.Content)), nil },
}

// AddToy adds the toy to the kinds, for the tests of all kinds.
func AddToy() { kinds = slices.Insert(kinds, 0, toyForm) }

// Toy is the file of a toy.
func Toy() []byte {
	content, _ := (&toy{Free: map[string]string{}, Wins: []float32{0.5, 0.25, 0.875}}).With("evald.rules", "7x6x4")
	return content
}

// KindOf is the number in kinds of a file's kind, and their number.
func KindOf(file []byte) (kind, count int) {
	return slices.IndexFunc(kinds, func(f form) bool { return f.is(file) }), len(kinds)
}

func (t *toy) What() string                { return "a toy" }
func (t *toy) Config() string              { return "toy" }
func (t *toy) Parameters() int             { return len(t.Wins) }
func (t *toy) Metadata() map[string]string { return t.Free }
func (t *toy) About() [][2]string {
	return [][2]string{{"config", fmt.Sprintf("a toy of %d numbers", len(t.Wins))}}
}
func (t *toy) Only() string                  { return "" }
func (t *toy) Runtime() string               { return "" }
func (t *toy) Trains() error                 { return errors.New("which has nothing to learn") }
func (t *toy) Halves() error                 { return errors.New("which has no file of that form") }
func (t *toy) File() string                  { return models.OwnFile }
func (t *toy) fits() func(*game.Board) error { return nil }

func (t *toy) With(key, text string) ([]byte, error) {
	t.Free[key] = text
	content, err := json.Marshal(t)
	return append([]byte(toyMagic), content...), err
}

func (t *toy) Becomes(string, uint64) error {
	return fmt.Errorf("the network is %s, %w", t.What(), t.Trains())
}

func (t *toy) ONNX(string, bool) ([]byte, error) {
	return nil, errors.New("a toy has no form in ONNX: it is for tests")
}

func (t *toy) reference(name string, _ Options) (*Opened, error) {
	return &Opened{Evaluator: evaluator(t), Model: name, Network: true, How: "network " + name + " is a toy"}, nil
}

func (t *toy) open(name string, o Options) (*Opened, error) {
	if o.Backend != Auto && o.Backend != CPU {
		return nil, fmt.Errorf("model %s: backend %s does not compute toys: choose %s or %s", name, o.Backend, Auto, CPU)
	}
	return t.reference(name, o)
}

// Attributes implements eval.Backend.
func (t *toy) Attributes() eval.Attributes { return eval.Attributes{Rows: 1, Invariant: true} }

// Compute implements eval.Backend.
func (t *toy) Compute(ctx context.Context, b *eval.Batch) error {
	for i, p := range b.Pos {
		wins := t.Wins[p.Plies()%len(t.Wins)]
		copy(b.WDLRow(i), []float32{wins, 0, 1 - wins})
		legal := b.Board.Legal(p)
		for a := range b.PolicyRow(i) {
			b.PolicyRow(i)[a] = 0
			if b.Board.CanPlay(p, a) {
				b.PolicyRow(i)[a] = 1 / float32(legal.OnesCount())
			}
		}
		b.Source[i] = eval.CPU
	}
	return ctx.Err()
}
