package agent

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/heuristic"
)

// alphaBeta searches one ply deeper at a time, with bitsquares at the horizon, until its time is over. Its transposition table contains the
// best move, the bounds and the depth of earlier positions. It tries that move first, then the others by history and killer moves (order.go),
// which change no value.
type alphaBeta struct {
	time  time.Duration
	score *heuristic.Bitsquares
	table []abEntry // indexed by the position's hash; a new entry replaces the old one

	ctx   context.Context
	board *game.Board
	order moveOrder
	nodes int
	root  int // the best root move so far at this depth
	over  bool
}

type abEntry struct {
	position     game.Position // meaningless if depth is 0
	lower, upper float64
	depth        int8
	move         int8
}

// wonScore exceeds every score of bitsquares. The score of a win falls by one for each ply that it takes.
const wonScore = 1e6

const abTable = 1 << 18 // entries, 64 bytes each

func newAlphaBeta(s Spec, _ Shared) (Agent, error) {
	return &alphaBeta{time: s.Time, score: heuristic.NewBitsquares(s.Heuristic.Value("power")), table: make([]abEntry, abTable)}, nil
}

func (a *alphaBeta) Move(ctx context.Context, b *game.Board, p game.Position) (int, error) {
	inner, cancel := within(ctx, a.time)
	defer cancel()
	if a.board == nil || a.board.Rules() != b.Rules() {
		clear(a.table)
		a.order.actions = b.FromCentre()
	}
	a.order.reset()
	a.ctx, a.board, a.nodes, a.over = inner, b, 0, false
	legal := b.Legal(p)
	best := Quick(b, p) // if there is no time for a single depth
	for depth := 1; depth <= b.Cells()-p.Plies() && legal.OnesCount() > 1; depth++ {
		value := a.search(p, depth, 0, math.Inf(-1), math.Inf(1))
		if a.over {
			break
		}
		best = a.root
		if math.Abs(value) > wonScore/2 {
			break // the result is known: a deeper search finds nothing better
		}
	}
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("alphabeta: %w", err)
	}
	return best, nil
}

// search returns the value of p for its side to move: exact between alpha and beta, otherwise a bound. The game at p must not be over.
func (a *alphaBeta) search(p game.Position, depth, ply int, alpha, beta float64) float64 {
	if a.nodes++; a.nodes%256 == 0 && over(a.ctx) {
		a.over = true
	}
	if a.over {
		return 0
	}
	if wins := a.board.Wins(p); !wins.IsZero() {
		if ply == 0 {
			a.root = a.board.Action(wins.First())
		}
		return float64(wonScore - ply)
	}
	if depth == 0 {
		return a.score.Score(a.board, p)
	}
	entry := &a.table[p.Hash()%abTable]
	first := -1
	if entry.position == p && entry.depth > 0 {
		first = int(entry.move)
		// The score of a win counts plies from the root, so it would be wrong for the same position at another ply.
		if int(entry.depth) >= depth && ply > 0 && !decided(entry.lower) && !decided(entry.upper) {
			if entry.lower >= beta || entry.lower == entry.upper {
				return entry.lower
			}
			if entry.upper <= alpha {
				return entry.upper
			}
		}
	}
	best, move := math.Inf(-1), -1
	moves := a.order.moves(a.board, p, first, ply)
	for i, m := range moves {
		child := a.board.Play(p, m.action)
		value := 0.0
		if child.All != a.board.Full() {
			value = -a.search(child, depth-1, ply+1, -beta, -max(alpha, best))
		}
		if a.over {
			return 0
		}
		if value > best {
			best, move = value, m.action
		}
		if best >= beta {
			a.order.refuted(p, moves[:i+1], ply)
			break
		}
	}
	if ply == 0 {
		a.root = move
	}
	*entry = abEntry{p, math.Inf(-1), math.Inf(1), int8(depth), int8(move)}
	if best > alpha {
		entry.lower = best
	}
	if best < beta {
		entry.upper = best
	}
	return best
}

// decided reports whether a value is a win or a loss, rather than a heuristic score or an infinite bound.
func decided(value float64) bool { return math.Abs(value) > wonScore/2 && !math.IsInf(value, 0) }
