package arena_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/evald/evald/engine/arena"
	"github.com/evald/evald/engine/game/gametest"
)

// simulateGame returns the points of a player that is better by elo, without the effect of an opening. The closer the
// players, the more draws; the expected score is that of the model.
func simulateGame(r *rand.Rand, elo float64) float64 {
	p := 1 / (1 + math.Pow(10, -elo/400))
	draw := 0.6 * min(p, 1-p)
	switch x := r.Float64(); {
	case x < draw:
		return 0.5
	case x < draw+p-draw/2:
		return 1
	}
	return 0
}

// simulatePair returns the points from two games with colours exchanged, from an opening that favours one side much. The
// expected score of the pair is that of a player better by elo.
func simulatePair(r *rand.Rand, elo float64) float64 {
	p := 1 / (1 + math.Pow(10, -elo/400))
	// The opening raises the favoured side's expected score and lowers the other's by as much.
	shift := 0.9 * min(p, 1-p) * r.Float64()
	other := func(q float64) float64 { return 400 * math.Log10(q/(1-q)) }
	return simulateGame(r, other(p+shift)) + simulateGame(r, other(p-shift))
}

// encounters returns simulated encounters of all pairs of players with these ratings.
func encounters(r *rand.Rand, ratings []float64, openings int) (all []arena.Encounter) {
	for range openings {
		for a := range ratings {
			for b := a + 1; b < len(ratings); b++ {
				all = append(all, arena.Encounter{A: a, B: b, Games: 2, Points: simulatePair(r, ratings[a]-ratings[b])})
			}
		}
	}
	return all
}

// A true rating is within its 95% interval in about 95% of the matches: for few openings and many, two players and more,
// equal ones and others. On average the rating found is the true one.
func TestCoverage(t *testing.T) {
	gametest.OneGoroutine(t)
	runs := 400
	if testing.Short() {
		runs = 100
	}
	for _, c := range []struct {
		ratings  []float64
		openings int
	}{
		{[]float64{0, 0}, 10},
		{[]float64{0, 0}, 200},
		{[]float64{50, -50}, 50},
		{[]float64{150, -150}, 50},
		{[]float64{150, 50, -200}, 20},
		{[]float64{100, 30, 0, -20, -110}, 30},
	} {
		r := rand.New(rand.NewPCG(11, uint64(c.openings)))
		covered, differences, all, bias := 0, 0, 0, 0.0
		for range runs {
			found := arena.Rate(len(c.ratings), encounters(r, c.ratings, c.openings))
			for i, want := range c.ratings {
				all++
				if math.Abs(found.Elo[i]-want) <= found.Error(i) {
					covered++
				}
				j := (i + 1) % len(c.ratings)
				if d, err, _ := found.Difference(i, j); math.Abs(d-(want-c.ratings[j])) <= err {
					differences++
				}
			}
			bias += (found.Elo[0] - c.ratings[0]) / float64(runs)
		}
		rate, rate2 := float64(covered)/float64(all), float64(differences)/float64(all)
		t.Logf("%v, %d openings: %.3f of the ratings and %.3f of the differences covered, bias of the first %.1f", c.ratings, c.openings, rate, rate2, bias)
		// Ratings of one match are correlated, so the number of matches counts.
		slack := 3 * math.Sqrt(0.95*0.05/float64(runs))
		if math.Abs(rate-0.95) > 0.01+slack || math.Abs(rate2-0.95) > 0.01+slack {
			t.Errorf("%v, %d openings: %.3f of the ratings and %.3f of the differences are in their 95%% intervals", c.ratings, c.openings, rate, rate2)
		}
		if math.Abs(bias) > 6 && !testing.Short() {
			t.Errorf("%v, %d openings: the first is rated %.1f too high on average", c.ratings, c.openings, bias)
		}
	}
}

// Two players, computed by hand: the rating difference is that of the mean score, and its interval is Student's of the pair
// scores. Both differ only by the prior's two games.
func TestTwoPlayers(t *testing.T) {
	const pairs = 4000
	var all []arena.Encounter
	sum, squares := 0.0, 0.0
	for i := range pairs {
		points := []float64{2, 1, 1, 1, 1.5, 0, 1, 1, 2, 0.5}[i%10] // 5.5 of 10
		all = append(all, arena.Encounter{A: 1, B: 0, Games: 2, Points: points})
		sum, squares = sum+points/2, squares+points*points/4
	}
	mean := sum / pairs
	deviation := math.Sqrt((squares/pairs - mean*mean) / (pairs - 1))
	difference := -400 * math.Log10(1/mean-1)
	interval := distuv.StudentsT{Sigma: 1, Nu: pairs - 1}.Quantile(0.975) * deviation * 400 / math.Ln10 / (mean * (1 - mean))
	r := arena.Rate(2, all)
	d, err, superior := r.Difference(1, 0)
	if math.Abs(d-difference) > 0.02 || math.Abs(err-interval) > 0.02 || math.Abs(r.Elo[0]+r.Elo[1]) > 1e-9 || math.Abs(r.Error(0)-err/2) > 1e-9 {
		t.Errorf("ratings %v, difference %v ±%v; want %v ±%v", r.Elo, d, err, difference, interval)
	}
	if superior < 0.999999 {
		t.Errorf("better with probability %v", superior)
	}
	if back, _, inferior := r.Difference(0, 1); back != -d || math.Abs(superior+inferior-1) > 1e-12 {
		t.Errorf("the other way round %v, %v", back, inferior)
	}
}

// The interval of the pairs' score decides whether a comparison is of too few games; so it is of two and four games, whatever
// their results. The probability of being better and the interval agree.
func TestTooFewGames(t *testing.T) {
	for pairs, want := range map[[5]int]bool{
		{}: true, {0, 0, 0, 0, 1}: true, {0, 0, 0, 0, 2}: true, {0, 0, 2, 0, 0}: true, {0, 0, 0, 0, 4}: true, {0, 0, 0, 0, 5}: false,
		{3, 0, 0, 0, 3}: true, {5, 0, 0, 0, 5}: false, {1, 2, 3, 3, 1}: false, {40, 0, 20, 0, 40}: false,
	} {
		if got := arena.TooFewGames(pairs); got != want {
			t.Errorf("%v: %v", pairs, got)
		}
		other := [5]int{pairs[4], pairs[3], pairs[2], pairs[1], pairs[0]}
		if arena.TooFewGames(other) != want {
			t.Errorf("%v: the other way round %v", other, !want)
		}
	}
	for pairs := 1; pairs < 8; pairs++ {
		all := slices.Repeat([]arena.Encounter{{A: 0, B: 1, Games: 2, Points: 2}}, pairs)
		r := arena.Rate(2, all)
		d, err, superior := r.Difference(0, 1)
		if (superior > 0.975) != (d > err) || pairs == 1 && superior != 0.5 {
			t.Errorf("%d pairs won: %v ±%v, better with probability %v", pairs, d, err, superior)
		}
	}
}

// A player that wins or loses every game is rated far away, but not infinitely. One that has not played is rated 0.
func TestExtremes(t *testing.T) {
	var all []arena.Encounter
	for range 100 {
		all = append(all, arena.Encounter{A: 0, B: 1, Games: 2, Points: 2})
	}
	r := arena.Rate(3, all)
	if d, err, superior := r.Difference(0, 1); math.Abs(d-1058) > 1 || err < 200 || err > 500 || superior < 0.999 {
		t.Errorf("200 of 200: %v ±%v, better with probability %v", d, err, superior)
	}
	if math.Abs(r.Elo[2]) > 1e-9 || r.Error(2) < 300 {
		t.Errorf("without games %v ±%v", r.Elo[2], r.Error(2))
	}
	for _, c := range [][]arena.Encounter{nil, all[:1]} {
		r := arena.Rate(2, c)
		if d, err, _ := r.Difference(0, 1); !math.IsInf(err, 1) || math.IsNaN(d) || math.IsInf(d, 0) || !math.IsInf(r.Error(0), 1) {
			t.Errorf("%d encounters: %v ±%v, want no interval", len(c), d, err)
		}
	}
}
