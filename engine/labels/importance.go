package labels

import (
	"cmp"
	"context"

	"github.com/evald/evald/engine/eval"
)

// Importance sampling: a position that a network already knows hardly changes its weights, and most positions are of that kind. Draw draws
// the others more often, and reduces the weights of their records accordingly: the mean gradient stays the same, and its variance falls.
// The length of a softmax's gradient is about 1 minus the probability of the correct class, so positions are drawn in proportion to that
// (Katharopoulos and Fleuret, "Not All Samples Are Created Equal", 2018, bound it in the same way).

// floorShare times the mean surprise is added to each position's surprise. So no weight exceeds 4.3, that of a position without surprise,
// and the network still sees positions that it might otherwise forget.
const floorShare = 0.3

// askRows is the number of positions that are evaluated at once.
const askRows = 1024

// unsure is the probability with which a position is solved, given the learner's probabilities of its result. 1 - the sum of their squares
// is the error rate that the learner itself expects. If that is 0.45 or more, all positions are solved; if it is 0, one in ten. The weight
// of the position's records is 1/unsure, the number of positions that it represents.
func unsure(wdl []float32) float64 {
	right := 0.0
	for _, p := range wdl {
		right += float64(p) * float64(p)
	}
	return min(1, 0.1+2*(1-right))
}

// choose evaluates the waiting positions with the learner, and writes the records of those that it chooses.
func (f *file) choose(ctx context.Context) error {
	if len(f.games) == 0 {
		return nil
	}
	f.waiting.Reset(f.solver.Board(), len(f.games))
	if err := f.learner.Evaluate(ctx, &f.waiting); err != nil {
		return err
	}
	for i, p := range f.waiting.Pos {
		if share := unsure(f.waiting.WDLRow(i)); f.random.Float64() < share {
			if err := f.write(ctx, p, f.games[i], float32(1/share)); err != nil {
				return err
			}
		}
	}
	f.waiting.Pos, f.games = f.waiting.Pos[:0], f.games[:0]
	return nil
}

// Ask measures how much an Evaluator, such as a network, still has to learn from each position, 0 to 2: 1 - its probability of the result,
// plus 1 - its probability of the moves that keep the result, if these are known. Draw uses this from then on. Call Ask after Settle.
// progress is called with the number of positions so far.
func (p *Pool) Ask(ctx context.Context, e *eval.Evaluator, progress func(done int)) error {
	surprise := make([]float32, len(p.all))
	batch := &eval.Batch{}
	for from := 0; from < len(p.all); from += len(batch.Pos) {
		batch.Reset(p.board, min(askRows, len(p.all)-from))
		for i := range batch.Pos {
			batch.Pos[i] = p.all[from+i].position
		}
		if err := e.Evaluate(ctx, batch); err != nil {
			return err
		}
		for i := range batch.Pos {
			surprise[from+i] = p.lacks(p.all[from+i], batch.WDLRow(i), batch.PolicyRow(i))
		}
		progress(from + len(batch.Pos))
	}
	p.surprise = surprise
	return nil
}

// lacks is 1 minus the probability of the correct result, plus 1 minus that of the moves that keep it, if these are known.
func (p *Pool) lacks(k known, wdl, policy []float32) float32 {
	lack := 1 - wdl[1-k.z]
	if !k.kept.IsZero() {
		lack++
		for l := k.kept; !l.IsZero(); l = l.WithoutFirst() {
			lack -= policy[p.board.Action(l.First())]
		}
	}
	return max(0, lack)
}

// worth is the relative frequency with which a position is drawn among the others of its kind.
func (p *Pool) worth(i uint32) float64 { return float64(p.all[i].standsFor) * p.lack(i) }

// lack is a position's surprise plus floor; before Ask, it is 1 for all.
func (p *Pool) lack(i uint32) float64 {
	if p.surprise == nil {
		return 1
	}
	return float64(p.surprise[i]) + p.floor
}

// weight is the weight of each record of a position in a Draw.
func (p *Pool) weight(i uint32) float32 {
	return float32(p.mean / p.lack(i))
}

func (p *Pool) worths(some []uint32) (sum float64) {
	for _, i := range some {
		sum += p.worth(i)
	}
	return sum
}

// meanLack is the mean of lack over some positions, weighted by standsFor. There must be at least one position.
func (p *Pool) meanLack(some []uint32) float64 {
	all := 0.0
	for _, i := range some {
		all += float64(p.all[i].standsFor)
	}
	return p.worths(some) / all
}

// measure sets floor and mean for a draw from these kinds.
func (p *Pool) measure(kinds []kind) {
	p.floor, p.mean = 0, 0
	if p.surprise == nil {
		p.mean = 1
		return
	}
	for _, k := range kinds {
		if k.share > 0 {
			p.mean += k.share * p.meanLack(k.of)
		}
	}
	p.floor = cmp.Or(floorShare*p.mean, 1) // 1 if the network knows everything: then all weights are 1
	p.mean += p.floor
}
