package arena

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"gonum.org/v1/gonum/mat"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/jobs"
)

// Tuning finds the constants with which a player is strongest, in games against the same player with its usual constants.
//
// Two thirds of the games are the search. Each pair of games has its own constants: half of them are drawn uniformly from their ranges,
// half by Thompson sampling (W. R. Thompson, 1933), as the best constants according to a resample of the pairs so far. The strength is
// modelled as a quadratic function of the constants, fitted to all pairs by logistic regression (after R. Coulom, CLOP, 2011). Its maximum
// is the answer. Its fitted strength is too high, because it was chosen as the maximum. So the last third of the games measures its
// strength, on other openings.
type Tuning struct {
	Board       *game.Board
	Constants   []Constant                    // one or two
	New         func(values []float64) Player // returns the player with these constants
	Games       int                           // total number of games; at least MinTuning
	Seed        uint64
	Concurrency int // number of concurrent games
}

// MaxConstants is the maximum number of constants of a Tuning: it looks at all points of a grid that has them as its dimensions.
const MaxConstants = 2

// MinTuning is the minimum number of games of a Tuning. With fewer games, an interval is meaningless.
const MinTuning = 60

// Constant is a constant to tune.
type Constant struct {
	Name             string
	Low, High, Usual float64 // Low <= Usual <= High
	Log              bool    // tune the logarithm; Low must be above 0
	Whole            bool    // only whole numbers are tried
}

// Best is the result of a Tuning.
type Best struct {
	Values, Low, High []float64 // by constant: the best value, and its 90% interval
	Games             int       // number of games of the search
	Match             Table     // the best constants (the first player) against the usual ones; empty if the best are the usual ones
}

// tuningRound is the number of pairs played between two fits.
const tuningRound = 16

// Run plays the games. It calls progress, if not nil, with the number of games played and the best constants so far.
func (t *Tuning) Run(ctx context.Context, progress func(games int, best []float64)) (Best, error) {
	if t.Games < MinTuning {
		return Best{}, fmt.Errorf("tune: %d games are too few: want %d or more", t.Games, MinTuning)
	}
	looks := t.Games / 3 // pairs of the search: two thirds of the games
	measures := t.Games/2 - looks
	openings, _, err := RandomOpenings(t.Board, DefaultPlies(t.Board), looks+measures, t.Seed)
	if err != nil {
		return Best{}, err
	}
	r := rand.New(rand.NewPCG(t.Seed, 1))
	var all sample
	usual := t.usual()
	for len(all.at) < looks {
		n := min(tuningRound, looks-len(all.at))
		at, scores := make([][]float64, n), make([]float64, n)
		for i := range at {
			if at[i] = uniform(r, len(t.Constants)); i%2 == 1 && len(all.at) > 0 {
				at[i] = all.again(r).fit(usual).highest()
			}
		}
		first := len(all.at)
		err := jobs.Each(ctx, t.Concurrency, n, func(ctx context.Context, _, i int) (err error) {
			scores[i], err = t.pair(ctx, at[i], openings[first+i], t.Seed+uint64(first+i))
			return err
		})
		if err != nil {
			return Best{}, err
		}
		all.at, all.scores = append(all.at, at...), append(all.scores, scores...)
		if progress != nil {
			progress(2*len(all.at), t.values(all.fit(usual).highest()))
		}
	}
	best := Best{Values: t.values(all.fit(usual).highest()), Games: 2 * looks}
	best.Low, best.High = t.interval(r, all)
	if slices.Equal(best.Values, t.values(usual)) {
		return best, nil
	}
	m := Match{Board: t.Board, Players: []Player{t.New(best.Values), t.player(usual)}, Openings: openings[looks:], Seed: t.Seed, Concurrency: t.Concurrency}
	var games []Game
	err = m.Run(ctx, nil, func(g Game) error {
		games = append(games, g)
		if progress != nil {
			progress(2*looks+len(games), best.Values)
		}
		return nil
	})
	best.Match = NewTable(m.Names(), games)
	return best, err
}

// pair plays an opening twice, and returns the score of the constants at a point against the usual ones, 0 to 2.
func (t *Tuning) pair(ctx context.Context, at []float64, opening []int, seed uint64) (score float64, err error) {
	if slices.Equal(t.values(at), t.values(t.usual())) {
		return 1, nil // the usual constants against themselves
	}
	m := Match{Board: t.Board, Players: []Player{t.player(at), t.player(t.usual())}, Openings: [][]int{opening}, Seed: seed, Concurrency: 1}
	err = m.Run(ctx, nil, func(g Game) error {
		score += g.points(m.Players[0].Name)
		return nil
	})
	return score, err
}

// player returns the player at a point. Its name contains the constants.
func (t *Tuning) player(at []float64) Player { return t.New(t.values(at)) }

// A point has a coordinate of -1 to 1 for each constant.

func (t *Tuning) usual() []float64 {
	at := make([]float64, len(t.Constants))
	for i, c := range t.Constants {
		at[i] = 2*(c.scale(c.Usual)-c.scale(c.Low))/(c.scale(c.High)-c.scale(c.Low)) - 1
	}
	return at
}

func (t *Tuning) values(at []float64) []float64 {
	values := make([]float64, len(at))
	for i, c := range t.Constants {
		x := c.scale(c.Low) + (at[i]+1)/2*(c.scale(c.High)-c.scale(c.Low))
		if c.Log {
			x = math.Exp(x)
		}
		if x = math.Round(x*1000) / 1000; c.Whole { // as displayed and stored
			x = math.Round(x)
		}
		values[i] = min(max(x, c.Low), c.High)
	}
	return values
}

func (c Constant) scale(x float64) float64 {
	if c.Log {
		return math.Log(x)
	}
	return x
}

// interval returns an interval that contains 90% of the maxima of resampled pairs (B. Efron's bootstrap).
func (t *Tuning) interval(r *rand.Rand, s sample) (low, high []float64) {
	const draws = 200
	by := make([][]float64, len(t.Constants))
	for range draws {
		for i, x := range t.values(s.again(r).fit(t.usual()).highest()) {
			by[i] = append(by[i], x)
		}
	}
	for _, all := range by {
		slices.Sort(all)
		low, high = append(low, all[draws/20]), append(high, all[draws-1-draws/20])
	}
	return low, high
}

func uniform(r *rand.Rand, n int) []float64 {
	at := make([]float64, n)
	for i := range at {
		at[i] = 2*r.Float64() - 1
	}
	return at
}

// sample is pairs of games: the points at which they were played, and their scores, 0 to 2.
type sample struct {
	at     [][]float64
	scores []float64
}

// again resamples the pairs with replacement.
func (s sample) again(r *rand.Rand) (drawn sample) {
	for range s.at {
		i := r.IntN(len(s.at))
		drawn.at, drawn.scores = append(drawn.at, s.at[i]), append(drawn.scores, s.scores[i])
	}
	return drawn
}

// quadratic is the strength at a point in log odds, relative to the usual constants, where it is 0.
type quadratic struct {
	weights []float64
	usual   []float64
}

// terms returns x, y, x*x, y*y and x*y for two constants, or x and x*x for one.
func terms(at []float64) (all []float64) {
	all = append(all, at...)
	for i, x := range at {
		for _, y := range at[i:] {
			all = append(all, x*y)
		}
	}
	return all
}

// features returns the terms at a point minus those of the usual constants.
func (q quadratic) features(at []float64) []float64 {
	all := terms(at)
	for i, x := range terms(q.usual) {
		all[i] -= x
	}
	return all
}

func (q quadratic) strength(at []float64) (sum float64) {
	for i, x := range q.features(at) {
		sum += x * q.weights[i]
	}
	return sum
}

// highest returns the point of a grid with the greatest strength.
func (q quadratic) highest() []float64 {
	const steps = 40
	best, most := slices.Clone(q.usual), q.strength(q.usual)
	at := make([]float64, len(q.usual))
	var try func(i int)
	try = func(i int) {
		if i == len(at) {
			if s := q.strength(at); s > most {
				best, most = slices.Clone(at), s
			}
			return
		}
		for j := range steps + 1 {
			at[i] = 2*float64(j)/steps - 1
			try(i + 1)
		}
	}
	try(0)
	return best
}

// fit maximizes the likelihood of the scores, in which a draw is half a win and half a loss, times a weak prior: weights are normal with a
// standard deviation of 2 (350 Elo). The maximum is unique; Newton's method finds it.
func (s sample) fit(usual []float64) quadratic {
	const prior, steps = 1. / 4, 30
	n := len(terms(usual))
	q := quadratic{make([]float64, n), usual}
	rows := make([][]float64, len(s.at))
	for i, at := range s.at {
		rows[i] = q.features(at)
	}
	for range steps {
		gradient, hessian := make([]float64, n), make([]float64, n*n) // hessian of minus the likelihood
		for i, w := range q.weights {
			gradient[i], hessian[i*n+i] = -prior*w, prior
		}
		for k, row := range rows {
			var sum float64
			for i, x := range row {
				sum += x * q.weights[i]
			}
			p := logistic(sum)
			for i, x := range row {
				gradient[i] += (s.scores[k] - 2*p) * x
				for j, y := range row {
					hessian[i*n+j] += 2 * p * (1 - p) * x * y
				}
			}
		}
		var c mat.Cholesky
		var step mat.VecDense
		if !c.Factorize(mat.NewSymDense(n, hessian)) || c.SolveVecTo(&step, mat.NewVecDense(n, gradient)) != nil {
			break // impossible: the prior makes it positive definite
		}
		longest := mat.Norm(&step, math.Inf(1))
		for i := range q.weights {
			q.weights[i] += step.AtVec(i) * min(1, 2/longest)
		}
		if longest < 1e-6 {
			break
		}
	}
	return q
}

// Text formats constants, such as "cpuct 2.1, fpu 0.3".
func (t *Tuning) Text(values []float64) string {
	parts := make([]string, len(values))
	for i, c := range t.Constants {
		parts[i] = fmt.Sprintf("%s %g", c.Name, values[i])
	}
	return strings.Join(parts, ", ")
}
