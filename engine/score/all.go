package score

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/solver"
)

// ErrTooMany is the error of All if the board has more positions than AllOptions.Most.
var ErrTooMany = errors.New("the board has too many positions")

// AllOptions are the options of All.
type AllOptions struct {
	Most int // maximum number of positions, else ErrTooMany. A position takes 8 bytes, and twice that while its layer is found

	// Progress, if not nil, is called often: while positions are found (total is 0), and then while they are visited.
	Progress func(done, total int)
}

// All calls visit with all positions of a board that a game can reach and that are not over, one of each two mirror images, with the exact
// scores of their moves. It passes them in parts, which visit must not retain, those with the most stones first. All returns the number of
// positions.
//
// A layer is the positions with a given number of stones. All finds and stores the layers in order, beginning with the empty board. Then it
// solves them backwards: the scores of a layer follow from those of the next.
func All(ctx context.Context, b *game.Board, o AllOptions, visit func([]Position) error) (n int, err error) {
	words, err := newPacking(b)
	if err != nil {
		return 0, err
	}
	if o.Progress == nil {
		o.Progress = func(int, int) {}
	}
	layers := [][]uint64{{words.pack(game.Position{})}}
	for total := 1; len(layers[len(layers)-1]) > 0; {
		next, err := words.next(ctx, layers[len(layers)-1], o.Most-total)
		if err != nil {
			return 0, err
		}
		layers, total = append(layers, next), total+len(next)
		o.Progress(total, 0)
		n = total
	}
	done := 0
	var later []int8 // the scores of the positions of the next layer
	for stones, layer := range slices.Backward(layers) {
		scores := make([]int8, 0, len(layer))
		for from := 0; from < len(layer); from += visitRows {
			if err := ctx.Err(); err != nil {
				return 0, err
			}
			part := words.solve(layer[from:min(len(layer), from+visitRows)], layers[min(stones+1, len(layers)-1)], later)
			for _, p := range part {
				scores = append(scores, int8(slices.Max(p.Scores)))
			}
			if err := visit(part); err != nil {
				return 0, err
			}
			done += len(part)
			o.Progress(done, n)
		}
		later = scores
	}
	return n, nil
}

// visitRows is the maximum number of positions of a part.
const visitRows = 1 << 13

// packing packs positions into words. With gravity, each column contains the stones of the side to move, and a 1 above its highest stone.
// Without gravity, the upper half contains the stones of the side to move, and the lower half all stones.
type packing struct {
	board   *game.Board
	column  uint64 // the bits of the first column, with its guard
	stride  uint
	bottom  uint64 // the lowest bit of each column
	gravity bool
}

func newPacking(b *game.Board) (*packing, error) {
	if limit := b.Index(b.Columns()-1, b.Rows()-1) + 1; b.Wide() || !b.Rules().Gravity && limit > 32 {
		return nil, ErrTooMany
	}
	p := &packing{board: b, stride: uint(b.Rows() + 1), gravity: b.Rules().Gravity}
	p.column = 1<<p.stride - 1
	for c := range b.Columns() {
		p.bottom |= 1 << b.Index(c, 0)
	}
	return p, nil
}

func (w *packing) pack(p game.Position) uint64 {
	if !w.gravity {
		return p.Own.Lo<<32 | p.All.Lo
	}
	return p.Own.Lo | (p.All.Lo+w.bottom)&^p.All.Lo
}

func (w *packing) unpack(word uint64) (p game.Position) {
	if !w.gravity {
		return game.Position{Own: game.Bits{Lo: word >> 32}, All: game.Bits{Lo: word & (1<<32 - 1)}}
	}
	for shift := uint(0); shift < w.stride*uint(w.board.Columns()); shift += w.stride {
		column := word >> shift & w.column
		top := uint64(1) << (bits.Len64(column) - 1)
		p.Own.Lo |= (column &^ top) << shift
		p.All.Lo |= (top - 1) << shift
	}
	return p
}

// next returns the next layer, sorted. More than most positions are an error.
func (w *packing) next(ctx context.Context, layer []uint64, most int) (next []uint64, err error) {
	compact := 1 << 16 // when next has this length, duplicates are removed
	for i, word := range layer {
		if i%(1<<14) == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		p := w.unpack(word)
		for legal := w.board.Legal(p); !legal.IsZero(); legal = legal.WithoutFirst() {
			child := w.board.PlayCell(p, legal.LowBit())
			if w.board.Result(child) != game.Ongoing {
				continue
			}
			child, _ = w.board.Canonical(child)
			next = append(next, w.pack(child))
		}
		if len(next) >= compact || i == len(layer)-1 {
			slices.Sort(next)
			next = slices.Compact(next)
			compact = 2*len(next) + 1<<16
			if len(next) > most {
				return nil, fmt.Errorf("%v: %w: more than the requested maximum", w.board.Rules(), ErrTooMany)
			}
		}
	}
	return slices.Clip(next), nil
}

// solve returns some positions of a layer with their scores. next is the next layer, and later its scores.
func (w *packing) solve(layer, next []uint64, later []int8) []Position {
	b := w.board
	actions := b.Actions()
	part, scores := make([]Position, len(layer)), make([]int, len(layer)*actions)
	for i, word := range layer {
		p := w.unpack(word)
		part[i] = Position{State: game.State{Board: b, Position: p, Mark: p.Mover()}, Scores: scores[i*actions : (i+1)*actions]}
		for a := range part[i].Scores {
			part[i].Scores[a] = solver.NoMove
			if !b.CanPlay(p, a) {
				continue
			}
			child := b.Play(p, a)
			switch b.Result(child) {
			case game.Loss: // for the side that moves next
				part[i].Scores[a] = (b.Cells() + 1 - p.Plies()) / 2
			case game.Draw:
				part[i].Scores[a] = 0
			default:
				child, _ = b.Canonical(child)
				at, _ := slices.BinarySearch(next, w.pack(child)) // it is always there
				part[i].Scores[a] = -int(later[at])
			}
		}
	}
	return part
}
