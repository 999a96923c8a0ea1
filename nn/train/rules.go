package train

import (
	"math/rand/v2"

	"github.com/evald/evald/engine/game"
)

// Learning the rules from positions: whether a game is over, and how, and what the next stones decide.
//
// Two kinds of play give the positions. In a random game every legal move is as likely as any other, until the game
// ends. In a long game no move wins as long as another is legal, so that boards get full; it stops after a random number
// of moves. Every position is seen from either side with equal chance, also from the side whose turn it is not.

// NaturalPositions is the source of positions at the rates of random games: each of a random game's positions, from
// the first stone to the last, is as likely as each position of any other game. On 7x6x4 about 0.953 of them are not
// over, 0.047 are won, and 0.00015 are drawn. seed must not be that of a run whose network is measured.
func NaturalPositions(b *game.Board, seed uint64) Source {
	return func(step int, dst []Example) error {
		s := sampler{b, randomOf(seed, forMeasuring, step)}
		for i := range dst {
			dst[i] = s.example(s.natural())
		}
		return nil
	}
}

// RulePositions is the source to learn the rule from: of 4 positions 2 are not over, 1 is won and 1 drawn. Half of the
// first two kinds are of random games, half of long ones; drawn games are long ones. Where the board cannot give such a
// position, a natural one is in its place.
func RulePositions(b *game.Board, seed uint64) Source {
	return func(step int, dst []Example) error {
		s := sampler{b, randomOf(seed, forLearning, step)}
		for i := range dst {
			dst[i] = s.example(s.wanted([...]game.Result{game.Ongoing, game.Loss, game.Ongoing, game.Draw}[i%4]))
		}
		return nil
	}
}

// DecidedPositions is the source to learn from what the rules decide before the game is over (game.Board.Outlook): of 4
// positions 2 are won, mostly with the next stone, 1 is lost, and in 1 a single move keeps the other side from winning at
// once. Where the rules decide the game, its result is the target, and the moves to play, each alike; where every move
// loses at once none is taught, and where only the move is known no value. Half of the positions are of random games, half
// of long ones. Where the board cannot give such a position, a natural one is in its place.
func DecidedPositions(b *game.Board, seed uint64) Source {
	return func(step int, dst []Example) error {
		s := sampler{b, randomOf(seed, forDeciding, step)}
		for i := range dst {
			dst[i] = s.decided([...]game.Result{game.Win, game.Loss, game.Win, game.Ongoing}[i%4])
		}
		return nil
	}
}

// tries is how often a position is drawn until it is as wanted.
const tries = 100

// decided is an example with that result by the rules, or where it is Ongoing with a single move to play.
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

// outlook is the example of what the rules foresee.
func (s sampler) outlook(p game.Position, o game.Outlook) Example {
	e := Example{Position: p, Weight: 1, GameOver: game.NotOver, WDL: o.Result.WDL()}
	if o.Result != game.Loss || o.Plies > 0 {
		e.Policy = make([]float32, s.board.Actions())
		for m := o.Moves; !m.IsZero(); m = m.WithoutFirst() {
			e.Policy[s.board.Action(m.First())] = 1 / float32(o.Moves.OnesCount())
		}
	}
	return e
}

// sampler makes positions.
type sampler struct {
	board *game.Board
	r     *rand.Rand
}

// example is a position from either side, with its class.
func (s sampler) example(p game.Position) Example {
	if s.r.IntN(2) == 1 {
		p.Own = p.Other()
	}
	result := s.board.Result(p)
	return Example{Position: p, Weight: 1, GameOver: int(result.GameOver()), WDL: result.WDL()}
}

// natural picks a game and a number of plies, and takes the pair if the game lasted so long.
func (s sampler) natural() game.Position {
	for {
		plies := 1 + s.r.IntN(s.board.Cells())
		if p, ok := s.random(plies); ok {
			return p
		}
	}
}

// random is the position of a random game after so many plies, or its last one and false if it ended before.
func (s sampler) random(plies int) (p game.Position, lasted bool) {
	for range plies {
		if s.board.Result(p) != game.Ongoing {
			return p, false
		}
		p = s.board.PlayCell(p, s.pick(s.board.Legal(p)))
	}
	return p, true
}

// long is the position of a long game after so many plies, or an earlier one if every move wins or the board is full.
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

// pick is a random one of a set's cells.
func (s sampler) pick(set game.Bits) game.Bits {
	return set.Nth(s.r.IntN(set.OnesCount()))
}

// wanted is a position with that result for the side to move: Ongoing, Loss (it is won by the other) or Draw.
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
