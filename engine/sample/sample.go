// Package sample draws positions of three kinds of play, for measuring evaluators and as starts of self-play games. The accuracy of an
// evaluator depends on where its positions come from.
package sample

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/heuristic"
	"github.com/evald/evald/engine/mcts"
)

// Kind is a kind of play.
type Kind string

// The kinds of play.
const (
	Random    Kind = "random"    // every legal move is equally likely
	Plausible Kind = "plausible" // each move is drawn by its visits in a small search with the bitsquares heuristic
	Openings  Kind = "openings"  // only the first moves; each is random or plausible with equal probability
)

// Kinds returns all kinds.
func Kinds() []Kind { return []Kind{Random, Plausible, Openings} }

// Plies returns the minimum and maximum number of stones of Draw's positions: 6 and 35 on 7x6; for openings 4 and 12.
func (k Kind) Plies(b *game.Board) (from, to int) {
	if k == Openings {
		return b.Cells() / 10, b.Cells() * 2 / 7
	}
	return b.Cells() / 7, b.Cells() * 5 / 6
}

// Constants of the small search of plausible play. Dirichlet noise makes it also try moves that it considers bad.
const (
	visits = 32
	noise  = 0.25
)

// Player plays games of each kind on one board. It is safe for concurrent use.
type Player struct {
	board  *game.Board
	search *eval.Evaluator
}

// NewPlayer returns a player for a board. The noise of plausible play depends on the position and the seed.
func NewPlayer(b *game.Board, seed uint64) (*Player, error) {
	bitsquares, err := heuristic.New(eval.Bitsquares)
	if err != nil {
		return nil, err
	}
	c := mcts.DefaultConfig(mcts.PUCT)
	c.Noise, c.Seed, c.Transpositions, c.MaxNodes = noise, seed, false, max(1<<10, (visits+1)*(b.Actions()+1))
	search, err := mcts.NewEvaluator(bitsquares, c, mcts.Limits{Visits: visits, Batch: 1})
	return &Player{b, search}, err
}

// Game plays the given number of moves from the empty board, or fewer if the game ends first. If ctx ends, Game returns its error.
func (p *Player) Game(ctx context.Context, k Kind, plies int, r *rand.Rand) (moves []int, at game.Position, err error) {
	if err := ctx.Err(); err != nil { // random play calls nothing else that checks ctx
		return nil, at, fmt.Errorf("%s play: %w", k, err)
	}
	moves = make([]int, 0, plies)
	batch := eval.NewBatch(p.board, 1)
	for len(moves) < plies && p.board.Result(at) == game.Ongoing {
		a := 0
		if k == Random || k == Openings && r.IntN(2) == 0 {
			legal := p.board.Legal(at)
			a = p.board.Action(legal.Nth(r.IntN(legal.OnesCount())).First())
		} else {
			batch.Pos[0] = at
			if err := p.search.Evaluate(ctx, batch); err != nil {
				return nil, at, fmt.Errorf("%s play: %w", k, err)
			}
			a = eval.SampleAction(batch.Policy, r.Float64())
		}
		moves, at = append(moves, a), p.board.Play(at, a)
	}
	return moves, at, nil
}

// Positions returns the last positions of the games that Draw returns.
func Positions(b *game.Board, games [][]int) []game.Position {
	positions := make([]game.Position, len(games))
	for i, moves := range games {
		positions[i] = b.PlayMoves(moves)
	}
	return positions
}

// Draw gives up a number of plies
//   - after enough games in a row without a new position, because there is probably none left;
//   - if, after enough games in all, fewer than one in rare has found a position, because more would take too long.
const (
	enough = 1000
	rare   = 200
)

// Draw returns n positions of a kind, each as the moves that lead to it. No game is over, each position is from another game, and all
// numbers of plies are about equally frequent. No two positions are equal or mirror images. The positions depend only on the seed. If a
// small board has no more, there are fewer than n. progress, if not nil, is called with the number so far.
func Draw(ctx context.Context, b *game.Board, k Kind, n int, seed uint64, progress func(done int)) ([][]int, error) {
	from, to := k.Plies(b)
	return DrawPlies(ctx, b, k, from, to, n, seed, progress)
}

// DrawPlies is Draw for the numbers of stones from from to to, inclusive, in place of the kind's own.
func DrawPlies(ctx context.Context, b *game.Board, k Kind, from, to, n int, seed uint64, progress func(done int)) ([][]int, error) {
	player, err := NewPlayer(b, seed)
	if err != nil {
		return nil, err
	}
	r := rand.New(rand.NewPCG(seed, 0x706f736974696f6e))
	seen := map[game.Position]bool{}
	var lengths []length // numbers of plies for which there may be more positions
	for ; from <= to; from++ {
		lengths = append(lengths, length{plies: from})
	}
	var all [][]int
	for len(all) < n && len(lengths) > 0 {
		i := r.IntN(len(lengths))
		// Discard a game that ends too early. If its shorter position were used, few positions would have many stones.
		l := &lengths[i]
		moves, games, err := player.fresh(ctx, k, l.plies, r, seen)
		if err != nil {
			return nil, err
		}
		l.games += games
		if moves != nil {
			l.found++
			all = append(all, moves)
			if progress != nil {
				progress(len(all))
			}
		}
		if moves == nil || l.games >= enough && l.found*rare < l.games {
			lengths = slices.Delete(lengths, i, i+1)
		}
	}
	return all, nil
}

// length counts the games played and positions found for a number of plies.
type length struct{ plies, games, found int }

// fresh plays games until one reaches an unfinished position of the given number of plies that is not in seen, and adds the position to
// seen. It returns the moves, or nil if it finds no such position, and the number of games that it played.
func (p *Player) fresh(ctx context.Context, k Kind, plies int, r *rand.Rand, seen map[game.Position]bool) (moves []int, games int, err error) {
	for games = range enough {
		moves, at, err := p.Game(ctx, k, plies, r)
		if err != nil {
			return nil, games, err
		}
		if len(moves) < plies || p.board.Result(at) != game.Ongoing {
			continue
		}
		if key, _ := p.board.Canonical(at); !seen[key] {
			seen[key] = true
			return moves, games + 1, nil
		}
	}
	return nil, enough, nil
}
