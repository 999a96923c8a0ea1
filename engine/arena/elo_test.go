package arena_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/evald/evald/engine/arena"
)

// simulateGame is the points of a player that is so much better, before what the opening gives it. A third of the
// games that are not clear are drawn: the expected score is that of the model.
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

// simulatePair is the points from two games with colours exchanged, out of an opening that gives one side much. The
// expected score of the pair is that of a player so much better.
func simulatePair(r *rand.Rand, elo float64) float64 {
	p := 1 / (1 + math.Pow(10, -elo/400))
	// The opening moves what the favoured side expects up and the other's down by as much.
	shift := 0.9 * min(p, 1-p) * r.Float64()
	other := func(q float64) float64 { return 400 * math.Log10(q/(1-q)) }
	return simulateGame(r, other(p+shift)) + simulateGame(r, other(p-shift))
}

// encounters of all pairs of players with these ratings.
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

// A true rating is within its 95% interval in about 95% of the matches, for few openings and many, two players and
// more, equals and others; and on average it is what is found.
func TestCoverage(t *testing.T) {
	runs := 1000
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
		// Ratings of one match go together, so count matches.
		slack := 3 * math.Sqrt(0.95*0.05/float64(runs))
		if math.Abs(rate-0.95) > 0.01+slack || math.Abs(rate2-0.95) > 0.01+slack {
			t.Errorf("%v, %d openings: %.3f of the ratings and %.3f of the differences are in their 95%% intervals", c.ratings, c.openings, rate, rate2)
		}
		if math.Abs(bias) > 6 && !testing.Short() {
			t.Errorf("%v, %d openings: the first is rated %.1f too high on average", c.ratings, c.openings, bias)
		}
	}
}
