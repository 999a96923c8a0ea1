package library

import (
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/selfplay"
)

// TestMain checks that no call leaves a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// found has room for the searches of n positions.
func found(b *game.Board, n int) Found {
	a := b.Actions()
	return Found{
		Visits: make([]uint32, n*a), Policy: make([]float32, n*a), Q: make([]float32, n*a), WDL: make([]float32, 3*n),
		Best: make([]int32, n), Proved: make([]int8, n), Prior: make([]float32, n*a), Raw: make([]float32, n),
	}
}

// even answers that all moves and results are as likely.
func even(b *eval.Batch) {
	for i := range b.WDL {
		b.WDL[i] = 1
	}
	for i := range b.Policy {
		b.Policy[i] = 1
	}
}

// drain waits for a call, answers what it asks, and counts its batches and games.
func drain(w *Work, answer func(b *eval.Batch)) (batches int, games []*selfplay.Game, err error) {
	for {
		r, err := w.Wait(time.Minute)
		if err != nil {
			return batches, games, err
		}
		switch r.Event {
		case Ended:
			return batches, games, nil
		case Asked:
			batches++
			r.Ask.Use(answer)
			if err := r.Ask.Answer(nil); err != nil {
				return batches, games, err
			}
		case Played:
			games = append(games, r.Game)
		}
	}
}

// A search by a function finds what one by an evaluator finds that answers the same, and its rows do not depend on each other.
func TestSearch(t *testing.T) {
	_, b, err := Board("5x4x4")
	gametest.OK(t, err)
	positions := gametest.Positions(gametest.Rand(1), b, 60, true)
	if testing.Short() { // the race detector finds nothing more in repetitions
		positions = positions[:20]
	}
	uniform := gametest.Must(Open(`{"backend":"uniform"}`))(t)
	defer uniform.Close()
	const options = `{"visits":40,"batch":16,"lookahead":true,"exact":1000,"transpositions":true,"priors":"policy"}`
	want, got := found(b, len(positions)), found(b, len(positions))
	w := gametest.Must(Search(uniform, b, positions, options, want))(t)
	_, _, err = drain(w, nil)
	gametest.OK(t, err)
	w.Release()
	w = gametest.Must(Search(nil, b, positions, options, got))(t)
	batches, _, err := drain(w, even)
	gametest.OK(t, err)
	done, all := w.Progress()
	w.Release()
	if batches == 0 || done != all || all != int64(len(positions)) {
		t.Errorf("%d batches, %d of %d positions", batches, done, all)
	}
	for i, p := range positions {
		row := func(f Found) []uint32 { return f.Visits[i*b.Actions() : (i+1)*b.Actions()] }
		if !slices.Equal(row(want), row(got)) || want.Best[i] != got.Best[i] || want.Proved[i] != got.Proved[i] {
			t.Errorf("row %d: visits %v, best %d; by an evaluator %v, %d", i, row(got), got.Best[i], row(want), want.Best[i])
		}
		if over := b.Result(p) != game.Ongoing; over != (got.Best[i] < 0) {
			t.Errorf("row %d: best is %d, over %v", i, got.Best[i], over)
		}
		if testing.Short() && i%10 > 0 {
			continue
		}
		alone := found(b, 1)
		w := gametest.Must(Search(uniform, b, positions[i:i+1], options, alone))(t)
		_, _, err := drain(w, nil)
		gametest.OK(t, err)
		w.Release()
		if !slices.Equal(alone.Visits, row(want)) {
			t.Errorf("row %d alone: visits %v, want %v", i, alone.Visits, row(want))
		}
	}
}

// A call that is released early ends, whatever it waits for, and writes no more; so does one whose function fails.
func TestRelease(t *testing.T) {
	_, b, err := Board("7x6x4")
	gametest.OK(t, err)
	positions := make([]game.Position, 400)
	for batches := range 4 {
		for range 10 {
			f := found(b, len(positions))
			w := gametest.Must(Search(nil, b, positions, `{"visits":100,"batch":64,"exact":false}`, f))(t)
			for range batches {
				r, err := w.Wait(time.Minute)
				gametest.OK(t, err)
				if r.Event == Asked {
					r.Ask.Use(even)
					gametest.OK(t, r.Ask.Answer(nil))
				}
			}
			w.Release()
			kept := slices.Clone(f.Visits)
			if !slices.Equal(kept, f.Visits) {
				t.Error("memory is written to after Release")
			}
		}
	}
	w := gametest.Must(Play(nil, b, `{"games":100000,"visits":4}`, nil))(t)
	r := gametest.Must(w.Wait(time.Minute))(t)
	if r.Event != Asked || r.Ask.Answer(errors.New("no more memory")) == nil {
		t.Errorf("event %v", r.Event)
	}
	if _, _, err := drain(w, even); err == nil || !strings.Contains(err.Error(), "no more memory") {
		t.Errorf("the function's error became %v", err)
	}
	w.Release()
}

// What a function answers is checked: numbers from 0, and something of each row.
func TestAnswers(t *testing.T) {
	_, b, err := Board("4x4x3")
	gametest.OK(t, err)
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		wdl    [3]float32
		policy [4]float32
		says   string
	}{
		{[3]float32{1, 0, 0}, [4]float32{1, 2, 3, 4}, ""},
		{[3]float32{1, 1, 2}, [4]float32{}, ""},
		{[3]float32{0, 0, 0}, [4]float32{1, 1, 1, 1}, "all three"},
		{[3]float32{nan, 0, 1}, [4]float32{1, 1, 1, 1}, "answers win with the value NaN"},
		{[3]float32{0, -1, 1}, [4]float32{1, 1, 1, 1}, "answers draw with the value -1"},
		{[3]float32{0, 0, inf}, [4]float32{1, 1, 1, 1}, "answers loss with the value +Inf"},
		{[3]float32{0, 0, 1}, [4]float32{1, nan, 1, 1}, "answers move 2 with the probability NaN"},
	} {
		f := found(b, 1)
		w := gametest.Must(Search(nil, b, make([]game.Position, 1), `{"visits":9,"exact":false}`, f))(t)
		_, _, err := drain(w, func(batch *eval.Batch) {
			for i := range batch.Pos {
				copy(batch.WDLRow(i), c.wdl[:])
				copy(batch.PolicyRow(i), c.policy[:])
			}
		})
		w.Release()
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v, %v: %v, want %q", c.wdl, c.policy, err, c.says)
		}
		if err == nil && f.Visits[0]+f.Visits[1]+f.Visits[2]+f.Visits[3] < 8 {
			t.Errorf("%v, %v: visits %v", c.wdl, c.policy, f.Visits)
		}
	}
}

// An evaluator is closed once its calls have ended, and has an error of its own from then on.
func TestClose(t *testing.T) {
	_, b, err := Board("7x6x4")
	gametest.OK(t, err)
	e := gametest.Must(Open(`{"backend":"bitsquares"}`))(t)
	ask := func() error {
		return e.Evaluate(t.Context(), b, make([]game.Position, 3), false, make([]float32, 9), make([]float32, 21), make([]uint8, 3))
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for ask() == nil {
			}
		})
	}
	gametest.OK(t, ask())
	gametest.OK(t, e.Close())
	all.Wait()
	if err := ask(); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if _, err := Search(e, b, nil, `{}`, Found{}); !errors.Is(err, ErrClosed) {
		t.Errorf("a search after Close: %v", err)
	}
	gametest.OK(t, e.Close())
}

// Cells and FromCells are each other's reverse, on boards of every kind, and Step plays as the board does.
func TestPositions(t *testing.T) {
	for _, rules := range []string{"7x6x4", "4x4x3", "3x3x3free", "12x9x5", "11x10x6"} {
		number, b, err := Board(rules)
		gametest.OK(t, err)
		if again, _, _ := Board(rules); again != number {
			t.Errorf("%s has the numbers %d and %d", rules, number, again)
		}
		positions := gametest.Positions(gametest.Rand(2), b, 300, true)
		cells, back := make([]int8, len(positions)*b.Cells()), make([]game.Position, len(positions))
		Cells(b, positions, cells)
		gametest.OK(t, FromCells(b, cells, false, back))
		if !slices.Equal(back, positions) {
			t.Errorf("%s: cells of sides give other positions", rules)
		}
		for i, p := range positions { // players in place of sides
			for k, c := range cells[i*b.Cells() : (i+1)*b.Cells()] {
				if c != 0 {
					cells[i*b.Cells()+k] = int8(1 + (p.Plies()+(1-int(c))/2)%2)
				}
			}
		}
		gametest.OK(t, FromCells(b, cells, true, back))
		if !slices.Equal(back, positions) {
			t.Errorf("%s: cells of players give other positions", rules)
		}
		mask, results := make([]uint8, len(positions)*b.Actions()), make([]int8, len(positions))
		Legal(b, positions, mask)
		Results(b, positions, results)
		for i, p := range positions {
			for a := range b.Actions() {
				one, reward, done := []game.Position{p}, make([]float32, 1), make([]uint8, 1)
				err := Step(b, one, []int64{int64(a)}, reward, done, false)
				legal := b.Result(p) == game.Ongoing && b.CanPlay(p, a)
				if (err == nil) != legal || (mask[i*b.Actions()+a] == 1) != legal || (results[i] == 2) != (b.Result(p) == game.Ongoing) {
					t.Fatalf("%s, position %d, action %d: %v, mask %d, legal %v", rules, i, a, err, mask[i*b.Actions()+a], legal)
				}
				if !legal {
					if one[0] != p {
						t.Errorf("%s: a refused step played", rules)
					}
					continue
				}
				next := b.Play(p, a)
				over := b.Result(next)
				if one[0] != next || (done[0] == 1) != (over != game.Ongoing) || (reward[0] == 1) != (over == game.Loss) {
					t.Fatalf("%s, position %d, action %d: %v, reward %v, done %d; want %v, %v", rules, i, a, one[0], reward, done, next, over)
				}
			}
		}
	}
}

// Options that are wrong or unknown are errors that name them.
func TestOptions(t *testing.T) {
	_, b, err := Board("7x6x4")
	gametest.OK(t, err)
	for options, says := range map[string]string{
		`{"visits":0}`: "visits is 0", `{"visits":2e9}`: "visits", `{"selection":"x"}`: `selection is "x"`, `{"batch":0}`: "batch is 0",
		`{"leaves":0}`: "leaves is 0", `{"explore":-1}`: "explore is -1", `{"depth":3}`: "depth", `{`: "options of the search",
	} {
		if _, err := Search(nil, b, nil, options, Found{}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", options, err, says)
		}
	}
	uniform := gametest.Must(Open(`{"backend":"uniform"}`))(t)
	for _, options := range []string{`{"visits":1}`, `{"exact":9,"lookahead":false}`, `{"reuse":true,"selection":"gumbel"}`} {
		if _, err := Play(uniform, b, options, nil); err == nil {
			t.Errorf("self-play of an evaluator with %s has no error", options)
		}
	}
	gametest.OK(t, uniform.Close()) // no call uses it
	for _, options := range []string{`{"games":-1}`, `{"visits":1}`, `{"first":-1}`, `{"nothing":1}`} {
		if _, err := Play(nil, b, options, nil); err == nil {
			t.Errorf("self-play with %s has no error", options)
		}
	}
	if _, err := Solve(b, nil, `{"threads":-1}`, nil); err == nil {
		t.Error("threads below 0 are no error")
	}
	if _, err := BoardOf(1 << 20); err == nil {
		t.Error("the number of a board that was never made is no error")
	}
}

// BenchmarkOne is what an answer to one position takes, without Python.
func BenchmarkOne(b *testing.B) {
	_, board, err := Board("7x6x4")
	if err != nil {
		b.Fatal(err)
	}
	for _, backend := range []string{"uniform", "bitsquares"} {
		e, err := Open(`{"backend":"` + backend + `"}`)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = e.Close() })
		positions, wdl, policy, who := make([]game.Position, 1), make([]float32, 3), make([]float32, board.Actions()), make([]uint8, 1)
		texts := []string{"4453"}
		b.Run(backend, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := errors.Join(Parse(board, texts, positions), e.Evaluate(b.Context(), board, positions, false, wdl, policy, who)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkMany is the rate of Go for 256 positions a call, which Python's should reach.
func BenchmarkMany(b *testing.B) {
	board := game.MustBoard(game.Connect4)
	positions := gametest.Positions(gametest.Rand(1), board, 256, true)
	for _, options := range []string{`{"model":"default","backend":"cpu"}`, `{"model":"default-fast"}`, `{"backend":"bitsquares"}`} {
		e, err := Open(options)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = e.Close() })
		n := len(positions)
		wdl, policy, who := make([]float32, 3*n), make([]float32, n*board.Actions()), make([]uint8, n)
		b.Run(options, func(b *testing.B) {
			for b.Loop() {
				if err := e.Evaluate(b.Context(), board, positions, false, wdl, policy, who); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "positions/s")
		})
	}
}

// Games in the order of their numbers are those of any order, also if so few may wait for an earlier
// one that seats stay empty.
func TestGamesInOrder(t *testing.T) {
	_, b, err := Board("5x4x4")
	gametest.OK(t, err)
	uniform := gametest.Must(Open(`{"backend":"uniform"}`))(t)
	defer uniform.Close()
	const options = `"games":40,"first":7,"visits":4,"fast_visits":4,"parallel":8`
	w := gametest.Must(Play(uniform, b, "{"+options+"}", nil))(t)
	_, games, err := drain(w, nil)
	gametest.OK(t, err)
	w.Release()
	byNumber := func(x, y *selfplay.Game) int { return x.Number - y.Number }
	if slices.IsSortedFunc(games, byNumber) {
		t.Fatal("the games end in order by chance: change the options")
	}
	slices.SortFunc(games, byNumber)
	o := GameOptions{Config: selfplay.DefaultConfig(), Order: "number"}
	o.Details = true
	o.OpeningPlies, o.TemperaturePlies = selfplay.PliesFor(b)
	gametest.OK(t, decode("{"+options+"}", &o))
	o.Rules, o.Config.Parallel, o.Config.Batch = "5x4x4", o.Parallel, 4
	for _, most := range []int{1, 3, 8, gamesOpen * o.Parallel} {
		var got []*selfplay.Game
		gametest.OK(t, inOrder(t.Context(), []selfplay.Member{{Evaluator: uniform.evaluator}}, o, most, func(g *selfplay.Game) error {
			got = append(got, g)
			return nil
		}))
		if diff := cmp.Diff(games, got); diff != "" {
			t.Errorf("at most %d games open (-want +got):\n%s", most, diff)
		}
	}
}
