package solver

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

// probeBoards are the boards of gametest and one more; the keys of 8x7 need all 64 bits.
func probeBoards() []*game.Board {
	return append(gametest.Boards(), game.MustBoard(game.Rules{Rows: 8, Columns: 8, InARow: 4, Gravity: true}))
}

// What a probe finds is right, with the moves; a mirror image has the mirrored answer; and neither order nor company changes
// an answer. EVALD_SOAK makes it a million positions within its time.
func TestProbe(t *testing.T) {
	soak, each := gametest.SoakTime(t, 0), 40
	if testing.Short() { // the race detector looks at what several goroutines do, which a few positions show
		each = 4
	}
	for seed, b := range probeBoards() {
		t.Run(b.Rules().String(), func(t *testing.T) {
			random, began, count, found, left, open := gametest.Rand(uint64(seed)), time.Now(), 0, 0, 0, 0
			probers := []*Prober{gametest.Must(NewProber(b, 1000))(t), gametest.Must(NewProber(b, 30_000))(t)}
			full := mustNew(t, b, Options{TableMiB: 16, Bounded: true})
			most, low, high := uint64(100_000), make([]int32, b.Actions()), make([]int32, b.Actions())
			if soak > 0 {
				most = 10_000_000
			}
			for count == 0 || time.Since(began) < soak/time.Duration(len(probeBoards())) {
				positions := gametest.Open(random, b, each)
				for range each {
					positions = append(positions, careful(random, b, random.IntN(b.Cells())))
				}
				for _, prober := range probers {
					answers := make([]probeAnswer, len(positions))
					for i, p := range positions {
						answers[i] = ask(t, prober, p)
						mirrored := ask(t, prober, b.Mirror(p))
						for _, moves := range []*game.Bits{&mirrored.moves, &mirrored.draw, &mirrored.lose} {
							*moves = b.Mirror(game.Position{Own: *moves, All: *moves}).All
						}
						if mirrored != answers[i] {
							t.Errorf("%+v is %v, its mirror image %v", p, answers[i], mirrored)
						}
					}
					var others sync.WaitGroup
					for k := range 3 {
						others.Go(func() {
							for _, i := range gametest.Rand(uint64(k)).Perm(len(positions)) {
								if again := ask(t, prober, positions[i]); again != answers[i] {
									t.Errorf("%+v is %v, in other company %v", positions[i], answers[i], again)
								}
							}
						})
					}
					others.Wait()
					if testing.Short() { // one goroutine compares with the solver, for most of the time
						count += len(positions)
						continue
					}
					for i, p := range positions {
						count++
						if answers[i].result == game.Ongoing && answers[i].away == game.Ongoing {
							continue
						}
						found++
						left += answers[i].draw.OnesCount() + answers[i].lose.OnesCount()
						gametest.Must(full.Bounds(t.Context(), p, most, low, high))(t)
						if !answers[i].right(b, p, low, high) {
							t.Errorf("%+v is %v, but its moves have %v to %v", p, answers[i], low, high)
						}
						if !slices.Equal(low, high) {
							open++
						}
					}
				}
			}
			t.Logf("%d positions, %d of them found, with %d moves that give the result away; %d open within %d nodes", count, found, left, open, most)
			if left < found/20 {
				t.Error("too few such moves")
			}
		})
	}
}

// careful returns a position after this number of moves, or fewer, of which none loses to the next stone.
func careful(random *rand.Rand, b *game.Board, plies int) (p game.Position) {
	for range plies {
		safe := b.Safe(p)
		if !b.Wins(p).IsZero() || safe.OnesCount() < 2 {
			break
		}
		for range random.IntN(safe.OnesCount()) {
			safe = safe.WithoutFirst()
		}
		p = b.PlayCell(p, safe.LowBit())
	}
	return p
}

// probeAnswer is what Moves and Away find.
type probeAnswer struct {
	result, away      game.Result
	moves, draw, lose game.Bits
}

// ask asks for the whole answer, except results that are known without a probe, which takes millions of nodes to check here (the test of book.Results does).
// Probe has to agree with Moves.
func ask(t *testing.T, prober *Prober, p game.Position) (a probeAnswer) {
	a.result, a.moves = prober.Moves(p, false)
	if r := prober.Probe(p); r != a.result {
		t.Errorf("%+v is a %v by Probe, a %v by Moves", p, r, a.result)
	}
	if prober.Known(p) == game.Ongoing {
		a.away, a.draw, a.lose = prober.Away(context.Background(), p)
	}
	return a
}

// right reports whether an answer can be true if the moves' scores are within low and high.
func (a probeAnswer) right(b *game.Board, p game.Position, low, high []int32) bool {
	sign := func(x int32) int32 { return min(max(x, -1), 1) }
	all, least, most := b.Legal(p), int32(-1), int32(-1)
	for action := range b.Actions() {
		if !b.CanPlay(p, action) {
			continue
		}
		cell, from, to := b.Cell(p, action), sign(low[action]), sign(high[action])
		in := func(moves game.Bits) bool { return !cell.And(moves).IsZero() }
		if in(a.moves) && to < int32(a.result.Value()) || in(a.draw) && (from > 0 || to < 0) || in(a.lose) && from >= 0 {
			return false
		}
		least, most = max(least, from), max(most, to)
	}
	for _, r := range []game.Result{a.result, a.away} {
		if v := int32(r.Value()); r != game.Ongoing && (v < least || v > most) {
			return false
		}
	}
	if a.away == game.Win {
		return a.draw.Or(a.lose) != all
	}
	return a.draw.IsZero() && (a.lose.IsZero() || a.away == game.Draw && a.lose != all)
}

// Choose returns the first action that keeps the result if the nodes suffice. If they do not, it passes over an action only if that gives
// the result away, or if the action that it returns keeps it. All its probes together stay within the bound.
func TestChoose(t *testing.T) {
	gametest.OneGoroutine(t)
	first, later, unproved := 0, 0, 0 // what is chosen with few nodes
	for seed, b := range append(gametest.Boards()[:4], game.MustBoard(game.Rules{Rows: 5, Columns: 5, InARow: 4, Gravity: true})) {
		t.Run(b.Rules().String(), func(t *testing.T) {
			random := gametest.Rand(uint64(seed))
			few, many := gametest.Must(NewProber(b, 100))(t), gametest.Must(NewProber(b, MoveNodes))(t)
			full := mustNew(t, b, Options{TableMiB: 16, Bounded: true})
			low, high := make([]int32, b.Actions()), make([]int32, b.Actions())
			for count := 0; count < 200; {
				p := careful(random, b, random.IntN(b.Cells()))
				if b.Result(p) != game.Ongoing || many.Known(p) != game.Ongoing {
					continue
				}
				gametest.Must(full.Bounds(t.Context(), p, 20_000, low, high))(t)
				var actions []int
				keeps, best, closed := map[int]bool{}, int32(-1), true
				for a := range b.Actions() {
					if b.CanPlay(p, a) {
						actions = append(actions, a)
						best = max(best, low[a])
						closed = closed && low[a] == high[a]
					}
				}
				if count++; !closed {
					continue
				}
				for _, a := range actions {
					keeps[a] = min(low[a], 1) == min(best, 1) || best < 0
				}
				random.Shuffle(len(actions), func(i, j int) { actions[i], actions[j] = actions[j], actions[i] })
				want := actions[slices.IndexFunc(actions, func(a int) bool { return keeps[a] })]
				if got := many.Choose(p, actions); got != want && many.Worth(p) {
					t.Errorf("%+v, %v: %d, but %d keeps the result", p, actions, got, want)
				}
				got := few.Choose(p, actions)
				switch {
				case got == actions[0]:
					first++
				case keeps[got]:
					later++
				default:
					unproved++
				}
				for _, a := range actions[:slices.Index(actions, got)] {
					if keeps[a] && !keeps[got] {
						t.Errorf("%+v, %v with few nodes: %d, which gives the result away, and %d keeps it", p, actions, got, a)
					}
				}
			}
		})
	}
	if first < 100 || later < 100 || unproved == 0 {
		t.Errorf("with few nodes %d times the first action, %d times a later one that keeps the result, %d times one that does not", first, later, unproved)
	}
}

// Probes that share a bound spend no more nodes than it has.
func TestSharedNodes(t *testing.T) {
	const bound, late = 5000, 64                                                                     // a probe may end some nodes late
	for _, b := range []*game.Board{game.MustBoard(game.Connect4), game.MustBoard(game.TicTacToe)} { // a solver each
		s := sharing{Prober: gametest.Must(NewProber(b, bound))(t), ctx: t.Context()}
		for _, p := range gametest.Open(gametest.Rand(1), b, 1000) {
			s.find(p, -1, 1)
		}
		if spent := int64(s.probe.solver.prover.nodes() - s.last + bound); spent < bound || spent > bound+late {
			t.Errorf("%v: %d nodes, want %d", b.Rules(), spent, bound)
		}
		s.end()
	}
}

func TestNodes(t *testing.T) {
	for text, want := range map[string]Nodes{"": ProbeNodes, "true": ProbeNodes, "false": NoProbes, "0": NoProbes, "1": 1, "100000": MostNodes} {
		var n, again Nodes
		if err := n.UnmarshalText([]byte(text)); err != nil || n != want {
			t.Errorf("%q is %v, %v, want %v", text, n, err, want)
		}
		if err := again.UnmarshalText([]byte(n.String())); err != nil || again != n {
			t.Errorf("%v is read again as %v, %v", n, again, err)
		}
	}
	for _, text := range []string{"-1", "100001", "yes", "1.5", "99999999999999999999"} {
		if n := new(Nodes); n.UnmarshalText([]byte(text)) == nil {
			t.Errorf("%q is %v", text, *n)
		}
	}
	for k := Nodes(1); k < 3*mostProbers; k++ { // also while all are made anew
		b := game.MustBoard(game.Rules{Rows: 4, Columns: 4, InARow: 4, Gravity: k%2 == 0})
		if p := k.For(b); p != k.For(b) || p.nodes != uint64(k) || p.board.Rules() != b.Rules() || len(probers.made) > mostProbers {
			t.Errorf("%d nodes on %v: %+v", k, b.Rules(), p)
		}
	}
	if b := game.MustBoard(game.Connect4); NoProbes.For(b) != nil || Nodes(0).For(b) != nil {
		t.Error("no nodes have a prober")
	}
}

func TestProbeAllocates(t *testing.T) {
	if gametest.Race {
		t.Skip("the race detector allocates")
	}
	for _, b := range probeBoards() {
		prober := gametest.Must(NewProber(b, 1000))(t)
		positions := gametest.Open(gametest.Rand(1), b, 50)
		if n := testing.AllocsPerRun(5, func() {
			for _, p := range positions {
				prober.Moves(p, true)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", b.Rules(), n)
		}
	}
}

func BenchmarkProbe(bench *testing.B) {
	b := game.MustBoard(game.Connect4)
	prober := gametest.Must(NewProber(b, 1000))(bench)
	positions := gametest.Open(gametest.Rand(1), b, 1000)
	for i := 0; bench.Loop(); i++ {
		prober.Probe(positions[i%len(positions)])
	}
}

// Once its context has ended, Away begins no probe.
func TestAwayEnded(t *testing.T) {
	b := game.MustBoard(game.Connect4)
	p := b.PlayMoves([]int{3, 3, 3, 3, 3, 1, 2, 4, 4, 4, 1, 1, 5})
	prober := gametest.Must(NewProber(b, 200_000))(t)
	if result, _, _ := prober.Away(t.Context(), p); result == game.Ongoing {
		t.Fatal("the position takes more nodes than the test gives")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if result, draw, lose := prober.Away(ctx, p); result != game.Ongoing || !draw.IsZero() || !lose.IsZero() {
		t.Errorf("found %v, %v, %v after the end of the context", result, draw, lose)
	}
}

// ending is a context that ends at the given number of calls of Err.
type ending struct {
	context.Context
	calls, at int
}

func (e *ending) Err() error {
	if e.calls++; e.calls < e.at {
		return nil
	}
	return context.Canceled
}

// A context that ends during a probe stops it at the next poll, so that nobody waits for all of its nodes. Later probes
// find what they found before.
func TestAwayStops(t *testing.T) {
	b := game.MustBoard(game.Connect4)
	p := b.PlayMoves([]int{3, 3, 3, 3, 3, 1, 2, 4, 4, 4, 1, 1, 5})
	prober := gametest.Must(NewProber(b, 200_000))(t)
	whole := ending{Context: t.Context(), at: math.MaxInt}
	result, draw, lose := prober.Away(&whole, p)
	if result == game.Ongoing {
		t.Fatal("the position takes more nodes than the test gives")
	}
	soon := ending{Context: t.Context(), at: 10}
	if r, d, l := prober.Away(&soon, p); r != result || !d.AndNot(draw).IsZero() || !l.AndNot(lose).IsZero() {
		t.Errorf("found %v, %v, %v, which is no part of %v, %v, %v", r, d, l, result, draw, lose)
	}
	if most := soon.at + 1 + b.Actions(); whole.calls < 2*most || soon.calls > most { // each move asks once more
		t.Errorf("asked a context that ends at the call %d %d times, and one that does not end %d times", soon.at, soon.calls, whole.calls)
	}
	if r, d, l := prober.Away(t.Context(), p); r != result || d != draw || l != lose {
		t.Errorf("after a probe was stopped: %v, %v, %v, want %v, %v, %v", r, d, l, result, draw, lose)
	}
}

// Only finds the only move that keeps the result, and says that there is one in no other position; mirror images have the mirrored move.
func TestOnly(t *testing.T) {
	gametest.OneGoroutine(t)
	b := game.MustBoard(game.Rules{Rows: 5, Columns: 5, InARow: 4, Gravity: true})
	prober, few := gametest.Must(NewProber(b, 1<<20))(t), gametest.Must(NewProber(b, 300))(t)
	full := mustNew(t, b, Options{})
	random, found, proved := gametest.Rand(3), 0, 0
	for range 300 {
		p := careful(random, b, 6+random.IntN(12))
		if b.Result(p) != game.Ongoing || !prober.Worth(p) {
			continue
		}
		scores, best, err := full.Scores(t.Context(), p)
		gametest.OK(t, err)
		var keep game.Bits
		for a, score := range scores {
			if score != NoMove && game.ResultOf(score) == game.ResultOf(best.Score) {
				keep = keep.Or(b.Cell(p, a))
			}
		}
		want := keep
		if keep.OnesCount() != 1 || best.Score < 0 {
			want = game.Bits{}
		}
		result, only := prober.Only(t.Context(), p)
		_, mirrored := prober.Only(t.Context(), b.Mirror(p))
		if b.Mirror(p) != p && (only != want || b.Mirror(game.Position{All: mirrored}).All != only) || result != game.ResultOf(best.Score) {
			t.Errorf("%+v: a %v with %v, mirrored %v, want %v with %v", p, result, only, mirrored, game.ResultOf(best.Score), want)
		}
		if !want.IsZero() {
			found++
		}
		if _, some := few.Only(t.Context(), p); !some.IsZero() && b.Mirror(p) != p {
			if proved++; some != want {
				t.Errorf("%+v: with few nodes %v, want %v", p, some, want)
			}
		}
	}
	if found < 20 || proved < 5 {
		t.Errorf("%d positions have one move, %d with few nodes", found, proved)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if result, only := prober.Only(ctx, careful(random, b, 8)); result != game.Ongoing || !only.IsZero() {
		t.Errorf("a context that has ended finds a %v with %v", result, only)
	}
}
