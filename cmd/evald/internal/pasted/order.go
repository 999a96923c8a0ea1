package pasted

import "github.com/evald/evald/engine/game"

// mostOrders is the maximum number of positions from which order goes back in vain before it gives
// up.
const mostOrders = 1 << 16

// orders looks for moves that lead to a position, backwards from the position.
type orders struct {
	board  *game.Board
	stacks [][]game.Bits      // by action: its stones on the board, in the order of play
	vain   map[game.Bits]bool // stones from which no moves lead back to the empty board
	moves  []int              // the moves found, from the empty board on
}

// order returns moves that lead to a position in which the sides have taken turns and the side to
// move has no line. If it finds none, the error says so.
func order(s game.State) ([]int, error) {
	b := s.Board
	o := &orders{board: b, stacks: make([][]game.Bits, b.Actions()), vain: map[game.Bits]bool{}}
	for cell := b.Cells() - 1; cell >= 0; cell-- { // the lower rows first
		if i := b.FlatIndex(cell); s.All.Has(i) {
			o.stacks[b.Action(i)] = append(o.stacks[b.Action(i)], game.Bits{Lo: 1}.Shl(uint(i)))
		}
	}
	if !o.back(s.Position) {
		return nil, wrong("board", b.Rules().String(), "no order of moves leads to it")
	}
	return o.moves, nil
}

// back takes stones back, of the two sides in turn, until the board is empty. It reports whether it
// has succeeded. Only the last move may complete a line.
func (o *orders) back(p game.Position) bool {
	if p.All.IsZero() {
		return true
	}
	if o.vain[p.All] || len(o.vain) == mostOrders {
		return false
	}
	for a, stack := range o.stacks {
		if len(stack) == 0 {
			continue
		}
		stone := stack[len(stack)-1]
		before := game.Position{Own: p.Other().AndNot(stone), All: p.All.AndNot(stone)}
		if p.Own.And(stone) == stone || o.board.Won(before.Own) {
			continue
		}
		o.stacks[a] = stack[:len(stack)-1]
		if o.back(before) {
			o.moves = append(o.moves, a)
			return true
		}
		o.stacks[a] = stack
	}
	o.vain[p.All] = true
	return false
}
