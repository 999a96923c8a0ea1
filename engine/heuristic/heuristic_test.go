package heuristic_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/heuristic"
)

// The names that scripts and records rely on are there, whatever else is.
func TestNames(t *testing.T) {
	names := heuristic.Names()
	for _, name := range []string{"bitsquares", "gameovers", "oddeven", "rollout", "uniform"} {
		if !slices.Contains(names, name) {
			t.Errorf("no heuristic %s among %v", name, names)
		}
	}
	for _, name := range names {
		s, ok := heuristic.ParseSource(name)
		if named, isNamed := heuristic.Named(name); !ok || !isNamed || s != named || s.String() != name || !s.Heuristic() {
			t.Errorf("%s is source %q", name, s)
		}
	}
	if s, ok := heuristic.ParseSource("cpu"); !ok || s != eval.CPU {
		t.Errorf("cpu is source %q", s)
	}
	for _, name := range []string{"", "nobody"} {
		if s, ok := heuristic.ParseSource(name); ok {
			t.Errorf("%q is source %q, want none", name, s)
		}
	}
}

// A parameter may have its least and its greatest value, and none beyond.
func TestBounds(t *testing.T) {
	for _, e := range heuristic.All() {
		for _, p := range e.Parameters {
			for x, want := range map[float64]bool{p.Least: true, p.Most: true, p.Least - 1: false, p.Most + 1: false} {
				text := fmt.Sprintf("%s:%s=%g", e.Source, p.Key, x)
				n, ok, err := heuristic.Parse(text)
				if !ok || (err == nil) != want {
					t.Errorf("%s: %v, %v; want it taken: %v", text, ok, err, want)
				}
				if err == nil && n.Value(p.Key) != x {
					t.Errorf("%s has the value %v", text, n.Value(p.Key))
				}
			}
		}
	}
}

// The width is that of the sigmoid and the temperature of the policy, in each heuristic that scores positions; the published widths are 7
// for bitsquares and 6 for the others.
func TestWidth(t *testing.T) {
	b, r := game.MustBoard(game.Connect4), gametest.Rand(9)
	batch := eval.NewBatch(b, 1)
	for text, of := range map[string]struct {
		score func(b *game.Board, p game.Position) float64
		width float64
	}{
		"bitsquares":                     {heuristic.NewBitsquares(1.75).Score, 7},
		"gameovers":                      {heuristic.Gameovers{}.Score, 6},
		"oddeven":                        {heuristic.NewOddEven().Score, 6},
		"bitsquares:width=6":             {heuristic.NewBitsquares(1.75).Score, 6},
		"bitsquares:power=2:width=1.5":   {heuristic.NewBitsquares(2).Score, 1.5},
		"bitsquares:width=0.01:power=-0": {heuristic.NewBitsquares(0).Score, 0.01},
		"gameovers:width=20":             {heuristic.Gameovers{}.Score, 20},
		"oddeven:width=1000":             {heuristic.NewOddEven().Score, 1000},
	} {
		n, ok, err := heuristic.Parse(text)
		if !ok || err != nil {
			t.Fatalf("%s: %v, %v", text, ok, err)
		}
		e := evaltest.Raw(n.New())
		for _, p := range gametest.Open(r, b, 100) {
			batch.Pos[0] = p
			gametest.OK(t, e.Evaluate(t.Context(), batch))
			if want := 1 / (1 + math.Exp(-of.score(b, p)/of.width)); math.Abs(float64(batch.WDL[0])-want) > 1e-6 {
				t.Fatalf("%s: win %v, want %v of %s", text, batch.WDL[0], want, b.Text(p))
			}
			if !b.Wins(p).IsZero() {
				continue // wins share the policy
			}
			total, want := 0.0, make([]float64, b.Actions())
			for a := range want {
				if b.CanPlay(p, a) {
					for c := range want { // relative to each other move, so that no term overflows
						if b.CanPlay(p, c) {
							want[a] += math.Exp((of.score(b, b.Play(p, a)) - of.score(b, b.Play(p, c))) / of.width)
						}
					}
					want[a] = 1 / want[a]
					total += want[a]
				}
			}
			for a := range want {
				if math.Abs(float64(batch.Policy[a])-want[a]) > 1e-6 || math.Abs(total-1) > 1e-9 {
					t.Fatalf("%s: policy %v, want %v of %s", text, batch.Policy, want, b.Text(p))
				}
			}
		}
	}
}

func TestConformance(t *testing.T) {
	for _, h := range heuristic.All() {
		s := h.Source
		t.Run(s.String(), func(t *testing.T) {
			c := evaltest.Config{
				New:    func(t testing.TB) *eval.Evaluator { return evaltest.Raw(h.New()) },
				Mirror: s != eval.Rollout, MirrorTolerance: 1e-6, Sources: []eval.Source{s},
			}
			if testing.Short() {
				c.Rows = 19
			}
			evaltest.Run(t, c)
		})
	}
	if _, err := heuristic.New(eval.GPU); err == nil {
		t.Error("New(GPU): no error")
	}
}

func close9(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(1, math.Abs(b)) }

// boards adds to gametest's the lengths at the edges of the shift forms.
func boards() []*game.Board {
	more := gametest.Boards()
	for _, r := range []game.Rules{
		{Rows: 3, Columns: 3, InARow: 1, Gravity: true},
		{Rows: 4, Columns: 5, InARow: 2, Gravity: true},
		{Rows: 8, Columns: 7, InARow: 4, Gravity: true},
		{Rows: 5, Columns: 6, InARow: 4, Gravity: true},
		{Rows: 2, Columns: 9, InARow: 4, Gravity: true},
		{Rows: 13, Columns: 9, InARow: 9, Gravity: true},
		{Rows: 62, Columns: 1, InARow: 4, Gravity: true},
		{Rows: 31, Columns: 2, InARow: 4, Gravity: true},
		{Rows: 20, Columns: 3, InARow: 4, Gravity: true},
		{Rows: 15, Columns: 4, InARow: 4, Gravity: true},
		{Rows: 6, Columns: 7, InARow: 4, Gravity: false},
	} {
		more = append(more, game.MustBoard(r))
	}
	return more
}

func TestAgainstLineMasks(t *testing.T) {
	bitsquares, oddeven := heuristic.NewBitsquares(2.5), heuristic.NewOddEven()
	paired := &heuristic.OddEven{Bitsquares: bitsquares, Endgame3: 3, Endgame2: 0.5, Pair3: 7}
	for _, b := range boards() {
		lines := b.Lines()
		for _, p := range gametest.Positions(gametest.Rand(1), b, 400, false) {
			for name, c := range map[string][2]float64{
				"bitsquares": {bitsquares.Score(b, p), slowBitsquares(lines, p, 2.5)},
				"gameovers":  {heuristic.Gameovers{}.Score(b, p), slowGameovers(lines, p)},
				"oddeven":    {oddeven.Score(b, p), slowOddEven(b, p, heuristic.DefaultPower, oddEvenParams{0, 1, 0.05})},
				"paired":     {paired.Score(b, p), slowOddEven(b, p, 2.5, oddEvenParams{7, 3, 0.5})},
			} {
				if !close9(c[0], c[1]) {
					t.Fatalf("%v %s: %v, by line masks %v, for %+v", b.Rules(), name, c[0], c[1], p)
				}
			}
		}
	}
}

// Scores of many positions, by vector instructions if there are any, have the same bits as one by one. Nothing else is written.
func TestScoresAtOnce(t *testing.T) {
	h := heuristic.NewBitsquares(heuristic.DefaultPower)
	for _, b := range boards() {
		ps := gametest.Positions(gametest.Rand(3), b, 100, false)
		for _, n := range []int{0, 1, 7, 8, 9, 16, 23, 100} {
			const guard = 12345.5
			out := make([]float64, n+16)
			for i := range out {
				out[i] = guard
			}
			h.Scores(b, ps[:n], out[8:8+n])
			for i, got := range out {
				want := guard
				if i >= 8 && i < 8+n {
					want = h.Score(b, ps[i-8])
				}
				if got != want {
					t.Fatalf("%v: %d positions: value %d is %v, want %v", b.Rules(), n, i-8, got, want)
				}
			}
		}
	}
}

// The upstream formulas' own values.
func TestSeedValues(t *testing.T) {
	var seeds struct {
		Power   float64
		Width   float64 `json:"sigmoid_width"`
		Records []struct {
			Board      []int
			Winner     int
			Bitsquares float64 `json:"bitsquares_p1"`
			Sigmoid    float64 `json:"sigmoid7_p1"`
			Gameovers  any     `json:"gameovers_p1"` // a word if the game is won
		}
	}
	load(t, "seeds/heuristics.json", &seeds)
	b := game.MustBoard(game.Connect4)
	h := heuristic.NewBitsquares(seeds.Power)
	e := evaltest.Raw(heuristic.Usual(eval.Bitsquares).New())
	ongoing := 0
	for i, r := range seeds.Records {
		s, err := b.FromKaggle(r.Board, 1)
		if err != nil {
			t.Fatal(err)
		}
		if got := h.Score(b, s.Position); !close9(got, r.Bitsquares) {
			t.Errorf("record %d: bitsquares %v, want %v", i, got, r.Bitsquares)
		}
		if r.Winner != 0 {
			continue // a finished game is answered by the rules
		}
		ongoing++
		if got := (heuristic.Gameovers{}).Score(b, s.Position); !close9(got, r.Gameovers.(float64)) {
			t.Errorf("record %d: gameovers %v, want %v", i, got, r.Gameovers)
		}
		if b.Result(s.Position) != game.Ongoing {
			continue
		}
		x := evaluate(t, e, s)
		if got := float64(x.WDL[0]); math.Abs(got-r.Sigmoid) > 1e-7 || seeds.Width != 7 {
			t.Errorf("record %d: win probability %v, want %v", i, got, r.Sigmoid)
		}
	}
	if len(seeds.Records) != 155 || ongoing != 73 {
		t.Errorf("%d records, %d of unfinished games; want 155 and 73", len(seeds.Records), ongoing)
	}
}

func TestSeedOddEven(t *testing.T) {
	var seeds []struct {
		Name     string
		Board    []int
		Expected float64 `json:"expected_p1_score"`
		Params   struct {
			Pair3    float64 `json:"reward_3_pair"`
			Endgame2 float64 `json:"reward_2_endgame"`
			Endgame3 float64 `json:"reward_3_endgame"`
		}
	}
	load(t, "seeds/odd_even.json", &seeds)
	b := game.MustBoard(game.Connect4)
	bitsquares := heuristic.NewBitsquares(heuristic.DefaultPower)
	for _, c := range seeds {
		s, err := b.FromKaggle(c.Board, 1)
		if err != nil {
			t.Fatal(err)
		}
		p, sign := s.Position, 1.0
		if p.Mover() == 2 {
			p.Own, sign = p.Other(), -1
		}
		h := heuristic.OddEven{Bitsquares: bitsquares, Endgame3: c.Params.Endgame3, Endgame2: c.Params.Endgame2, Pair3: c.Params.Pair3}
		if got := sign * (h.Score(b, p) - bitsquares.Score(b, p)); !close9(got, c.Expected) {
			t.Errorf("%s: %v for player 1, want %v", c.Name, got, c.Expected)
		}
	}
	if len(seeds) != 7 {
		t.Errorf("%d cases, want 7", len(seeds))
	}
}

func load(t *testing.T, name string, to any) {
	t.Helper()
	text, err := os.ReadFile(gametest.Data(t, name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, to); err != nil {
		t.Fatal(err)
	}
}

// after is the state after some moves.
func after(t *testing.T, moves string) game.State {
	t.Helper()
	var p game.Parser
	s, err := p.Parse(moves)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// evaluate answers one position.
func evaluate(t *testing.T, e *eval.Evaluator, s game.State) *eval.Batch {
	t.Helper()
	x := eval.NewBatch(s.Board, 1)
	x.Pos[0] = s.Position
	if err := e.Evaluate(t.Context(), x); err != nil {
		t.Fatal(err)
	}
	return x
}

// What every heuristic with a look ahead of one ply must see.
func TestPolicyTakesWins(t *testing.T) {
	for _, h := range heuristic.All() {
		s := h.Source
		if s == eval.Uniform {
			continue // it does not look at the board
		}
		e := evaltest.Raw(h.New())
		if got, want := evaluate(t, e, after(t, "223344")).Policy, []float32{0.5, 0, 0, 0, 0.5, 0, 0}; !slices.Equal(got, want) {
			t.Errorf("%v: policy %v with two winning moves, want %v", s, got, want)
		}
		x := evaluate(t, e, after(t, "3x3x3free:5"))
		if len(x.Policy) != 9 || x.Policy[4] != 0 {
			t.Errorf("%v: policy %v on a board without gravity whose centre is taken", s, x.Policy)
		}
		// The side to move is a stone up in the centre; the other has nothing.
		if v := evaluate(t, e, after(t, "41")).Value(0); v <= 0 {
			t.Errorf("%v: value %v of a clear advantage, want more than 0", s, v)
		}
	}
}

// The first moves of bitsquares on the empty board, by hand: a stone in column 4 is in 7 lines, at the edge in 3, so
// that its odds are exp(7/7) to exp(3/7).
func TestBitsquaresByHand(t *testing.T) {
	e := evaltest.Raw(heuristic.Usual(eval.Bitsquares).New())
	x := evaluate(t, e, after(t, "-"))
	lines := []float64{3, 4, 5, 7, 5, 4, 3}
	total := 0.0
	for _, n := range lines {
		total += math.Exp(n / 7)
	}
	for a, n := range lines {
		if want := math.Exp(n/7) / total; math.Abs(float64(x.Policy[a])-want) > 1e-6 {
			t.Errorf("move %d has probability %v, want %v", a+1, x.Policy[a], want)
		}
	}
	if x.WDL[0] != 0.5 || x.WDL[1] != 0 || x.WDL[2] != 0.5 {
		t.Errorf("WDL %v of the empty board, want 0.5, 0, 0.5", x.WDL)
	}
}

func TestRolloutSeeds(t *testing.T) {
	wdl := func(games int, seed uint64) []float32 {
		return evaluate(t, evaltest.Raw(heuristic.Rollout{Games: games, Seed: seed}), after(t, "4455")).WDL
	}
	if a, b := wdl(50, 1), wdl(50, 2); slices.Equal(a, b) {
		t.Errorf("seeds 1 and 2 gave the same answer %v", a)
	}
	// The side to move wins about 0.72 of random games from here (the first player has two open lines in the centre).
	if a, b := wdl(20000, 0), wdl(20000, 9); math.Abs(float64(a[0]-b[0])) > 0.02 {
		t.Errorf("20000 games twice differ by more than 0.02: %v, %v", a, b)
	}
}

func benchBoard() (*game.Board, []game.Position) {
	board := game.MustBoard(game.Connect4)
	return board, gametest.Positions(gametest.Rand(1), board, 1024, true)
}

func BenchmarkScores(b *testing.B) {
	connect4, ps := benchBoard()
	wide := game.MustBoard(game.Rules{Rows: 10, Columns: 10, InARow: 4, Gravity: true})
	bitsquares := heuristic.NewBitsquares(heuristic.DefaultPower)
	for _, c := range []struct {
		name  string
		h     heuristic.Heuristic
		board *game.Board
		ps    []game.Position
	}{
		{"bitsquares", bitsquares, connect4, ps},
		{"gameovers", heuristic.Gameovers{}, connect4, ps},
		{"oddeven", heuristic.NewOddEven(), connect4, ps},
		{"wide", bitsquares, wide, gametest.Positions(gametest.Rand(1), wide, 1024, true)},
	} {
		b.Run(c.name, func(b *testing.B) {
			out := make([]float64, len(c.ps))
			b.ReportAllocs()
			for b.Loop() {
				c.h.Scores(c.board, c.ps, out)
			}
			b.ReportMetric(float64(b.N)*float64(len(c.ps))/b.Elapsed().Seconds(), "values/s")
		})
	}
}

func BenchmarkEvaluate(b *testing.B) {
	for _, h := range heuristic.All() {
		s := h.Source
		b.Run(s.String(), func(b *testing.B) {
			board, ps := benchBoard()
			e := h.New()
			x := eval.NewBatch(board, 256)
			copy(x.Pos, ps)
			b.ReportAllocs()
			for b.Loop() {
				if err := e.Compute(b.Context(), x); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(256*float64(b.N)/b.Elapsed().Seconds(), "positions/s")
		})
	}
}
