package eval_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/solver"
)

// minimax is a function for the results of a small board's positions, obviously right.
func minimax(b *game.Board) func(p game.Position) game.Result {
	seen := map[game.Position]game.Result{}
	var result func(p game.Position) game.Result
	result = func(p game.Position) game.Result {
		best, known := seen[p]
		if known {
			return best
		}
		if best = b.Result(p); best == game.Ongoing {
			best = game.Loss
			for l := b.Legal(p); !l.IsZero(); l = l.WithoutFirst() {
				best = min(best, result(b.PlayCell(p, l.LowBit())).Flip()) // Win < Draw < Loss
			}
		}
		seen[p] = best
		return best
	}
	return result
}

// late returns a position after this number of moves that do not lose at once, or after all such moves.
func late(r *rand.Rand, b *game.Board, plies int) (p game.Position) {
	for range plies {
		moves := b.Safe(p)
		if moves.IsZero() {
			break
		}
		p = b.PlayCell(p, moves.Nth(r.IntN(moves.OnesCount())))
	}
	return p
}

// Every row that is proved is right, and so is each of its moves: by minimax on small boards, by probes of a hundred times the
// nodes, as far as these find something, on others. All other rows are answered as they are without the exact step, bit for bit.
func TestExact(t *testing.T) {
	if gametest.Race {
		t.Skip("TestConformance proves in the same goroutines")
	}
	const nodes = 500
	for seed, b := range append(gametest.Boards(), game.MustBoard(game.Rules{Rows: 3, Columns: 5, InARow: 3, Gravity: true})) {
		random := gametest.Rand(uint64(seed))
		positions := gametest.Positions(random, b, 100, true)
		for range 600 {
			positions = append(positions, late(random, b, b.Cells()-random.IntN(14)))
		}
		truth, large := minimax(b), b.Cells() > 16
		if large {
			prober := gametest.Must(solver.NewProber(b, 100*nodes))(t)
			truth = func(p game.Position) game.Result {
				if r := b.Result(p); r != game.Ongoing {
					return r
				}
				return prober.Probe(p)
			}
		}
		plain, exact := eval.NewBatch(b, len(positions)), eval.NewBatch(b, len(positions))
		copy(plain.Pos, positions)
		copy(exact.Pos, positions)
		e := eval.New(&evaltest.Stub{Source: eval.CPU}, eval.Options{})
		gametest.OK(t, e.Evaluate(t.Context(), plain))
		gametest.OK(t, e.WithExact(eval.NewExact(nodes)).Evaluate(t.Context(), exact))
		count, checked := 0, 0
		for i, p := range positions {
			if exact.Source[i] != eval.Solved {
				if exact.Source[i] != plain.Source[i] || !slices.Equal(exact.WDLRow(i), plain.WDLRow(i)) || !slices.Equal(exact.PolicyRow(i), plain.PolicyRow(i)) {
					t.Errorf("%v %+v: %v by %s, without the exact step %v by %s", b.Rules(), p, exact.WDLRow(i), exact.Source[i], plain.WDLRow(i), plain.Source[i])
				}
				continue
			}
			count++
			if plain.Source[i] != eval.CPU && plain.Source[i] != eval.Forced {
				t.Errorf("%v %+v: is the rules' to answer, and proved", b.Rules(), p)
			}
			result := truth(p)
			if result != game.Ongoing {
				if checked++; result.WDL() != [3]float32(exact.WDLRow(i)) {
					t.Errorf("%v %+v: %v, is a %v", b.Rules(), p, exact.WDLRow(i), result)
				}
			}
			moves := 0
			for a, x := range exact.PolicyRow(i) {
				if x == 0 {
					continue
				}
				moves++
				after := truth(b.Play(p, a))
				if known := after != game.Ongoing && result != game.Ongoing; known && after != result.Flip() || x != slices.Max(exact.PolicyRow(i)) {
					t.Errorf("%v %+v: a %v, the policy is %v, and move %d leads to a %v", b.Rules(), p, result, exact.PolicyRow(i), a, after)
				}
			}
			if sum := float32(moves) * slices.Max(exact.PolicyRow(i)); sum < 0.9999 || sum > 1.0001 {
				t.Errorf("%v %+v: the policy is %v", b.Rules(), p, exact.PolicyRow(i))
			}
		}
		t.Logf("%v: %d of %d rows proved, %d checked", b.Rules(), count, len(positions), checked)
		least := 10
		if b.Cells() == 100 {
			least = 0 // a random game on 10x10 is won long before anything is proved
		}
		if checked < least || 2*checked < count || !large && checked < count {
			t.Errorf("%v: %d of %d proved rows were checked: too few to tell", b.Rules(), checked, count)
		}
	}
}

// What the exact step proves agrees with scores of others.
func TestExactTruth(t *testing.T) {
	for file, least := range map[string]int{
		"pons/Test_L3_R1": 500, "pons/Test_L2_R1": 500, "pons/Test_L2_R2_first500": 100, "pons/Test_L1_R1": 0,
		"sizes/9x5x4_endgame_L1": 500, "sizes/9x5x4_midgame_L1": 100,
	} {
		if testing.Short() && file != "pons/Test_L3_R1" { // the race detector finds nothing more in the others
			continue
		}
		var parser game.Parser
		var b *eval.Batch
		var want []game.Result
		for i, line := range gametest.DataLines(t, file) {
			moves, score, _ := strings.Cut(line, " ")
			state := gametest.Must(parser.Parse(moves))(t)
			if i == 0 {
				b = eval.NewBatch(state.Board, 0)
			}
			b.Pos = append(b.Pos, state.Position)
			n := gametest.Must(strconv.Atoi(score))(t)
			want = append(want, [...]game.Result{game.Loss, game.Draw, game.Win}[1+max(-1, min(n, 1))])
		}
		b.Reset(b.Board, len(b.Pos))
		gametest.OK(t, eval.New(constant{}, eval.Options{Exact: eval.NewExact(solver.ProbeNodes)}).Evaluate(t.Context(), b))
		proved := 0
		for i, result := range want {
			if b.Source[i] != eval.Solved {
				continue
			}
			if proved++; [3]float32(b.WDLRow(i)) != result.WDL() {
				t.Errorf("%s: row %d is %v, want a %v", file, i, b.WDLRow(i), result)
			}
		}
		if t.Logf("%s: %d of %d rows proved", file, proved, len(want)); proved < least {
			t.Errorf("%s: %d rows proved, want %d or more", file, proved, least)
		}
	}
}

// proves is a backend that finds a result of every row, and a move of every other one.
type proves struct{ constant }

func (proves) Compute(_ context.Context, b *eval.Batch) error {
	for i, p := range b.Pos {
		copy(b.WDLRow(i), []float32{0, 1, 0})
		if clear(b.PolicyRow(i)); p.Plies()&1 == 1 {
			b.SharePolicy(i, b.Board.Legal(p).LowBit())
		}
		b.Source[i] = eval.Solved
	}
	return nil
}

// A result without a move leaves the row to the backend, unless the rules force the move. A search that looks at the rules by
// itself, raw rows and finished games are as they were, and if the step fails, so does the batch.
func TestExactSteps(t *testing.T) {
	stub := &evaltest.Stub{Source: eval.CPU}
	for _, test := range []struct {
		moves      string
		want, leaf eval.Source
	}{
		{"-", eval.CPU, eval.CPU},
		{"44", eval.CPU, eval.CPU},
		{"444", eval.Solved, eval.CPU},
		{"1122", eval.CPU, eval.CPU},
		{"112233", eval.Rules, eval.CPU},
		{"11223", eval.Solved, eval.CPU},
		{"1122334", eval.Terminal, eval.None},
	} {
		b, e := batch(at(t, test.moves)), eval.New(stub, eval.Options{Exact: proves{}})
		gametest.OK(t, e.Evaluate(t.Context(), b))
		if b.Source[0] != test.want {
			t.Errorf("%s: source %s, want %s", test.moves, b.Source[0], test.want)
		}
		if test.leaf != eval.None {
			if gametest.OK(t, e.Leaves(t.Context(), b)); b.Source[0] != test.leaf {
				t.Errorf("%s: a leaf has source %s, want %s", test.moves, b.Source[0], test.leaf)
			}
		}
	}
	broken := errors.New("out of memory")
	failing := &evaltest.Stub{Before: func(context.Context, *eval.Batch) error { return broken }}
	if err := eval.New(stub, eval.Options{Exact: failing}).Evaluate(t.Context(), batch(at(t, "-"))); !errors.Is(err, broken) {
		t.Errorf("error %v, want %v", err, broken)
	}
}

// ending is a context that ends when it was looked at a number of times.
type ending struct {
	context.Context
	looks atomic.Int32
}

func (c *ending) Err() error {
	if c.looks.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

// No row is probed after the context has ended.
func TestExactEnds(t *testing.T) {
	ctx := &ending{Context: t.Context()}
	ctx.looks.Store(50)
	b := batch(gametest.Open(gametest.Rand(1), board, 200)...)
	for i := range b.Source {
		b.Source[i] = "untouched"
	}
	err := eval.NewExact(100).Compute(ctx, b)
	if left := strings.Count(strings.Join(names(b.Source), " "), "untouched"); !errors.Is(err, context.Canceled) || left != 150 {
		t.Errorf("%v, and %d of 200 rows were not probed, want 150", err, left)
	}
}

func names(sources []eval.Source) (all []string) {
	for _, s := range sources {
		all = append(all, string(s))
	}
	return all
}

func TestExactAllocates(t *testing.T) {
	if gametest.Race {
		t.Skip("the race detector allocates")
	}
	b, e := batch(gametest.Open(gametest.Rand(1), board, 256)...), eval.New(constant{}, eval.Options{Exact: eval.NewExact(100)})
	if n := testing.AllocsPerRun(20, func() { gametest.OK(t, e.Evaluate(t.Context(), b)) }); n > 0 {
		t.Errorf("%v allocations a batch", n)
	}
}
