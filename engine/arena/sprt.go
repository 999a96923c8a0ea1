package arena

import (
	"fmt"
	"math"
)

// SPRT is a sequential test between two hypotheses: the first player is better than the second by Elo0, or by Elo1. It ends as soon as the
// logarithm of the likelihood ratio leaves the bounds log(Beta/(1-Alpha)) and log((1-Beta)/Alpha) (A. Wald, Sequential tests of statistical
// hypotheses, 1945).
type SPRT struct {
	Elo0, Elo1  float64
	Alpha, Beta float64 // probabilities of accepting Elo1 if Elo0 is true, and Elo0 if Elo1 is true
}

// Verdict is the result of a test so far.
type Verdict string

// The verdicts.
const (
	Undecided Verdict = "undecided"
	Accept0   Verdict = "elo0"
	Accept1   Verdict = "elo1"
)

// Validate returns an error that names the value that is out of range, or nil.
func (s SPRT) Validate() error {
	switch {
	case !(s.Elo0 < s.Elo1) || math.Abs(s.Elo0) > 2000 || math.Abs(s.Elo1) > 2000:
		return fmt.Errorf("elo0 %v, elo1 %v: want elo0 less than elo1, both within ±2000", s.Elo0, s.Elo1)
	case !(s.Alpha > 0 && s.Alpha < 0.5 && s.Beta > 0 && s.Beta < 0.5):
		return fmt.Errorf("alpha %v, beta %v: want more than 0 and less than 0.5", s.Alpha, s.Beta)
	}
	return nil
}

// Bounds are the bounds of the log likelihood ratio.
func (s SPRT) Bounds() (lower, upper float64) {
	return math.Log(s.Beta / (1 - s.Alpha)), math.Log((1 - s.Beta) / s.Alpha)
}

// Verdict is the verdict for a log likelihood ratio.
func (s SPRT) Verdict(ratio float64) Verdict {
	lower, upper := s.Bounds()
	switch {
	case ratio <= lower:
		return Accept0
	case ratio >= upper:
		return Accept1
	}
	return Undecided
}

// LogRatio is the logarithm of the generalised likelihood ratio of Elo1 to Elo0. For each hypothesis it uses the likeliest distribution of
// pair scores that has the expected score of the hypothesis. pairs counts the pairs of games by the first player's points: 0, 0.5, 1, 1.5,
// 2. The test is that of fishtest, Stockfish's testing framework, with logistic Elo (M. Van den Bergh, The generalized maximum likelihood
// ratio for the expectation value of a distribution). As in fishtest, a count of 0 is replaced by 0.001.
func (s SPRT) LogRatio(pairs [5]int) float64 {
	var n [5]float64
	played := false
	for i, count := range pairs {
		n[i] = max(float64(count), 1e-3)
		played = played || count > 0
	}
	if !played {
		return 0
	}
	mean0, mean1 := logistic(s.Elo0/elo), logistic(s.Elo1/elo)
	t0, t1 := tilt(n, mean0), tilt(n, mean1)
	sum := 0.0
	for i := range n {
		sum += n[i] * math.Log((1+t0*(pairScore(i)-mean0))/(1+t1*(pairScore(i)-mean1)))
	}
	return sum
}

// CountPairs counts pairs of games on one opening by the player's points: 0, 0.5, 1, 1.5, 2. The player must take part in all games.
// Openings with only one game so far are ignored.
func CountPairs(games []Game, player string) (pairs [5]int) {
	halves := map[int32]int{} // by opening: 1 + twice the points of the pair's first game; 0 before it
	for i := range games {
		g := &games[i]
		points := int(2 * g.points(player))
		if before := halves[g.Opening]; before > 0 {
			pairs[before-1+points]++
		} else {
			halves[g.Opening] = points + 1
		}
	}
	return pairs
}

// pairScore is the score, 0 to 1, of pairs that are counted at index i.
func pairScore(i int) float64 { return float64(i) / 4 }

// tilt returns the t for which the weights n_i / (1 + t (a_i - mean)) have the given mean. Up to a factor, these weights are the likeliest
// distribution with that mean. The weighted sum of a_i - mean falls as t rises.
func tilt(n [5]float64, mean float64) float64 {
	low, high := -1/(1-mean), 1/mean // here the weight of an extreme score becomes infinite
	for range 200 {
		t := (low + high) / 2
		sum := 0.0
		for i := range n {
			d := pairScore(i) - mean
			sum += n[i] * d / (1 + t*d)
		}
		if sum > 0 {
			low = t
		} else {
			high = t
		}
	}
	return (low + high) / 2
}
