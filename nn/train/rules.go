package train

import (
	"math/rand/v2"

	"github.com/evald/evald/engine/game"
)

// Sources of positions that teach the rules: whether and how a game has ended, and what the next stones decide.
//
// The positions come from two kinds of play. In a random game, every legal move is equally likely until the game ends. A long game avoids
// winning moves while other moves are legal, so that boards fill up; it stops after a random number of moves. NaturalPositions and
// RulePositions show each position from either side with probability 1/2, whichever side is to move.

// NaturalPositions is a source of positions at the rates of random games: every position of every random game, from the first
// stone to the last, is equally likely. On 7x6x4 about 0.953 of them are not over, 0.047 are won, and 0.00015 are drawn. The seed
// must differ from that of the run whose network is measured.
func NaturalPositions(b *game.Board, seed uint64) Source {
	return draw(b, seed, forMeasuring, func(s sampler, _ int) Example { return s.example(s.natural()) })
}

// draw is a source that fills batches with examples from next; i is the index in the batch. use selects the sequence of random numbers.
func draw(b *game.Board, seed uint64, use int, next func(s sampler, i int) Example) Source {
	return func(step int, dst []Example) error {
		s := sampler{b, randomOf(seed, use, step)}
		for i := range dst {
			dst[i] = next(s, i)
		}
		return nil
	}
}

// RulePositions is a source that teaches the end of a game: of 4 positions, 2 are not over, 1 is won and 1 is drawn. Positions of the first
// two kinds come half from random games and half from long ones; drawn positions come from long games. If no position of a kind is found, a
// natural one replaces it.
func RulePositions(b *game.Board, seed uint64) Source {
	return draw(b, seed, forLearning, func(s sampler, i int) Example {
		return s.example(s.wanted([...]game.Result{game.Ongoing, game.Loss, game.Ongoing, game.Draw}[i%4]))
	})
}

// DecidedPositions is a source that teaches which games the rules decide before they are over (game.Board.Outlook). Of 4 positions, 2 are
// won, mostly with the next stone, 1 is lost, and in 1 a single move prevents an immediate loss. If the rules decide the game, the targets
// are its result, and equal probabilities for the correct moves. If every move loses at once, there is no policy target; if only the
// correct move is known, there is no value target. Half of the positions come from random games and half from long ones. If no position of
// a kind is found, a natural one replaces it.
func DecidedPositions(b *game.Board, seed uint64) Source {
	return draw(b, seed, forDeciding, func(s sampler, i int) Example {
		return s.decided([...]game.Result{game.Win, game.Loss, game.Win, game.Ongoing}[i%4])
	})
}

// tries is the maximum number of positions drawn to find one of the desired kind.
const tries = 100

// decided returns an example with the given result by the rules; for Ongoing, one with a single move worth playing.
func (s sampler) decided(result game.Result) Example {
	for range tries {
		p := s.natural()
		if s.r.IntN(2) == 1 {
			p = s.long(s.r.IntN(s.board.Cells()))
		}
		if s.board.Result(p) != game.Ongoing {
			continue
		}
		if o := s.board.Outlook(p); o.Result == result && (result != game.Ongoing || o.Plies > 0) {
			return s.outlook(p, o)
		}
	}
	return s.example(s.natural())
}

func (s sampler) outlook(p game.Position, o game.Outlook) Example {
	e := Example{Position: p, Weight: 1, GameOver: game.NotOver, WDL: o.Result.WDL()}
	if o.Result != game.Loss || o.Plies > 0 {
		e.Solved = true
		e.Policy = make([]float32, s.board.Actions())
		for m := o.Moves; !m.IsZero(); m = m.WithoutFirst() {
			e.Policy[s.board.Action(m.First())] = 1 / float32(o.Moves.OnesCount())
		}
	}
	return e
}

// sampler draws random positions.
type sampler struct {
	board *game.Board
	r     *rand.Rand
}

// example returns a position's example, seen from a random side, with its gameover class.
func (s sampler) example(p game.Position) Example {
	if s.r.IntN(2) == 1 {
		p.Own = p.Other()
	}
	result := s.board.Result(p)
	return Example{Position: p, Weight: 1, GameOver: int(result.GameOver()), WDL: result.WDL()}
}

// natural draws a game and a number of plies, until the game lasts that long.
func (s sampler) natural() game.Position {
	for {
		plies := 1 + s.r.IntN(s.board.Cells())
		if p, ok := s.random(plies); ok {
			return p
		}
	}
}

// random returns the position of a random game after the given number of moves, or the game's last position and false if it ended earlier.
func (s sampler) random(plies int) (p game.Position, lasted bool) {
	for range plies {
		if s.board.Result(p) != game.Ongoing {
			return p, false
		}
		p = s.board.PlayCell(p, s.pick(s.board.Legal(p)))
	}
	return p, true
}

// long returns the position of a long game after the given number of moves, or an earlier one if every move wins or the board is full.
func (s sampler) long(plies int) (p game.Position) {
	for range plies {
		quiet := s.board.Legal(p).AndNot(s.board.Wins(p))
		if quiet.IsZero() {
			break
		}
		p = s.board.PlayCell(p, s.pick(quiet))
	}
	return p
}

func (s sampler) pick(set game.Bits) game.Bits {
	return set.Nth(s.r.IntN(set.OnesCount()))
}

// wanted returns a position with the given result for the side to move: Ongoing, Loss (the other side has won) or Draw.
func (s sampler) wanted(result game.Result) game.Position {
	cells := s.board.Cells()
	for range tries {
		var p game.Position
		switch long := s.r.IntN(2) == 1; {
		case result == game.Draw:
			p = s.long(cells)
		case result == game.Ongoing && !long:
			p = s.natural()
		case result == game.Loss && !long:
			p, _ = s.random(cells)
		default:
			p = s.long(s.r.IntN(cells))
			if wins := s.board.Wins(p); result == game.Loss && !wins.IsZero() {
				p = s.board.PlayCell(p, s.pick(wins))
			}
		}
		if s.board.Result(p) == result {
			return p
		}
	}
	return s.natural()
}
