package gametest

import (
	"slices"

	"github.com/evald/evald/engine/game"
)

// Naive is a game on an array of cells, written for clarity alone. Tests compare the bitboards with it.
type Naive struct {
	Rules game.Rules
	Cell  [][]int // [column][row], row 0 at the bottom: 0 empty, 1 and 2 the players
	Plies int
}

// NewNaive is the empty board.
func NewNaive(r game.Rules) *Naive {
	n := &Naive{Rules: r, Cell: make([][]int, r.Columns)}
	for c := range n.Cell {
		n.Cell[c] = make([]int, r.Rows)
	}
	return n
}

// Mover is the player to move, 1 or 2.
func (n *Naive) Mover() int { return 1 + n.Plies%2 }

// target returns the cell of action a; ok is false if there is no room for a stone.
func (n *Naive) target(a int) (column, row int, ok bool) {
	if !n.Rules.Gravity {
		column, row = a%n.Rules.Columns, n.Rules.Rows-1-a/n.Rules.Columns
		return column, row, n.Cell[column][row] == 0
	}
	for row := range n.Rules.Rows {
		if n.Cell[a][row] == 0 {
			return a, row, true
		}
	}
	return 0, 0, false
}

// Legal lists the actions that have room for a stone.
func (n *Naive) Legal() []int {
	var legal []int
	for a := range n.Rules.Actions() {
		if _, _, ok := n.target(a); ok {
			legal = append(legal, a)
		}
	}
	return legal
}

// Play puts a stone of the mover; a must be legal.
func (n *Naive) Play(a int) {
	c, row, _ := n.target(a)
	n.Cell[c][row] = n.Mover()
	n.Plies++
}

// Won reports whether the player has InARow in a line.
func (n *Naive) Won(player int) bool {
	for c := range n.Rules.Columns {
		for row := range n.Rules.Rows {
			for _, d := range [][2]int{{0, 1}, {1, 0}, {1, 1}, {1, -1}} {
				run := 0
				for x, y := c, row; n.at(x, y) == player; x, y = x+d[0], y+d[1] {
					run++
				}
				if run >= n.Rules.InARow {
					return true
				}
			}
		}
	}
	return false
}

func (n *Naive) at(c, row int) int {
	if c < 0 || c >= n.Rules.Columns || row < 0 || row >= n.Rules.Rows {
		return -1
	}
	return n.Cell[c][row]
}

// Mirror is the board with its columns reversed.
func (n *Naive) Mirror() *Naive {
	m := n.clone()
	slices.Reverse(m.Cell)
	return m
}

// Images are the boards that differ from n by a symmetry of its rules alone, in the order of game.Board.Image.
func (n *Naive) Images() []*Naive {
	images := []*Naive{n, n.Mirror()}
	if n.Rules.Gravity {
		return images
	}
	images = append(images, n.upsideDown(), n.upsideDown().Mirror())
	if n.Rules.Rows != n.Rules.Columns {
		return images
	}
	swapped := n.clone()
	for c := range swapped.Cell {
		for row := range swapped.Cell[c] {
			swapped.Cell[c][row] = n.Cell[row][c]
		}
	}
	return append(images, swapped, swapped.Mirror(), swapped.upsideDown(), swapped.upsideDown().Mirror())
}

func (n *Naive) upsideDown() *Naive {
	m := n.clone()
	for _, column := range m.Cell {
		slices.Reverse(column)
	}
	return m
}

func (n *Naive) clone() *Naive {
	m := NewNaive(n.Rules)
	m.Plies = n.Plies
	for c := range n.Cell {
		copy(m.Cell[c], n.Cell[c])
	}
	return m
}

// Position is the same board as bitboards.
func (n *Naive) Position(b *game.Board) game.Position {
	s, err := b.FromKaggle(n.Kaggle(), n.Mover())
	if err != nil {
		panic(err)
	}
	return s.Position
}

// Kaggle is the flat board, row by row from the top left.
func (n *Naive) Kaggle() []int {
	var cells []int
	for row := n.Rules.Rows - 1; row >= 0; row-- {
		for c := range n.Rules.Columns {
			cells = append(cells, n.Cell[c][row])
		}
	}
	return cells
}
