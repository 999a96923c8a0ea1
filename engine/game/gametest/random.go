package gametest

import (
	"math/rand/v2"

	"github.com/evald/evald/engine/game"
)

// Rand is a seeded random source.
func Rand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, seed^0x9e3779b97f4a7c15)) }

// Position plays up to plies random moves from the empty board, and stops earlier if the game ends. If ongoing is set, it stops before a
// move that would end the game.
func Position(r *rand.Rand, b *game.Board, plies int, ongoing bool) game.Position {
	var p game.Position
	for range plies {
		if b.Result(p) != game.Ongoing {
			break
		}
		legal := b.Legal(p)
		q := b.PlayCell(p, legal.Nth(r.IntN(legal.OnesCount())))
		if ongoing && b.Result(q) != game.Ongoing {
			break
		}
		p = q
	}
	return p
}

// Positions returns n random positions of all lengths; see Position.
func Positions(r *rand.Rand, b *game.Board, n int, ongoing bool) []game.Position {
	ps := make([]game.Position, n)
	for i := range ps {
		ps[i] = Position(r, b, r.IntN(b.Cells()+1), ongoing)
	}
	return ps
}

// Open returns n random positions that the next stones do not decide: no next stone wins, and several moves prevent the other side from
// winning with its next stone.
func Open(r *rand.Rand, b *game.Board, n int) []game.Position {
	var ps []game.Position
	for len(ps) < n {
		p := Position(r, b, r.IntN(b.Cells()+1), true)
		if b.Result(p) == game.Ongoing && b.Outlook(p).Result == game.Ongoing && b.Outlook(p).Plies == 0 {
			ps = append(ps, p)
		}
	}
	return ps
}

// Boards returns games of all kinds for tests: the usual one, other sizes and lengths, wide ones, and boards without gravity.
func Boards() []*game.Board {
	rules := []game.Rules{
		game.Connect4,
		game.TicTacToe,
		{Rows: 4, Columns: 4, InARow: 4, Gravity: true},
		{Rows: 5, Columns: 9, InARow: 4, Gravity: true},
		{Rows: 7, Columns: 8, InARow: 4, Gravity: true},
		{Rows: 6, Columns: 7, InARow: 5, Gravity: true},
		{Rows: 5, Columns: 5, InARow: 3, Gravity: true},
		{Rows: 9, Columns: 12, InARow: 5, Gravity: true},
		{Rows: 10, Columns: 10, InARow: 4, Gravity: true},
		{Rows: 7, Columns: 7, InARow: 5, Gravity: false},
		{Rows: 9, Columns: 9, InARow: 5, Gravity: false},
	}
	boards := make([]*game.Board, len(rules))
	for i, r := range rules {
		boards[i] = game.MustBoard(r)
	}
	return boards
}
