package agent

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/heuristic"
)

// alphaBeta deepens a search with bitsquares at the horizon ply by ply until its time is over. A transposition table
// holds the best move and the bounds of what was searched to at least the depth that is asked for.
type alphaBeta struct {
	time  time.Duration
	score *heuristic.Bitsquares
	table map[game.Position]abEntry

	ctx   context.Context
	board *game.Board
	nodes int
	root  int // the best move of the search that runs
	over  bool
}

type abEntry struct {
	depth        int8
	move         int8
	lower, upper float64
}

// wonScore is more than any heuristic; sooner wins score more.
const wonScore = 1e6

// abTable bounds the table's entries.
const abTable = 1 << 20

func newAlphaBeta(s Spec, _ Models) (Agent, error) {
	return &alphaBeta{time: s.Time, score: heuristic.NewBitsquares(heuristic.DefaultPower), table: map[game.Position]abEntry{}}, nil
}

func (a *alphaBeta) Move(ctx context.Context, b *game.Board, p game.Position) (int, error) {
	inner, cancel := context.WithTimeout(ctx, a.time-reserve(a.time))
	defer cancel()
	if a.board == nil || a.board.Rules() != b.Rules() || len(a.table) >= abTable {
		clear(a.table)
	}
	a.ctx, a.board, a.over = inner, b, false
	best := b.Action(b.Legal(p).First())
	for depth := 1; depth <= b.Cells()-p.Plies(); depth++ {
		value := a.search(p, depth, 0, math.Inf(-1), math.Inf(1))
		if a.over {
			break
		}
		best = a.root
		if math.Abs(value) > wonScore/2 {
			break // decided: deeper is no better
		}
	}
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("alphabeta: %w", err)
	}
	return best, nil
}

// search is the value of p for its side to move, exact within (alpha, beta), a bound outside. p is not over.
func (a *alphaBeta) search(p game.Position, depth, ply int, alpha, beta float64) float64 {
	if a.nodes++; a.nodes%256 == 0 && a.ctx.Err() != nil {
		a.over = true
	}
	if a.over {
		return 0
	}
	if wins := a.board.Wins(p); !wins.IsZero() {
		value := float64(wonScore - ply)
		move := a.board.Action(wins.First())
		a.keep(p, abEntry{127, int8(move), value, value})
		if ply == 0 {
			a.root = move
		}
		return value
	}
	if depth == 0 {
		return a.score.Score(a.board, p)
	}
	entry, known := a.table[p]
	if known && int(entry.depth) >= depth && ply > 0 {
		if entry.lower >= beta || entry.lower == entry.upper {
			return entry.lower
		}
		if entry.upper <= alpha {
			return entry.upper
		}
	}
	first := -1
	if known {
		first = int(entry.move)
	}
	best, move := math.Inf(-1), -1
	for _, action := range a.ordered(a.board.Legal(p), first) {
		child := a.board.Play(p, action)
		value := 0.0
		if child.All != a.board.Full() {
			value = -a.search(child, depth-1, ply+1, -beta, -max(alpha, best))
		}
		if a.over {
			return 0
		}
		if value > best {
			best, move = value, action
		}
		if best >= beta {
			break
		}
	}
	if ply == 0 {
		a.root = move
	}
	e := abEntry{int8(min(depth, 126)), int8(move), math.Inf(-1), math.Inf(1)}
	if best > alpha {
		e.lower = best
	}
	if best < beta {
		e.upper = best
	}
	a.keep(p, e)
	return best
}

func (a *alphaBeta) keep(p game.Position, e abEntry) {
	if _, known := a.table[p]; known || len(a.table) < abTable {
		a.table[p] = e
	}
}

// ordered are the legal actions: the one that was best before, then from the centre outwards.
func (a *alphaBeta) ordered(legal game.Bits, first int) []int {
	all := make([]int, 0, legal.OnesCount())
	for ; !legal.IsZero(); legal = legal.WithoutFirst() {
		all = append(all, a.board.Action(legal.First()))
	}
	centre := a.board.Columns() - 1
	far := func(action int) int {
		if action == first {
			return -1
		}
		d := 2*(action%a.board.Columns()) - centre
		return max(d, -d)
	}
	slices.SortStableFunc(all, func(x, y int) int { return cmp.Compare(far(x), far(y)) })
	return all
}
