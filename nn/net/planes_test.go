package net

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

// boards are the usual test boards, and some that are narrow, tall or large.
func boards() []*game.Board {
	extra := []game.Rules{
		{Rows: 127, Columns: 1, InARow: 4, Gravity: true},
		{Rows: 1, Columns: 64, InARow: 3, Gravity: true},
		{Rows: 1, Columns: 1, InARow: 1, Gravity: false},
	}
	all := gametest.Boards()
	for _, r := range extra {
		all = append(all, game.MustBoard(r))
	}
	return all
}

// naivePlanes computes the planes of an array board from their definition, cell by cell.
func naivePlanes(n *gametest.Naive) []float32 {
	r := n.Rules
	var own, other, playable, parity, board []float32
	yes := func(b bool) float32 {
		if b {
			return 1
		}
		return 0
	}
	for row := r.Rows - 1; row >= 0; row-- { // from the top
		for c := range r.Columns {
			cell := n.Cell[c][row]
			supported := !r.Gravity || row == 0 || n.Cell[c][row-1] != 0
			own = append(own, yes(cell == n.Mover()))
			other = append(other, yes(cell == 3-n.Mover()))
			playable = append(playable, yes(cell == 0 && supported))
			parity = append(parity, yes((row+r.Cells()-r.Rows+n.Plies)%2 == 0))
			board = append(board, float32(r.InARow)/4)
		}
	}
	return slices.Concat(own, other, playable, parity, board)
}

func randomNaive(r *rand.Rand, rules game.Rules) *gametest.Naive {
	n := gametest.NewNaive(rules)
	for range r.IntN(rules.Cells() + 1) {
		legal := n.Legal()
		n.Play(legal[r.IntN(len(legal))])
	}
	return n
}

func TestPlanes(t *testing.T) {
	r := gametest.Rand(4)
	for _, b := range boards() {
		var pos []game.Position
		var want []float32
		for range 50 {
			n := randomNaive(r, b.Rules())
			pos = append(pos, n.Position(b))
			want = append(want, naivePlanes(n)...)
		}
		got := normals(r, PlanesSize(b, len(pos))) // old contents must not matter
		Planes(b, pos, got)
		if !slices.Equal(got, want) {
			t.Errorf("%v: planes differ from their definition", b.Rules())
		}
		tensor := NewPlanes(b, pos)
		if !slices.Equal(tensor.Shape(), []int{50, 5, b.Rows(), b.Columns()}) || !slices.Equal(tensor.Float32s(), want) {
			t.Errorf("%v: NewPlanes differs, shape %v", b.Rules(), tensor.Shape())
		}
	}
}

// The meaning of the parity plane: fill all columns but one, then fill the last one, and check who plays where.
func TestParityPlane(t *testing.T) {
	r := gametest.Rand(5)
	for _, b := range boards() {
		rules := b.Rules()
		if !rules.Gravity {
			continue
		}
		now := gametest.NewNaive(rules)
		for range r.IntN(rules.Cells() - rules.Rows + 1) { // column 0 stays empty
			legal := slices.DeleteFunc(now.Legal(), func(a int) bool { return a == 0 })
			now.Play(legal[r.IntN(len(legal))])
		}
		mover, parity := now.Mover(), naivePlanes(now)[planeParity*b.Cells():]
		for len(now.Legal()) > 1 {
			now.Play(now.Legal()[1])
		}
		for row := range rules.Rows {
			if mine := parity[(rules.Rows-1-row)*rules.Columns] == 1; mine != (now.Mover() == mover) {
				t.Errorf("%v: row %d of the last column: the plane says %v", rules, row, mine)
			}
			now.Play(0)
		}
	}
}

func TestPlanesPanicsOnSize(t *testing.T) {
	defer func() {
		if got, want := recover(), "net: planes of 1 positions need 210 values, have 209"; got != want {
			t.Errorf("panic %v, want %s", got, want)
		}
	}()
	Planes(game.MustBoard(game.Connect4), make([]game.Position, 1), make([]float32, 209))
}

func BenchmarkPlanes(b *testing.B) {
	board := game.MustBoard(game.Connect4)
	pos := gametest.Positions(gametest.Rand(1), board, 256, true)
	dst := make([]float32, PlanesSize(board, len(pos)))
	for b.Loop() {
		Planes(board, pos, dst)
	}
	b.ReportMetric(float64(b.N*len(pos))/b.Elapsed().Seconds(), "positions/s")
}
