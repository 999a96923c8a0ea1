package score

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/evald/evald/engine/game"
)

// Draw draws n different positions of a board that a game can reach and that are not over; fewer if it hardly finds new ones. Each of these
// positions, with mirror images counted as one, is equally likely. The same seed draws the same positions.
//
// Draw draws uniformly from all placements of stones that obey gravity and contain the numbers of stones of players who take turns. It
// keeps placements in which neither side has a line, that are the smaller of two mirror images, and that some order of moves reaches. No
// game ends on the way to such a position, because no part of the position has a line.
func Draw(ctx context.Context, b *game.Board, n int, seed uint64, progress func(done int)) (positions []game.Position, err error) {
	d := newDrawing(b, seed)
	found := make(map[game.Position]bool, min(n, 1<<20))
	last := 0 // number of the last placement that was a new position
	for placement := 0; len(positions) < n && placement-last < maxIdle; placement++ {
		if placement%(1<<12) == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		p := d.stones()
		if b.Result(p) != game.Ongoing || b.Won(p.Own) || found[p] {
			continue
		}
		if least, _ := b.Canonical(p); least != p || !d.reachable(p) {
			continue
		}
		found[p] = true
		positions, last = append(positions, p), placement
		if progress != nil {
			progress(len(positions))
		}
	}
	if len(positions) == 0 {
		return nil, fmt.Errorf("%v: of %d random placements of stones none is a position of an unfinished game", b.Rules(), maxIdle)
	}
	return positions, nil
}

// maxIdle is the number of successive placements without a new position after which Draw stops.
const maxIdle = 1 << 24

type drawing struct {
	board   *game.Board
	columns int         // number of sets of cells that fill from the bottom: the columns, or without gravity the cells
	rows    int         // cells of each set
	ways    [][]float64 // ways[c][s]: number of ways to put s stones into the sets from c on
	upTo    []float64   // upTo[s]: number of placements of at most s stones
	random  *rand.Rand
	cells   []int              // cells of the stones of one placement
	seen    map[game.Bits]bool // by takeAway
}

func newDrawing(b *game.Board, seed uint64) *drawing {
	d := &drawing{board: b, columns: b.Columns(), rows: b.Rows(), random: rand.New(rand.NewPCG(seed, 0))}
	if !b.Rules().Gravity {
		d.columns, d.rows = b.Cells(), 1
	}
	d.ways = make([][]float64, d.columns+1)
	for c := d.columns; c >= 0; c-- {
		d.ways[c] = make([]float64, b.Cells()+1)
		for s := range d.ways[c] {
			if c == d.columns {
				if s == 0 {
					d.ways[c][s] = 1
				}
				continue
			}
			for height := 0; height <= min(d.rows, s); height++ {
				d.ways[c][s] += d.ways[c+1][s-height]
			}
		}
	}
	sum := 0.
	for s := range b.Cells() { // a full board is over, so it is not counted
		sum += d.ways[0][s] * choose(s, s/2)
		d.upTo = append(d.upTo, sum)
	}
	return d
}

// choose is the number of k-element subsets of n things.
func choose(n, k int) float64 {
	product := 1.
	for i := range k {
		product = product * float64(n-i) / float64(i+1)
	}
	return math.Round(product)
}

// stones draws a placement.
func (d *drawing) stones() (p game.Position) {
	x := d.random.Float64() * d.upTo[len(d.upTo)-1]
	s := 0
	for s < len(d.upTo)-1 && x >= d.upTo[s] {
		s++
	}
	d.cells = d.cells[:0]
	left := s
	for c := range d.columns {
		x := d.random.Float64() * d.ways[c][left]
		height, most := 0, min(d.rows, left)
		for height < most && x >= d.ways[c+1][left-height] {
			x -= d.ways[c+1][left-height]
			height++
		}
		for row := range height {
			if d.rows == 1 && !d.board.Rules().Gravity {
				d.cells = append(d.cells, d.board.FlatIndex(c))
			} else {
				d.cells = append(d.cells, d.board.Index(c, row))
			}
		}
		left -= height
	}
	for i := range d.cells { // partial shuffle, so that each split between the sides is equally likely
		j := i + d.random.IntN(len(d.cells)-i)
		d.cells[i], d.cells[j] = d.cells[j], d.cells[i]
		cell := game.Bits{Lo: 1}.Shl(uint(d.cells[i]))
		p.All = p.All.Or(cell)
		if i < s/2 { // the side to move has placed half of the stones, rounded down
			p.Own = p.Own.Or(cell)
		}
	}
	return p
}

// reachable reports whether alternating moves lead to a placement without lines: whether the sides can remove its stones in turns, each
// time from the top of a column.
func (d *drawing) reachable(p game.Position) bool {
	if !d.board.Rules().Gravity {
		return true
	}
	d.seen = map[game.Bits]bool{}
	return d.takeAway(p)
}

// takeAway reports whether all stones can be removed in turns, beginning with a stone of the side that moved last.
func (d *drawing) takeAway(p game.Position) bool {
	if p.All.IsZero() {
		return true
	}
	if d.seen[p.All] { // as the sides alternate, the set of all stones determines the position
		return false
	}
	d.seen[p.All] = true
	other := p.Other()
	for c := range d.board.Columns() {
		for row := d.board.Rows() - 1; row >= 0; row-- {
			i := d.board.Index(c, row)
			if !p.All.Has(i) {
				continue
			}
			if other.Has(i) {
				before := game.Position{Own: other.AndNot(game.Bits{Lo: 1}.Shl(uint(i))), All: p.All.AndNot(game.Bits{Lo: 1}.Shl(uint(i)))}
				if d.takeAway(before) {
					return true
				}
			}
			break
		}
	}
	return false
}
