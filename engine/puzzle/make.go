package puzzle

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"slices"
	"sync/atomic"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/jobs"
	"github.com/evald/evald/engine/sample"
	"github.com/evald/evald/engine/solver"
)

// Options of Make.
type Options struct {
	Count   int // puzzles to make
	Seed    uint64
	Threads int // concurrent games; 0 means 1. The puzzles do not depend on this

	// Before contains the puzzles of the first games, from an earlier call with the same Seed and board. These games are not played again.
	Before [][]Puzzle

	// Played, if not nil, is called with the puzzles of each further game and with the number of puzzles so far, one call at a time, in the
	// order of the games. If it returns an error, Make ends.
	Played func(found []Puzzle, total int) error
}

const (
	nodes  = 1 << 16 // for all probes of one position together
	apart  = 4       // minimum plies between two puzzles of a game
	idle   = 500     // number of successive games without a new puzzle after which a small board probably has no more
	atEnds = 15      // maximum percentage of puzzles with the rating Least, and the same for Most
)

// Make plays games and returns their puzzles, ordered by rating. If a small board has no more, there are fewer than Count. No two positions
// are equal or mirror images. The puzzles depend only on the board, the count and the seed.
func Make(ctx context.Context, b *game.Board, o Options) ([]Puzzle, error) {
	o.Threads = max(1, o.Threads)
	all := collection{seen: map[game.Position]bool{}, rated: map[int]int{}, count: o.Count}
	for _, found := range o.Before {
		all.add(found)
	}
	var full atomic.Bool
	full.Store(all.full())
	players := make([]*player, o.Threads)
	err := jobs.Stream[*played]{
		Items: func(ctx context.Context) iter.Seq2[*played, error] {
			return func(yield func(*played, error) bool) {
				for n := len(o.Before); !full.Load() && yield(&played{number: n}, nil); n++ {
				}
			}
		},
		Work: func(ctx context.Context, worker int, g *played) (err error) {
			if players[worker] == nil {
				if players[worker], err = newPlayer(b, o.Seed); err != nil {
					return err
				}
			}
			g.found, err = players[worker].play(ctx, g.number)
			return err
		},
		Workers: o.Threads,
		Window:  8 * o.Threads,
		Write: func(g *played, done bool) error {
			if !done || all.full() {
				return nil
			}
			all.add(g.found)
			full.Store(all.full())
			if o.Played == nil {
				return nil
			}
			return o.Played(g.found, len(all.puzzles))
		},
	}.Run(ctx)
	if err != nil && !(errors.Is(err, context.Canceled) && all.full()) {
		return nil, err
	}
	Sort(all.puzzles)
	return all.puzzles, nil
}

// Sort orders puzzles of one board as in files: by rating, then by moves.
func Sort(puzzles []Puzzle) {
	slices.SortFunc(puzzles, func(a, b Puzzle) int {
		return cmp.Or(cmp.Compare(a.Rating, b.Rating), slices.Compare(a.Moves, b.Moves))
	})
}

// collection is the puzzles so far.
type collection struct {
	seen    map[game.Position]bool // canonical
	puzzles []Puzzle
	count   int
	rated   map[int]int // number of puzzles, by rating
	idle    int         // number of successive games without a new puzzle
}

func (c *collection) full() bool { return len(c.puzzles) >= c.count || c.idle >= idle }

// add adds those puzzles of a game that are new.
func (c *collection) add(found []Puzzle) {
	c.idle++
	for _, p := range found {
		key, _ := p.Board.Canonical(p.Position())
		if c.full() || c.seen[key] || (p.Rating == Least || p.Rating == Most) && c.rated[p.Rating]*100 >= atEnds*c.count {
			continue
		}
		c.rated[p.Rating]++
		c.seen[key] = true
		c.puzzles = append(c.puzzles, p)
		c.idle = 0
	}
}

type played struct {
	number int
	found  []Puzzle
}

// player plays games and finds puzzles in them. It is not safe for concurrent use.
type player struct {
	board  *game.Board
	seed   uint64
	games  *sample.Player
	prober *solver.Prober
	rater  *rater
}

func newPlayer(b *game.Board, seed uint64) (*player, error) {
	games, err := sample.NewPlayer(b, seed)
	if err != nil {
		return nil, err
	}
	prober, err := solver.NewProber(b, nodes)
	if err != nil {
		return nil, err
	}
	rater, err := newRater(b)
	return &player{b, seed, games, prober, rater}, err
}

func (m *player) play(ctx context.Context, number int) (found []Puzzle, err error) {
	// Games of weaker play, in which half or all moves are random, offer more attacks.
	kind := []sample.Kind{sample.Plausible, sample.Openings, sample.Openings, sample.Random}[number%4]
	from, to := m.board.Cells()*2/7, m.board.Cells()*5/6
	random := rand.New(rand.NewPCG(m.seed, uint64(number)))
	moves, _, err := m.games.Game(ctx, kind, to+1, random)
	if err != nil {
		return nil, err
	}
	next := from       // minimum number of stones of the next puzzle
	var last game.Bits // cell of the last puzzle's move; a second puzzle with the same answer would only repeat it
	var p game.Position
	for ply, a := range moves {
		if ply >= next {
			one, err := m.find(ctx, p)
			if err != nil {
				return nil, err
			}
			if one != nil && m.board.Cell(p, one.Move) != last {
				last = m.board.Cell(p, one.Move)
				one.Moves = slices.Clone(moves[:ply])
				found = append(found, *one)
				next = ply + apart
			}
		}
		p = m.board.Play(p, a)
	}
	return found, nil
}

// find returns the puzzle of an unfinished position. It returns nil if the position is not a puzzle, or if the nodes do not suffice to
// decide.
func (m *player) find(ctx context.Context, p game.Position) (*Puzzle, error) {
	b := m.board
	if trivial(b, p) {
		return nil, nil
	}
	result, only := m.prober.Only(ctx, p)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if only.OnesCount() != 1 { // two moves that mirror each other count as two
		return nil, nil
	}
	move := b.Action(only.First())
	kind := ThemeOf(m.prober, b, p, result, move)
	if kind == "" {
		return nil, nil
	}
	rating, err := m.rater.rate(ctx, p, move)
	if err != nil {
		return nil, err
	}
	return &Puzzle{Board: b, Move: move, Result: result, Rating: rating, Theme: kind}, nil
}
