package arena_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/evald/evald/engine/arena"
	"github.com/evald/evald/engine/game/gametest"
)

// The ratios that fishtest published with its counts, in pull requests of Stockfish: logistic Elo, to two digits.
func TestLogRatioPublished(t *testing.T) {
	for _, c := range []struct {
		pull       int
		elo0, elo1 float64
		pairs      [5]int
		want       float64
	}{
		{2493, -1, 3, [5]int{424, 2948, 5832, 3045, 460}, 2.94},
		{2493, 0, 2, [5]int{1284, 17437, 55536, 18085, 1292}, 2.94},
		{2920, -0.5, 1.5, [5]int{665, 4806, 9333, 4893, 747}, 2.95},
		{2920, 0.25, 1.75, [5]int{328, 4564, 15580, 4789, 371}, 2.98},
		{2971, -0.5, 1.5, [5]int{17, 253, 1042, 337, 39}, 2.96},
		{3017, -1.5, 0.5, [5]int{174, 2658, 10273, 2713, 178}, 2.96},
		{3017, -1.5, 0.5, [5]int{40, 1272, 12142, 1300, 30}, 3.01},
		{3209, -0.25, 1.25, [5]int{253, 4282, 17604, 4431, 286}, 2.94},
		{3209, 0.25, 1.25, [5]int{58, 3302, 33130, 3518, 84}, 2.97},
		{3331, 0.25, 1.25, [5]int{14, 1030, 14318, 1163, 19}, 2.93},
	} {
		s := arena.SPRT{Elo0: c.elo0, Elo1: c.elo1, Alpha: 0.05, Beta: 0.05}
		if got := s.LogRatio(c.pairs); math.Abs(got-c.want) > 0.0051 {
			t.Errorf("pull request %d: %.4f, want %.2f", c.pull, got, c.want)
		}
	}
}

// If all pairs are won or lost, the likeliest distribution with a given mean is (1-mean, mean), whatever was seen.
func TestLogRatioByHand(t *testing.T) {
	s := arena.SPRT{Elo0: 0, Elo1: 400 * math.Log10(3), Alpha: 0.05, Beta: 0.1} // scores of 1/2 and 3/4
	for _, c := range []struct {
		pairs [5]int
		want  float64
	}{
		{[5]int{}, 0},
		{[5]int{4, 0, 0, 0, 10}, 10*math.Log(1.5) + 4*math.Log(0.5)},
		{[5]int{30, 0, 0, 0, 50}, 50*math.Log(1.5) + 30*math.Log(0.5)},
	} {
		// The 0.001 in place of each 0 changes the ratio by up to some thousandths.
		if got := s.LogRatio(c.pairs); math.Abs(got-c.want) > 5e-3 {
			t.Errorf("%v: %v, want %v", c.pairs, got, c.want)
		}
	}
	lower, upper := s.Bounds()
	if math.Abs(lower-math.Log(0.1/0.95)) > 1e-12 || math.Abs(upper-math.Log(0.9/0.05)) > 1e-12 {
		t.Errorf("bounds %v, %v", lower, upper)
	}
	for ratio, want := range map[float64]arena.Verdict{lower - 0.1: arena.Accept0, 0: arena.Undecided, upper + 0.1: arena.Accept1} {
		if got := s.Verdict(ratio); got != want {
			t.Errorf("verdict of %v is %v, want %v", ratio, got, want)
		}
	}
	// The ratio is finite for all counts, however one-sided.
	for i := range 5 {
		for _, n := range []int{1, 1000, 1 << 40} {
			var pairs [5]int
			pairs[i] = n
			if got := s.LogRatio(pairs); math.IsNaN(got) || math.IsInf(got, 0) {
				t.Errorf("%v: %v", pairs, got)
			}
		}
	}
}

func TestSPRTValidate(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		s    arena.SPRT
		want string
	}{
		{arena.SPRT{Elo0: 0, Elo1: 10, Alpha: 0.05, Beta: 0.05}, ""},
		{arena.SPRT{Elo0: 10, Elo1: 10, Alpha: 0.05, Beta: 0.05}, "elo0 less than elo1"},
		{arena.SPRT{Elo0: 0, Elo1: nan, Alpha: 0.05, Beta: 0.05}, "elo0 less than elo1"},
		{arena.SPRT{Elo0: 0, Elo1: 1e9, Alpha: 0.05, Beta: 0.05}, "within ±2000"},
		{arena.SPRT{Elo0: 0, Elo1: 10, Alpha: 0, Beta: 0.05}, "alpha 0"},
		{arena.SPRT{Elo0: 0, Elo1: 10, Alpha: 0.05, Beta: nan}, "beta NaN"},
	} {
		err := c.s.Validate()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: %v, want %q", c.s, err, c.want)
		}
	}
}

// The test errs about as often as configured. Because a ratio overshoots its bound, it errs a little less often.
func TestSPRTErrors(t *testing.T) {
	gametest.OneGoroutine(t)
	s := arena.SPRT{Elo0: 0, Elo1: 60, Alpha: 0.05, Beta: 0.1}
	runs := 2000
	if testing.Short() {
		runs = 200
	}
	for _, c := range []struct {
		elo   float64
		wrong arena.Verdict
		asked float64
	}{{s.Elo0, arena.Accept1, s.Alpha}, {s.Elo1, arena.Accept0, s.Beta}} {
		r := rand.New(rand.NewPCG(7, 8))
		wrong, games := 0, 0
		for range runs {
			var pairs [5]int
			verdict := arena.Undecided
			for verdict == arena.Undecided {
				pairs[int(2*simulatePair(r, c.elo))]++
				games += 2
				verdict = s.Verdict(s.LogRatio(pairs))
			}
			if verdict == c.wrong {
				wrong++
			}
		}
		rate := float64(wrong) / float64(runs)
		slack := 3 * math.Sqrt(c.asked*(1-c.asked)/float64(runs))
		t.Logf("true difference %v: %v wrong, asked for %v; %.0f games on average", c.elo, rate, c.asked, float64(games)/float64(runs))
		if rate > c.asked+slack || rate < c.asked/2-slack {
			t.Errorf("true difference %v: %v of the verdicts wrong, want about %v", c.elo, rate, c.asked)
		}
	}
}
