package open

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/short"
	"github.com/evald/evald/models"
	"github.com/evald/evald/nn/encoding"
	"github.com/evald/evald/nn/onnx"
	"github.com/evald/evald/nn/ort"
)

// Foreign is a network in an ONNX file of another program, or one that evald has exported. ONNX Runtime computes it (nn/ort).
type Foreign struct {
	Info        *onnx.Info
	Description encoding.Description // of its inputs and outputs

	content []byte
}

var foreignForm = form{
	is:     onnx.Is,
	parse:  func(file []byte) (Kind, error) { return parseForeign(file) },
	beside: describeForeign,
	shape:  func(config string) bool { return config == ForeignConfig },
	memory: func(s Stored) (int64, error) {
		if s.Content != nil || s.Path == "" {
			return foreignBytes * int64(len(s.Content)), nil
		}
		info, err := os.Stat(s.Path)
		if err != nil {
			return 0, err
		}
		return foreignBytes * info.Size(), nil
	},
}

func (f *Foreign) What() string                { return "an ONNX file" }
func (f *Foreign) Config() string              { return ForeignConfig }
func (f *Foreign) Parameters() int             { return int(f.Info.Parameters) }
func (f *Foreign) Metadata() map[string]string { return f.Info.Metadata }
func (f *Foreign) Runtime() string             { return "ONNX Runtime" }
func (f *Foreign) Trains() error               { return errors.New("which evald evaluates and does not train") }
func (f *Foreign) Halves() error               { return errors.New("which keeps its numbers") }
func (f *Foreign) File() string                { return models.ONNXFile }

// About describes inputs and outputs with their meaning.
func (f *Foreign) About() [][2]string {
	lines := [][2]string{{"config", fmt.Sprintf("ONNX, opset %d, %d nodes, by %s", f.Info.Opsets[""], f.Info.Nodes, cmp.Or(short.Text(f.Info.Producer), "a program without a name"))}}
	for _, v := range f.Info.Inputs {
		lines = append(lines, [2]string{"input", v.String()})
	}
	for _, v := range f.Info.Outputs {
		lines = append(lines, [2]string{"output", v.String()})
	}
	for i, text := range strings.Split(strings.TrimSpace(string(f.Description.Marshal())), "\n") {
		lines = append(lines, [2]string{map[bool]string{true: "description", false: " "}[i == 0], text})
	}
	return lines
}

// Only returns the game of the description.
func (f *Foreign) Only() string {
	if f.Description.Rules == encoding.Any {
		return ""
	}
	return f.Description.Rules
}

func (f *Foreign) fits() func(*game.Board) error {
	c := &codecs{of: f}
	return func(b *game.Board) error {
		_, err := c.on(b)
		return err
	}
}

func (f *Foreign) With(key, text string) ([]byte, error) {
	return onnx.WithMetadata(f.content, key, text)
}

func (f *Foreign) Becomes(string, uint64) error {
	return fmt.Errorf("the network is %s, %w", f.What(), f.Trains())
}

func (f *Foreign) ONNX(string, bool) ([]byte, error) { return f.content, nil }

func (f *Foreign) reference(name string, o Options) (*Opened, error) {
	o.Backend = ORTCPU
	return f.open(name, o)
}

// ForeignConfig is the Config of all Foreign networks.
const ForeignConfig = "onnx"

// foreignBytes is the maximum number of bytes of memory per byte of an open network's file. The runtime holds the file, its own form of the
// network, and another form for each batch size.
const foreignBytes = 10

// parseForeign parses an ONNX file, whose metadata must contain its description unless evald has written the file.
func parseForeign(content []byte) (*Foreign, error) {
	info, err := onnx.Read(content)
	if err != nil {
		return nil, err
	}
	d, err := encoding.FromMetadata(info.Metadata)
	if err != nil {
		return nil, err
	}
	return &Foreign{info, d, content}, nil
}

// DescriptionFile returns the path of an ONNX file's description: the same name, ending in .yaml.
func DescriptionFile(path string) string {
	return strings.TrimSuffix(path, filepath.Ext(path)) + ".yaml"
}

// describeForeign adds the description beside an ONNX file to the file's content. If there is none, it returns the content unchanged.
func describeForeign(path string, content []byte) ([]byte, error) {
	beside := DescriptionFile(path)
	text, err := durable.ReadFile(beside, maxDescription)
	if errors.Is(err, os.ErrNotExist) {
		return content, nil
	}
	var d encoding.Description
	if err == nil {
		d, err = encoding.Parse(text)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", beside, err)
	}
	return onnx.WithMetadata(content, encoding.MetadataKey, string(d.Marshal()))
}

// maxDescription is far more than the size of any description in bytes.
const maxDescription = 1 << 16

// codecs contains the codec of each board. nn/ort calls it.
type codecs struct {
	of *Foreign

	mu  sync.RWMutex
	all map[game.Rules]*encoding.Codec
}

// on returns the codec of a board. If the network does not fit the board, the error names the field of the description or the input of the
// file.
func (c *codecs) on(board *game.Board) (*encoding.Codec, error) {
	c.mu.RLock()
	of := c.all[board.Rules()]
	c.mu.RUnlock()
	if of != nil {
		return of, nil
	}
	of, err := encoding.NewCodec(c.of.Description, board, c.of.Info)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[game.Rules]*encoding.Codec{}
	}
	c.all[board.Rules()] = of
	return of, nil
}

// set replaces the codec of a board with that of another description with the same inputs and outputs. The network must be idle.
func (c *codecs) set(d encoding.Description, board *game.Board) error {
	of, err := encoding.NewCodec(d, board, c.of.Info)
	if err == nil {
		c.all[board.Rules()] = of
	}
	return err
}

// first returns a board that the network supports: that of its only game, or the first of some common boards.
func (c *codecs) first() (*game.Board, *encoding.Codec, error) {
	games := []string{game.Connect4.String(), "5x4x4", "6x5x4", "8x8x4", "3x3x3free"}
	if own := c.of.Only(); own != "" {
		games = []string{own}
	}
	var first error
	for _, text := range games {
		board, err := new(game.Boards).Parse(text)
		if err != nil {
			return nil, nil, err
		}
		of, err := c.on(board)
		if err == nil {
			return board, of, nil
		}
		if first == nil {
			first = err
		}
	}
	return nil, nil, first
}

// codec returns the ort.Codec that calls c.
func (c *codecs) codec(of *encoding.Codec) ort.Codec {
	all := ort.Codec{Fill: c.fill, Answer: c.answer}
	for i, in := range of.Inputs {
		all.Inputs = append(all.Inputs, ort.Tensor{Name: in.Name, Type: ort.Type(in.Type), Shape: c.free(c.of.Info.Inputs, in.Name, of.Inputs[i].Shape)})
	}
	for _, out := range []encoding.Output{of.Value, of.Policy} {
		all.Outputs = append(all.Outputs, ort.Tensor{Name: out.Name, Type: ort.Float32, Shape: c.free(c.of.Info.Outputs, out.Name, out.Shape)})
	}
	return all
}

// free returns the shape of an input or output for one position. Dimensions that the file leaves free become those of the board.
func (c *codecs) free(values []onnx.Value, name string, shape []int) []int {
	free := append([]int{}, shape...)
	for _, v := range values {
		if v.Name != name || len(v.Shape) != len(shape)+1 {
			continue
		}
		var places []int // of free dimensions
		for i := range shape {
			if v.Shape[i+1].Size < 0 {
				places = append(places, i)
			}
		}
		switch {
		case len(places) == 2: // rows come before columns in every layout
			free[places[0]], free[places[1]] = ort.Rows, ort.Columns
		case len(places) == 1 && c.of.Description.Policy.Actions == encoding.Columns:
			free[places[0]] = ort.Columns
		case len(places) == 1:
			free[places[0]] = ort.Cells
		}
	}
	return free
}

// fill is ort.Codec.Fill. byRuntime has already checked that the board fits.
func (c *codecs) fill(board *game.Board, pos []game.Position, inputs []ort.Buffer) {
	of, _ := c.on(board)
	for i, in := range inputs {
		switch in.Type() {
		case ort.Float32:
			encoding.Fill(of, i, pos, in.Float32s())
		case ort.Float64:
			encoding.Fill(of, i, pos, in.Float64s())
		case ort.Int64:
			encoding.Fill(of, i, pos, in.Int64s())
		case ort.Int32:
			encoding.Fill(of, i, pos, in.Int32s())
		case ort.Int8:
			encoding.Fill(of, i, pos, in.Int8s())
		default: // Uint8 or Bool, because NewCodec allows no other
			encoding.Fill(of, i, pos, in.Uint8s())
		}
	}
}

func (c *codecs) answer(b *eval.Batch, outputs []ort.Buffer) error {
	of, _ := c.on(b.Board)
	of.Decode(b, outputs[0].Float32s(), outputs[1].Float32s())
	return nil
}
