// Package diagram draws positions as SVG and as PNG: the board, the stones, the last move, winning lines and, if requested, the number of
// each stone's move.
//
// A picture is a list of shapes in the units of the SVG (shapes.go). Both forms are drawn from this list, so they look the same. Texts are
// strokes (glyphs.go), so the package needs no font, and a position gives the same bytes on every machine. The board has a light rim and
// filled holes, so that the picture is clear on light and dark backgrounds. Red stones are much darker than yellow ones, so that it is clear
// without colours, too.
package diagram

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/evald/evald/engine/game"
)

// Diagram is a position to draw.
type Diagram struct {
	Board    *game.Board
	Position game.Position
	Moves    []int // the moves that led to Position; nil if unknown: then no last move is marked, and stones have no numbers
	Numbers  bool  // write the number of its move on each stone, from 1
}

// Sizes in units of the SVG.
const (
	cell  = 40
	frame = 6
	label = 20 // height of the line of column names
)

// Colours.
const (
	board, rim, hole      = 0x2b55b8, 0x8fb2ff, 0xeef2fb
	red, yellow           = 0xd62f33, 0xf5bd1f
	onRed, onYellow, name = 0xffffff, 0x3a2a00, 0xffffff
)

func (d *Diagram) size() (width, height float64) {
	width, height = float64(d.Board.Columns()*cell+2*frame), float64(d.Board.Rows()*cell+2*frame)
	if d.labelled() {
		height += label
	}
	return width, height
}

// labelled reports whether the picture has the names of the columns: on boards with gravity whose columns have a name in digits.
func (d *Diagram) labelled() bool { return d.Board.Rules().Gravity && d.Board.Columns() <= len(digits) }

// digits has the names of the columns that can be drawn, in order.
const digits = "123456789abcdefghijklmnopqrstuvwxyz"

// Of returns the diagram of a position in any notation of game.Parser: moves, rules and moves, or a board as JSON. Errors are of type
// *game.ParseError.
func Of(text string) (*Diagram, error) {
	s, err := new(game.Parser).Parse(text)
	if err != nil {
		return nil, err
	}
	d := &Diagram{Board: s.Board, Position: s.Position}
	if !strings.HasPrefix(text, "{") {
		_, moves, _ := strings.Cut(text, ":")
		if moves == "" {
			moves = text
		}
		if d.Position, d.Moves, err = s.Board.ParseMoves(moves); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// shapes returns the shapes of the picture, from the background to the foreground.
func (d *Diagram) shapes() (all []shape) {
	width, height := d.size()
	all = append(all, rectangle{0, 0, width, height, 10, rim}, rectangle{1.5, 1.5, width - 3, height - 3, 9, board})
	number, last := d.order()
	won := d.winning()
	for row := range d.Board.Rows() {
		for column := range d.Board.Columns() {
			at := d.Board.Index(column, d.Board.Rows()-1-row)
			x, y := float64(frame+column*cell+cell/2), float64(frame+row*cell+cell/2)
			side, ok := d.stone(at)
			if !ok {
				all = append(all, disc{x, y, 16, hole})
				continue
			}
			colour, on := uint32(red), uint32(onRed)
			if side == 1 {
				colour, on = yellow, onYellow
			}
			all = append(all, disc{x, y, 16, colour})
			if won.Has(at) {
				all = append(all, ring{x, y, 13, 3, on})
			}
			switch {
			case d.Numbers && number[at] > 0:
				all = append(all, write(strconv.Itoa(number[at]), x, y, 13, on)...)
				if at == last && !won.Has(at) {
					all = append(all, ring{x, y, 14, 1.5, on})
				}
			case at == last:
				all = append(all, disc{x, y, 5, on})
			}
		}
	}
	if d.labelled() {
		for column := range d.Board.Columns() {
			all = append(all, write(digits[column:column+1], float64(frame+column*cell+cell/2), height-frame-label/2+1, 12, name)...)
		}
	}
	return all
}

// stone returns the side whose stone is at a bit; side 0 moved first. ok is false if the cell is empty.
func (d *Diagram) stone(at int) (side int, ok bool) {
	p := d.Position
	side = p.Plies() % 2
	if !p.Own.Has(at) {
		side = 1 - side
	}
	return side, p.All.Has(at)
}

// order returns the number of each stone's move by the stone's bit, and the bit of the last stone, -1 without moves.
func (d *Diagram) order() (number map[int]int, last int) {
	number, last = map[int]int{}, -1
	var p game.Position
	for i, a := range d.Moves {
		last = d.Board.Cell(p, a).First()
		number[last] = i + 1
		p = d.Board.Play(p, a)
	}
	return number, last
}

// winning returns the cells of all complete lines of the side that moved last.
func (d *Diagram) winning() (cells game.Bits) {
	for _, line := range d.Board.Lines() {
		if line.AndNot(d.Position.Other()).IsZero() {
			cells = cells.Or(line)
		}
	}
	return cells
}

// Title returns one line with the position and the side to move or the game's result. The first player is Red.
func (d *Diagram) Title() string { return d.title([2]string{"Red", "Yellow"}) }

func (d *Diagram) title(sides [2]string) string {
	rules := d.Board.Rules()
	text := fmt.Sprintf("%v, %d stones", rules, d.Position.Plies())
	if d.Moves != nil || d.Position.Plies() == 0 {
		text = rules.String() + ":" + game.FormatMoves(rules, d.Moves)
	}
	side := d.Position.Plies() % 2
	switch d.Board.Result(d.Position) {
	case game.Loss:
		return text + ", " + sides[1-side] + " wins"
	case game.Draw:
		return text + ", draw"
	}
	return text + ", " + sides[side] + " to move"
}

// Description lists the stones, for people who do not see the picture: the columns from the left, each from the bottom, and without gravity
// also the empty cells.
func (d *Diagram) Description() string {
	var columns []string
	for c := range d.Board.Columns() {
		var stones []string
		for r := range d.Board.Rows() {
			side, ok := d.stone(d.Board.Index(c, r))
			switch {
			case ok:
				stones = append(stones, [2]string{"red", "yellow"}[side])
			case !d.Board.Rules().Gravity:
				stones = append(stones, "empty")
			}
		}
		if len(stones) > 0 {
			columns = append(columns, fmt.Sprintf("Column %d from the bottom: %s.", c+1, strings.Join(stones, ", ")))
		}
	}
	if len(columns) == 0 {
		return "The board is empty."
	}
	return strings.Join(columns, " ")
}

// Sizes of pictures, in pixels of the longer side.
const (
	MinSize     = 64
	MaxSize     = 1024
	DefaultSize = 480
)

// errSize is the error for a size out of range.
var errSize = errors.New("must be " + strconv.Itoa(MinSize) + " to " + strconv.Itoa(MaxSize))

// pixels returns the scale for a picture whose longer side has size pixels, and its width and height.
func (d *Diagram) pixels(size int) (scale float64, width, height int, err error) {
	if size < MinSize || size > MaxSize {
		return 0, 0, 0, fmt.Errorf("size %d: %w", size, errSize)
	}
	w, h := d.size()
	scale = float64(size) / max(w, h)
	return scale, max(1, int(w*scale+0.5)), max(1, int(h*scale+0.5)), nil
}
