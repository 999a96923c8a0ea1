package agent

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
)

// human makes human mistakes: it overlooks lines and threats, looks only a few stones ahead, and follows the model's policy where it sees
// no result. Its move depends only on the position and the seed. Its rules:
//
//  1. With probability Spec.Diagonals it sees no diagonal line in this move, of either side. With probability
//     Spec.Threats it ignores the other side's possibilities: it looks at most one stone ahead, for its own lines.
//  2. It looks Spec.Ahead stones ahead, including its own next stone, at every move of both sides, within
//     sightNodes positions. If it sees winning moves, it keeps those that win fastest. Otherwise it excludes the
//     losing moves; if all lose, those that lose faster.
//  3. It draws one of the remaining moves. The probabilities are the model's to the power 1/Spec.Temperature; at 0 it
//     chooses the likeliest, the first of equals. The model does not improve its sight: an overlooked legal cell that
//     completes a line of either side has the weight of the average legal move.
type human struct {
	spec Spec
	*eval.Evaluator
}

// sightNodes is the maximum number of positions that a human visits for one move.
const sightNodes = 1 << 16

func newHuman(s Spec, shared Shared) (Agent, error) {
	e, err := s.evaluator(shared)
	if err != nil {
		return nil, err
	}
	return human{s, e}, nil
}

func (h human) Move(ctx context.Context, b *game.Board, p game.Position) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("human: %w", err)
	}
	if err := h.Supports(b); err != nil {
		return 0, fmt.Errorf("human: %w", err)
	}
	random := rand.New(rand.NewPCG(h.spec.Seed, p.Hash()))
	v := sight{board: b, completes: b.Completes, nodes: sightNodes}
	if random.Float64() < h.spec.Diagonals {
		v.completes = b.CompletesStraight
	}
	ahead := h.spec.Ahead
	if random.Float64() < h.spec.Threats {
		ahead = min(ahead, 1)
	}
	moves := v.moves(p, ahead)
	if moves.OnesCount() == 1 {
		return b.Action(moves.First()), nil
	}
	weights, err := h.feeling(ctx, b, p)
	if err != nil {
		return 0, err
	}
	v.forget(p, ahead, weights)
	return draw(b, moves, weights, h.spec.Temperature, random.Float64()), nil
}

// feeling returns the model's policy for p.
func (h human) feeling(ctx context.Context, b *game.Board, p game.Position) ([]float32, error) {
	batch := eval.NewBatch(b, 1)
	var mirrored bool
	batch.Pos[0], mirrored = b.Canonical(p)
	if err := h.Leaves(ctx, batch); err != nil {
		return nil, fmt.Errorf("human: %w", err)
	}
	policy := batch.PolicyRow(0)
	if !mirrored {
		return policy, nil
	}
	image := make([]float32, len(policy))
	for a, x := range policy {
		image[b.MirrorAction(a)] = x
	}
	return image, nil
}

// draw returns one of the moves with probabilities proportional to their weights to the power 1/temperature; x is a random number in [0,
// 1).
func draw(b *game.Board, moves game.Bits, weights []float32, temperature, x float64) int {
	var most float32
	best := b.Action(moves.First())
	for m := moves; !m.IsZero(); m = m.WithoutFirst() {
		if a := b.Action(m.First()); weights[a] > most {
			most, best = weights[a], a
		}
	}
	if temperature == 0 || most == 0 {
		return best
	}
	powers, sum := make([]float64, len(weights)), 0.0
	for m := moves; !m.IsZero(); m = m.WithoutFirst() {
		a := b.Action(m.First())
		powers[a] = math.Pow(float64(weights[a]/most), 1/temperature)
		sum += powers[a]
	}
	for m := moves; !m.IsZero(); m = m.WithoutFirst() {
		if x -= powers[b.Action(m.First())] / sum; x < 0 {
			return b.Action(m.First())
		}
	}
	return best
}

// sight is the search of rules 1 and 2 in one position.
type sight struct {
	board     *game.Board
	completes func(game.Bits) game.Bits // returns the cells that complete a line, except overlooked lines
	nodes     int                       // number of positions that it may still visit
}

// wins are the legal cells in which the side to move completes a line.
func (v *sight) wins(p game.Position) game.Bits {
	return v.board.Legal(p).And(v.completes(p.Own))
}

// moves returns the legal cells that rule 2 keeps.
func (v *sight) moves(p game.Position, ahead int) game.Bits {
	left := v.board.Legal(p)
	if ahead == 0 {
		return left
	}
	if wins := v.wins(p); !wins.IsZero() {
		return wins
	}
	for depth := 2; depth <= ahead && left.OnesCount() > 1; depth++ {
		var wins, open game.Bits
		for l := left; !l.IsZero(); l = l.WithoutFirst() {
			switch v.look(v.board.PlayCell(p, l.LowBit()), depth-1) {
			case game.Loss:
				wins = wins.Or(l.LowBit())
			case game.Ongoing:
				open = open.Or(l.LowBit())
			}
		}
		switch {
		case v.nodes <= 0:
			return left
		case !wins.IsZero():
			return wins
		case open.IsZero():
			return left
		}
		left = open
	}
	return left
}

// look returns the result for the side to move if the next depth stones decide it, else Ongoing.
func (v *sight) look(p game.Position, depth int) game.Result {
	v.nodes--
	if !v.wins(p).IsZero() {
		return game.Win
	}
	legal := v.board.Legal(p)
	if depth < 2 || legal.IsZero() || v.nodes <= 0 {
		return game.Ongoing
	}
	if threats := legal.And(v.completes(p.Other())); !threats.IsZero() {
		if legal = threats; threats.OnesCount() > 1 {
			return game.Loss
		}
	}
	lost := true
	for ; !legal.IsZero(); legal = legal.WithoutFirst() {
		switch v.look(v.board.PlayCell(p, legal.LowBit()), depth-1) {
		case game.Loss:
			return game.Win
		case game.Ongoing:
			lost = false
		}
	}
	if lost {
		return game.Loss
	}
	return game.Ongoing
}

// forget gives the average legal move's weight to cells that complete an overlooked line.
func (v *sight) forget(p game.Position, ahead int, weights []float32) {
	b := v.board
	legal := b.Legal(p)
	var seen game.Bits
	if ahead >= 1 {
		seen = v.completes(p.Own)
	}
	if ahead >= 2 {
		seen = seen.Or(v.completes(p.Other()))
	}
	for m := b.Completes(p.Own).Or(b.Completes(p.Other())).And(legal).AndNot(seen); !m.IsZero(); m = m.WithoutFirst() {
		weights[b.Action(m.First())] = 1 / float32(legal.OnesCount())
	}
}
