package agent

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/heuristic"
	"github.com/evald/evald/engine/jobs"
	"github.com/evald/evald/engine/short"
	"github.com/evald/evald/engine/solver"
)

// random plays any legal move.
type random struct{ *rand.Rand }

func newRandom(s Spec, _ Shared) (Agent, error) { return random{source(s.Seed)}, nil }

func source(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15)) }

func (r random) Move(ctx context.Context, b *game.Board, p game.Position) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("random: %w", err)
	}
	legal := b.Legal(p)
	return b.Action(legal.Nth(r.IntN(legal.OnesCount())).First()), nil
}

// Quick returns a move that takes microseconds, for players whose time is over before they know
// anything. It wins at once if it can, and prevents the other side from winning with its next stone
// (game.Outlook.Moves). Among such moves it chooses by bitsquares, of equals the one nearest to the
// centre. The game must not be over.
func Quick(b *game.Board, p game.Position) int {
	moves, squares := b.Outlook(p).Moves, heuristic.NewBitsquares(heuristic.DefaultPower)
	best, most := -1, math.Inf(-1)
	for _, a := range b.FromCentre() {
		if moves.And(b.Cell(p, a)).IsZero() {
			continue
		}
		if score := -squares.Score(b, b.Play(p, a)); score > most {
			best, most = a, score
		}
	}
	return best
}

// flat plays random games after each legal move, unless a move wins at once, and chooses the move
// with the best mean result. With a time, in which there may be few games, it considers only the
// moves that the next stones leave (game.Outlook.Moves).
type flat struct {
	games int           // games for each move; 0: no limit, needs time
	time  time.Duration // 0: no limit, needs games
	*rand.Rand
}

func newFlat(s Spec, _ Shared) (Agent, error) { return &flat{s.Games, s.Time, source(s.Seed)}, nil }

// flatRound is the number of games for each move between two checks of the clock.
const flatRound = 10

func (f *flat) Move(ctx context.Context, b *game.Board, p game.Position) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("flat: %w", err)
	}
	if wins := b.Wins(p); !wins.IsZero() {
		return b.Action(wins.First()), nil
	}
	inner, cancel := within(ctx, f.time)
	defer cancel()
	all := actions(b, p)
	if f.time > 0 {
		if over(inner) {
			return Quick(b, p), nil
		}
		moves := b.Outlook(p).Moves
		all = slices.DeleteFunc(all, func(a int) bool { return moves.And(b.Cell(p, a)).IsZero() })
	}
	sums := make([]int, len(all))
	for done := 0; f.games == 0 || done < f.games; {
		round := flatRound
		if f.games > 0 {
			round = min(round, f.games-done)
		}
		for i, a := range all {
			for range round {
				sums[i] -= f.playOut(b, b.Play(p, a))
			}
			if ctx.Err() != nil {
				return 0, fmt.Errorf("flat: %w", ctx.Err())
			}
		}
		// Here all moves have had equally many games.
		if done += round; over(inner) {
			break
		}
	}
	return all[slices.Index(sums, slices.Max(sums))], nil
}

// playOut returns the result of a random game for the side to move at p: 1, 0 or -1.
func (f *flat) playOut(b *game.Board, p game.Position) int {
	for sign := -1; ; sign = -sign {
		if b.Won(p.Other()) {
			return sign
		}
		legal := b.Legal(p)
		n := legal.OnesCount()
		if n == 0 {
			return 0
		}
		p = b.PlayCell(p, legal.Nth(f.IntN(n)))
	}
}

// policy plays an evaluator's likeliest move, or the move that the rules decide. With probes it plays the likeliest move that is proved to
// keep the result (solver.Prober.Choose). It evaluates the canonical one of two mirror images, so that its moves in mirror images are
// mirror images.
type policy struct {
	*eval.Evaluator
	exact solver.Nodes
}

func newPolicy(s Spec, shared Shared) (Agent, error) {
	e, err := s.evaluator(shared)
	if err != nil {
		return nil, err
	}
	return policy{e, s.Exact}, nil
}

// evaluator returns the heuristic or the network that Model names. Without a name, it returns the
// default network, or bitsquares if the program has no networks.
func (s Spec) evaluator(shared Shared) (*eval.Evaluator, error) {
	name := s.Model
	if name == "" && shared.Models == nil {
		name = eval.Bitsquares.String()
	}
	if h, ok, err := heuristic.Parse(name); ok {
		if err != nil {
			return nil, err
		}
		return eval.New(h.New(), eval.Options{}), nil
	}
	if shared.Models == nil {
		return nil, fmt.Errorf("agent: no networks here, so no model %s", short.Quote(name))
	}
	if s.Chosen && shared.Chosen != nil {
		return shared.Chosen(name)
	}
	return shared.Models(name)
}

func (a policy) Move(ctx context.Context, b *game.Board, p game.Position) (int, error) {
	var action [1]int
	err := a.Moves(ctx, b, []game.Position{p}, action[:])
	return action[0], err
}

// Moves finds the moves of many positions in one batch.
func (a policy) Moves(ctx context.Context, b *game.Board, positions []game.Position, actions []int) error {
	best, mirrored := eval.NewChoices(b, len(positions)), make([]bool, len(positions))
	for i, p := range positions {
		best.Pos[i], mirrored[i] = b.Canonical(p)
	}
	var err error
	if best.Action = actions; a.exact.For(b) == nil {
		err = a.Best(ctx, best)
	} else {
		err = a.keep(ctx, b, best.Pos, actions)
	}
	if err != nil {
		return fmt.Errorf("policy: %w", err)
	}
	for i, m := range mirrored {
		if m {
			actions[i] = b.MirrorAction(actions[i])
		}
	}
	return nil
}

// keep finds the likeliest moves that are proved to keep the result.
func (a policy) keep(ctx context.Context, b *game.Board, positions []game.Position, actions []int) error {
	batch := eval.NewBatch(b, len(positions))
	copy(batch.Pos, positions)
	if err := a.Evaluate(ctx, batch); err != nil {
		return err
	}
	prober := a.exact.For(b)
	return jobs.Each(ctx, runtime.GOMAXPROCS(0), len(positions), func(_ context.Context, _, i int) error {
		actions[i] = prober.Choose(positions[i], likeliest(b, positions[i], batch.PolicyRow(i)))
		return nil
	})
}

// likeliest returns the legal actions, the likeliest first.
func likeliest(b *game.Board, p game.Position, policy []float32) []int {
	all := actions(b, p)
	slices.SortFunc(all, func(x, y int) int { return cmp.Or(cmp.Compare(policy[y], policy[x]), x-y) })
	return all
}

// mover is a backend that answers each position with an agent's move, one row at a time.
type mover struct {
	mu    sync.Mutex
	agent Agent
}

// NewEvaluator returns an Evaluator that answers with an agent's moves, so that agents can be measured like evaluators. The policy is 1 for
// the agent's move. WDL is 1/3 each, because agents give no values. The Source is eval.Searched.
func NewEvaluator(a Agent) *eval.Evaluator {
	return eval.New(&mover{agent: a}, eval.Options{OwnRules: true})
}

// Attributes implements eval.Backend. Agents may play at random.
func (m *mover) Attributes() eval.Attributes {
	return eval.Attributes{Rows: 1, Supports: func(b *game.Board) error { return Supports(m.agent, b) }}
}

// Compute implements eval.Backend.
func (m *mover) Compute(ctx context.Context, b *eval.Batch) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, p := range b.Pos {
		action, err := m.agent.Move(ctx, b.Board, p)
		if err != nil {
			return err
		}
		wdl, policy := b.WDLRow(i), b.PolicyRow(i)
		wdl[0], wdl[1], wdl[2] = 1./3, 1./3, 1./3
		clear(policy)
		policy[action] = 1
		b.Source[i] = eval.Searched
	}
	return nil
}
