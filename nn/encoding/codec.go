package encoding

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/short"
	"github.com/evald/evald/nn/net"
	"github.com/evald/evald/nn/onnx"
	"github.com/evald/evald/nn/pattern"
)

// Codec converts positions of one board to a network's inputs, and the network's outputs to answers. It is immutable and safe for
// concurrent use.
type Codec struct {
	Inputs []Input // all inputs of the network, the planes first
	Value  Output
	Policy Output
	Batch  int // number of positions in every run, or 0 if it is free

	board    *game.Board
	describe Description
	planes   []compiled
	cells    []int // by the cell's bit: the number of the cell within a plane
	// The value of plane p in cell c is at p*planeStep + c*cellStep.
	planeStep, cellStep int
}

// Input is an input of the network.
type Input struct {
	Name  string
	Type  onnx.Type // of its elements; Fill takes the corresponding Go type, and uint8 for Bool
	Shape []int     // of one position, without the batch
	Size  int       // number of elements of one position
	mask  bool
}

// Output is a float32 output of the network.
type Output struct {
	Name  string
	Shape []int // of one position, without the batch
	Size  int   // number of elements of one position
}

// compiled is a plane in the form that fills cells: the terms of a cell's value.
type compiled struct {
	cell     [2][3]float64 // by mover (0 is the first player) and content of the cell: nothing, own stone, other stone
	playable float64
	parity   float64
}

// NewCodec returns a codec if the description, the board and the file's inputs and outputs fit each other. Otherwise the error names the
// field to change.
func NewCodec(d Description, board *game.Board, file *onnx.Info) (*Codec, error) {
	if err := d.Validate(); err != nil {
		return nil, err
	}
	rules := board.Rules()
	if d.Rules != Any && d.Rules != rules.String() {
		return nil, fmt.Errorf("description: rules: the network knows %s alone, not %v", d.Rules, rules)
	}
	if !rules.Gravity && d.Policy.Actions == Columns {
		return nil, fieldError("policy: actions", string(Columns), fmt.Sprintf("must be cells on %v, because without gravity moves are cells", rules))
	}
	c := &Codec{board: board, describe: d}
	c.order()
	for _, step := range []func(*onnx.Info) error{c.findInputs, c.findOutputs} {
		if err := step(file); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// ForPlanes returns a codec without a file, for a network whose only input is the planes of a description, as float32. It has no outputs.
func ForPlanes(d Description, board *game.Board) (*Codec, error) {
	if err := d.Validate(); err != nil {
		return nil, err
	}
	if d.Layout == Patterns {
		return nil, fieldError("layout", string(d.Layout), "has no planes: must be NCHW, NHWC, NHW or NF")
	}
	c := &Codec{board: board, describe: d}
	c.order()
	c.Inputs = []Input{{Name: d.Input, Type: onnx.Float32, Shape: c.shape(), Size: product(c.shape())}}
	return c, nil
}

// Description returns the codec's description.
func (c *Codec) Description() Description { return c.describe }

// order prepares the planes and the places of their cells.
func (c *Codec) order() {
	b, d := c.board, c.describe
	h, w := b.Rows(), b.Columns()
	c.cells = make([]int, game.MaxBits)
	for column := range w {
		for row := range h {
			from := row
			if d.Rows == Top {
				from = h - 1 - row
			}
			c.cells[b.Index(column, row)] = from*w + column
		}
	}
	c.planeStep, c.cellStep = b.Cells(), 1
	if d.Layout == NHWC {
		c.planeStep, c.cellStep = 1, len(d.Planes)
	}
	for _, text := range d.Planes {
		p, _ := parsePlane(text) // already validated
		var x compiled
		for mover := range x.cell {
			own, other := p[fFirst], p[fSecond]
			if mover == 1 {
				own, other = other, own
			}
			everywhere := p[fOnes] + p[fPlayer]*float64(mover) + p[fInARow]*float64(b.InARow())/4
			x.cell[mover] = [3]float64{everywhere + p[fEmpty], everywhere + p[fOwn] + own, everywhere + p[fOther] + other}
		}
		x.playable, x.parity = p[fPlayable], p[fParity]
		c.planes = append(c.planes, x)
	}
}

// shape returns the shape of the input for one position.
func (c *Codec) shape() []int {
	h, w, planes := c.board.Rows(), c.board.Columns(), len(c.planes)
	return map[Layout][]int{NCHW: {planes, h, w}, NHWC: {h, w, planes}, NHW: {h, w}, NF: {planes * h * w}, Patterns: {pattern.Each}}[c.describe.Layout]
}

// actionShapes returns the possible shapes of policy and mask for one position.
func (c *Codec) actionShapes() [][]int {
	h, w := c.board.Rows(), c.board.Columns()
	if c.describe.Policy.Actions == Columns {
		return [][]int{{w}}
	}
	return [][]int{{h, w}, {1, h, w}, {h * w}}
}

func (c *Codec) findInputs(file *onnx.Info) error {
	rest := slices.Clone(file.Inputs)
	d := c.describe
	mask := onnx.Value{}
	if d.Mask != "" {
		at := slices.IndexFunc(rest, func(v onnx.Value) bool { return v.Name == d.Mask })
		if at < 0 {
			return fieldError("mask", d.Mask, "must be one of the file's inputs, "+list(file.Inputs))
		}
		mask = rest[at]
		rest = slices.Delete(rest, at, at+1)
	}
	at := slices.IndexFunc(rest, func(v onnx.Value) bool { return v.Name == d.Input })
	if d.Input == "" && len(rest) == 1 {
		at = 0
	}
	if at < 0 {
		return fieldError("input", d.Input, "must be one of the file's inputs, "+list(file.Inputs))
	}
	input := rest[at]
	if rest = slices.Delete(rest, at, at+1); len(rest) > 0 {
		return fieldError("mask", d.Mask, fmt.Sprintf("the file has more inputs than input and mask: %s, and evaluates only networks without", list(rest)))
	}
	what := fmt.Sprintf("layout %s with %d planes on %v", d.Layout, len(c.planes), c.board.Rules())
	if err := c.addInput(input, "input", what, false, c.shape()); err != nil {
		return err
	}
	if err := c.checkNumbers(input.Type); err != nil {
		return err
	}
	if d.Mask == "" {
		return nil
	}
	return c.addInput(mask, "mask", fmt.Sprintf("policy: actions %s on %v", d.Policy.Actions, c.board.Rules()), true, c.actionShapes()...)
}

// addInput adds an input, which must have one of the shapes. what describes the input in errors.
func (c *Codec) addInput(v onnx.Value, field, what string, mask bool, shapes ...[]int) error {
	if !slices.Contains([]onnx.Type{onnx.Float32, onnx.Float64, onnx.Uint8, onnx.Int8, onnx.Int32, onnx.Int64, onnx.Bool}, v.Type) {
		return fieldError(field, v.Name, fmt.Sprintf("it takes %v: export the network with an input of float32", v.Type))
	}
	shape, err := c.fit(v, field, what, shapes)
	if err != nil {
		return err
	}
	c.Inputs = append(c.Inputs, Input{Name: v.Name, Type: v.Type, Shape: shape, Size: product(shape), mask: mask})
	return c.sameBatch(v, field)
}

// checkNumbers returns an error that names a plane whose values do not fit the input's type.
func (c *Codec) checkNumbers(t onnx.Type) error {
	for _, text := range c.describe.Planes {
		p, _ := parsePlane(text)
		switch {
		case t == onnx.Bool && !p.truth():
			return fieldError("planes", text, "the input takes bool: must be one of own, other, first, second, empty, playable, ones, player, parity")
		case t == onnx.Uint8 && slices.Min(p[:]) < 0:
			return fieldError("planes", text, "the input takes uint8, which has no values below 0")
		case (t == onnx.Uint8 || t == onnx.Int8) && p.size() > math.MaxInt8:
			return fieldError("planes", text, fmt.Sprintf("the input takes %v: the factors must not exceed 127 together", t))
		case t != onnx.Float32 && t != onnx.Float64 && !p.whole():
			return fieldError("planes", text, fmt.Sprintf("the input takes %v: must be a sum of whole numbers, without inarow: write its value, which is 1 with four in a row", t))
		}
	}
	if c.describe.Layout == Patterns && t != onnx.Int64 && t != onnx.Int32 {
		return fieldError("input", c.describe.Input, fmt.Sprintf("it takes %v, and layout patterns int64", t))
	}
	return nil
}

func (c *Codec) findOutputs(file *onnx.Info) error {
	d := c.describe
	valueShapes, what := [][]int{{}, {1}, {1, 1}, {1, 1, 1}}, "value: kind "+string(d.Value.Kind)
	if d.Value.Kind == WDL || d.Value.Kind == WDLLogits {
		valueShapes = [][]int{{net.WDLs}}
	}
	v, err := c.findOutput(file, d.Value.Output, d.Policy.Output, "value: output", what, valueShapes)
	if err != nil {
		return err
	}
	what = fmt.Sprintf("policy: actions %s on %v", d.Policy.Actions, c.board.Rules())
	p, err := c.findOutput(file, d.Policy.Output, v.Name, "policy: output", what, c.actionShapes())
	c.Value, c.Policy = v, p
	return err
}

// findOutput finds an output by name. If name is "", it returns the only output other than beside that has one of the shapes; if there are
// several, one with fixed dimensions takes precedence.
func (c *Codec) findOutput(file *onnx.Info, name, beside, field, what string, shapes [][]int) (Output, error) {
	var found []onnx.Value
	for _, v := range file.Outputs {
		_, err := c.fit(v, field, what, shapes)
		if name != "" && v.Name == name || name == "" && v.Name != beside && err == nil && v.Type == onnx.Float32 {
			found = append(found, v)
		}
	}
	if fixed := slices.DeleteFunc(slices.Clone(found), free); len(fixed) == 1 {
		found = fixed
	}
	if len(found) != 1 {
		return Output{}, fieldError(field, name, fmt.Sprintf("must be one of the file's outputs, %s; of those %d fit %s", list(file.Outputs), len(found), what))
	}
	v := found[0]
	if v.Type != onnx.Float32 {
		return Output{}, fieldError(field, v.Name, fmt.Sprintf("it gives %v: export the network with outputs of float32", v.Type))
	}
	shape, err := c.fit(v, field, what, shapes)
	if err != nil {
		return Output{}, err
	}
	return Output{v.Name, shape, product(shape)}, c.sameBatch(v, field)
}

// free reports whether a dimension other than the batch is free.
func free(v onnx.Value) bool {
	return len(v.Shape) == 0 || slices.ContainsFunc(v.Shape[1:], func(d onnx.Dim) bool { return d.Size < 0 })
}

// fit returns the first of the given shapes for one position that an input or output allows.
func (c *Codec) fit(v onnx.Value, field, what string, shapes [][]int) ([]int, error) {
	if v.Shape == nil {
		return shapes[min(1, len(shapes)-1)], nil // the file does not give the shape, so the first run will check it
	}
	for _, shape := range shapes {
		if len(v.Shape) != len(shape)+1 {
			continue
		}
		fits := true
		for i, n := range shape {
			if d := v.Shape[i+1]; d.Size >= 0 && d.Size != int64(n) {
				fits = false
			}
		}
		if fits {
			return shape, nil
		}
	}
	wants := make([]string, len(shapes))
	for i, shape := range shapes {
		wants[i] = onnx.Dims(append([]onnx.Dim{{Size: -1, Name: "N"}}, sized(shape)...))
	}
	return nil, fieldError(field, v.Name, fmt.Sprintf("its shape is %s, and %s takes %s", onnx.Dims(v.Shape), what, strings.Join(wants, " or ")))
}

// sameBatch records the batch size of an input or output. All inputs and outputs that fix it must agree.
func (c *Codec) sameBatch(v onnx.Value, field string) error {
	if len(v.Shape) == 0 || v.Shape[0].Size < 0 {
		return nil
	}
	n := int(v.Shape[0].Size)
	if c.Batch != 0 && c.Batch != n {
		return fieldError(field, v.Name, fmt.Sprintf("its shape is %s, and another input or output has %d positions: export the network with a free first dimension", onnx.Dims(v.Shape), c.Batch))
	}
	c.Batch = n
	return nil
}

func product(shape []int) int {
	numbers := 1
	for _, n := range shape {
		numbers *= n
	}
	return numbers
}

func sized(shape []int) []onnx.Dim {
	all := make([]onnx.Dim, len(shape))
	for i, n := range shape {
		all[i].Size = int64(n)
	}
	return all
}

// list formats inputs or outputs for errors.
func list(values []onnx.Value) string {
	var texts []string
	for _, v := range values {
		if len(texts) == 8 {
			texts = append(texts, "...")
			break
		}
		shape := ""
		if v.Shape != nil {
			shape = " " + onnx.Dims(v.Shape)
		}
		texts = append(texts, fmt.Sprintf("%s%s of %v", short.Quote(v.Name), shape, v.Type))
	}
	if len(texts) == 0 {
		return "of which there are none"
	}
	return strings.Join(texts, ", ")
}
