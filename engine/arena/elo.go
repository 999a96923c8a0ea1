package arena

import (
	"math"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Encounter is the result of two players on one opening, from one game or two.
type Encounter struct {
	A, B   int     // players
	Games  int     // 1 or 2
	Points float64 // points of A
}

// Ratings are Elo ratings with their uncertainty.
//
// They follow the Bradley-Terry model, P(i beats j) = 1 / (1 + 10^((r_j-r_i)/400)); a draw counts as half a win and half a loss (R. A.
// Bradley and M. E. Terry, Rank analysis of incomplete block designs, 1952). They maximize the likelihood times a weak prior: each player
// has drawn one game against an opponent of rating 0. The prior keeps the mean at 0, and the rating of a player with only wins finite (if
// one player wins 200 of 200 games, the ratings are 1058 apart).
//
// Games on the same opening are not independent: the second game, with colours exchanged, compensates for the advantage that the opening
// gives to one side. So the covariance is the sandwich H^-1 G H^-1 of P. J. Huber (The behavior of maximum likelihood estimates under
// nonstandard conditions, 1967), with an encounter as the unit. H is the Hessian and G the sum of the squares of the encounters' gradients.
// For two players this is the variance of the scores of game pairs, as in the pentanomial model. Intervals use Student's quantile; the
// number of degrees of freedom is that of encounters minus that of free ratings.
type Ratings struct {
	Elo []float64 // one per player, with mean 0

	covariance mat.SymDense // of Elo
	student    student
}

// student is Student's distribution with the given degrees of freedom. Below 1, there are too few games for an interval.
type student int

// quantile is the 97.5% quantile; +Inf if there are too few games.
func (s student) quantile() float64 {
	if s < 1 {
		return math.Inf(1)
	}
	return distuv.StudentsT{Sigma: 1, Nu: float64(s)}.Quantile(0.975)
}

// elo is the number of Elo points per unit of log odds.
const elo = 400 / math.Ln10

// Rate finds the ratings of the given number of players.
func Rate(players int, encounters []Encounter) Ratings {
	r := Ratings{Elo: make([]float64, players)}
	logOdds := maximum(players, encounters)

	hessian := hessian(logOdds, encounters)
	squares := mat.NewSymDense(players, nil)
	free := len(encounters) - (players - 1)
	correction := float64(len(encounters)) / float64(max(1, free))
	for _, e := range encounters {
		g := e.Points - float64(e.Games)*logistic(logOdds[e.A]-logOdds[e.B])
		addPair(squares, e.A, e.B, g*g*correction)
	}
	for i, x := range logOdds { // the prior's games are encounters too
		g := 0.5 - logistic(x)
		squares.SetSym(i, i, squares.At(i, i)+g*g)
	}
	var inverse mat.SymDense
	var cholesky mat.Cholesky
	if !cholesky.Factorize(hessian) || cholesky.InverseTo(&inverse) != nil {
		panic("arena: the prior makes the Hessian positive definite")
	}
	// Subtract the mean: C = M H^-1 G H^-1 M', M = I - 1/n.
	m := mat.NewDense(players, players, nil)
	for i := range players {
		for j := range players {
			m.Set(i, j, -1/float64(players))
		}
		m.Set(i, i, 1-1/float64(players))
	}
	var left, all mat.Dense
	left.Mul(m, &inverse)
	all.Product(&left, squares, left.T())
	r.covariance = *mat.NewSymDense(players, nil)
	mean := 0.0
	for i, x := range logOdds {
		mean += x / float64(players)
		for j := i; j < players; j++ {
			r.covariance.SetSym(i, j, elo*elo*all.At(i, j))
		}
	}
	for i, x := range logOdds {
		r.Elo[i] = elo * (x - mean)
	}
	r.student = student(free)
	return r
}

// Error is half the 95% interval of player i's rating relative to the mean of all players; +Inf if there are too few games.
func (r *Ratings) Error(i int) float64 {
	return r.interval(r.covariance.At(i, i))
}

// interval is half the 95% interval of a quantity with the given variance.
func (r *Ratings) interval(variance float64) float64 {
	quantile := r.student.quantile()
	if math.IsInf(quantile, 1) {
		return quantile
	}
	return quantile * math.Sqrt(max(0, variance))
}

// Difference returns i's rating minus j's, half its 95% interval, and the probability that i is the stronger player (the likelihood of
// superiority, by Student's distribution; 0.5 if there are too few games).
func (r *Ratings) Difference(i, j int) (difference, err, superior float64) {
	c := &r.covariance
	variance := c.At(i, i) + c.At(j, j) - 2*c.At(i, j)
	difference = r.Elo[i] - r.Elo[j]
	superior = 0.5
	if variance > 0 && r.student >= 1 {
		superior = distuv.StudentsT{Sigma: 1, Nu: float64(r.student)}.CDF(difference / math.Sqrt(variance))
	}
	return difference, r.interval(variance), superior
}

// TooFewGames reports whether pairs of games, counted by a player's points (0, 0.5, 1, 1.5, 2), are too few for a rating: Student's 95%
// interval of a pair's score, as a share of its points, is wider than 0.75. It adds a won and a lost pair, because otherwise a few pairs
// with equal results would seem certain.
func TooFewGames(pairs [5]int) bool {
	pairs[0]++
	pairs[4]++
	n, sum, squares := 0.0, 0.0, 0.0
	for points, count := range pairs {
		share, count := float64(points)/4, float64(count)
		n, sum, squares = n+count, sum+count*share, squares+count*share*share
	}
	variance := (squares - sum*sum/n) / (n - 1)
	return 2*student(n-1).quantile()*math.Sqrt(variance/n) > 0.75
}

func logistic(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// maximum finds the log odds with the greatest posterior likelihood by Newton's method. The logarithm of the likelihood is concave, so a
// step that does not increase it is only too long.
func maximum(players int, encounters []Encounter) []float64 {
	x := make([]float64, players)
	height := likelihood(x, encounters)
	for range 100 {
		g := mat.NewVecDense(players, nil)
		for _, e := range encounters {
			d := e.Points - float64(e.Games)*logistic(x[e.A]-x[e.B])
			g.SetVec(e.A, g.AtVec(e.A)+d)
			g.SetVec(e.B, g.AtVec(e.B)-d)
		}
		for i := range x {
			g.SetVec(i, g.AtVec(i)+0.5-logistic(x[i]))
		}
		var cholesky mat.Cholesky
		var step mat.VecDense
		if !cholesky.Factorize(hessian(x, encounters)) || cholesky.SolveVecTo(&step, g) != nil {
			panic("arena: the prior makes the Hessian positive definite")
		}
		next, higher := make([]float64, players), height
		for scale := 1.0; scale > 1e-6; scale /= 2 {
			for i := range x {
				next[i] = x[i] + scale*step.AtVec(i)
			}
			if higher = likelihood(next, encounters); higher >= height {
				break
			}
		}
		if higher < height || mat.Norm(&step, math.Inf(1)) < 1e-10 {
			break
		}
		x, height = next, higher
	}
	return x
}

// likelihood is the logarithm of the likelihood times the prior.
func likelihood(x []float64, encounters []Encounter) (sum float64) {
	logP := func(x float64) float64 { // logarithm of logistic(x), without overflow
		return min(x, 0) - math.Log1p(math.Exp(-math.Abs(x)))
	}
	for _, e := range encounters {
		d := x[e.A] - x[e.B]
		sum += e.Points*logP(d) + (float64(e.Games)-e.Points)*logP(-d)
	}
	for _, x := range x {
		sum += (logP(x) + logP(-x)) / 2
	}
	return sum
}

// hessian is the negative Hessian of likelihood.
func hessian(x []float64, encounters []Encounter) *mat.SymDense {
	h := mat.NewSymDense(len(x), nil)
	for _, e := range encounters {
		p := logistic(x[e.A] - x[e.B])
		addPair(h, e.A, e.B, float64(e.Games)*p*(1-p))
	}
	for i, x := range x {
		p := logistic(x)
		h.SetSym(i, i, h.At(i, i)+p*(1-p))
	}
	return h
}

// addPair adds w (e_a - e_b)(e_a - e_b)'.
func addPair(m *mat.SymDense, a, b int, w float64) {
	m.SetSym(a, a, m.At(a, a)+w)
	m.SetSym(b, b, m.At(b, b)+w)
	m.SetSym(a, b, m.At(a, b)-w)
}
