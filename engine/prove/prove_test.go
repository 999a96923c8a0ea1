package prove

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/durable/durabletest"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/record/recordtest"
)

func board(t testing.TB, rules string) *game.Board {
	return game.MustBoard(gametest.Must(game.ParseRules(rules))(t))
}

func at(t testing.TB, b *game.Board, moves string) game.Position {
	p, _, err := b.ParseMoves(moves)
	gametest.OK(t, err)
	return p
}

// newAgent is the agent of a spec, or a hand-made one.
func newAgent(t testing.TB, text string) (a agent.Agent, symmetric bool) {
	switch text {
	case "lowest":
		return lowest{}, false
	case "careless":
		a, _ = newAgent(t, "solver")
		return careless{a}, false
	}
	s := gametest.Must(agent.Parse(text))(t)
	gametest.OK(t, s.Deterministic())
	return gametest.Must(agent.New(s, agent.Shared{}))(t), s.Symmetric()
}

// lowest plays the first legal move.
type lowest struct{}

func (lowest) Move(_ context.Context, b *game.Board, p game.Position) (int, error) {
	return b.Action(b.Legal(p).First()), nil
}

// careless is perfect on tic-tac-toe, but answers the centre by an edge.
type careless struct{ agent.Agent }

func (c careless) Move(ctx context.Context, b *game.Board, p game.Position) (int, error) {
	if p.Plies() == 1 && b.Cell(p, 4).IsZero() {
		return 1, nil
	}
	return c.Agent.Move(ctx, b, p)
}

func options(t testing.TB, b *game.Board, text string, memory int64) Options {
	o := Options{Board: b, Memory: memory}
	for range 2 {
		a, symmetric := newAgent(t, text)
		o.Agents, o.Symmetric = append(o.Agents, a), symmetric
	}
	return o
}

// slow plays all games one after the other.
type slow struct {
	t        testing.TB
	b        *game.Board
	agent    agent.Agent
	key      func(game.Position) game.Position
	start    game.Position
	known    map[game.Position]int // by minimax
	seen     [2]map[game.Position]bool
	layers   []map[game.Position]Layer
	mistakes map[game.Position]bool // the first of a path
	later    int                    // mistakes after others
}

// results are what minimax has found, by board, for all tests.
var results = map[game.Rules]map[game.Position]int{}

func newSlow(t testing.TB, b *game.Board, text string, start game.Position) *slow {
	if results[b.Rules()] == nil {
		results[b.Rules()] = map[game.Position]int{}
	}
	s := &slow{t: t, b: b, start: start, known: results[b.Rules()], layers: make([]map[game.Position]Layer, b.Cells()+1), mistakes: map[game.Position]bool{}}
	symmetric := false
	s.agent, symmetric = newAgent(t, text)
	s.key = func(p game.Position) game.Position {
		if symmetric {
			p, _ = b.Canonical(p)
		}
		return p
	}
	for i := range s.layers {
		s.layers[i] = map[game.Position]Layer{}
	}
	for i := range s.seen {
		s.seen[i] = map[game.Position]bool{}
	}
	s.play(start, false)
	s.play(start, true)
	return s
}

// minimax is the result for the side to move. It ends at the first move that wins.
func (s *slow) minimax(p game.Position) int {
	if r := s.b.Result(p); r != game.Ongoing {
		return int(r.Value())
	}
	if z, ok := s.known[p]; ok {
		return z
	}
	best := -1
	for a := range s.b.Actions() {
		if best < 1 && s.b.CanPlay(p, a) {
			best = max(best, -s.minimax(s.b.Play(p, a)))
		}
	}
	s.known[p] = best
	return best
}

func (s *slow) count(p game.Position, sign int) {
	l := Layer{Positions: 1}
	switch sign * int(s.b.Result(p).Value()) {
	case 1:
		l = Layer{Ends: Ends{Won: 1}}
	case -1:
		l = Layer{Ends: Ends{Lost: 1}}
	default:
		if s.b.Result(p) == game.Draw {
			l = Layer{Ends: Ends{Drawn: 1}}
		}
	}
	s.layers[p.Plies()][s.key(p)] = l
}

// play plays on from a position in which the agent moves, and stops at mistakes or counts everything.
func (s *slow) play(p game.Position, stop bool) {
	i := map[bool]int{true: 1}[stop]
	if s.seen[i][p] {
		return
	}
	s.seen[i][p] = true
	s.count(p, 1)
	if s.b.Result(p) != game.Ongoing {
		return
	}
	next := s.b.Play(p, gametest.Must(s.agent.Move(s.t.Context(), s.b, p))(s.t))
	if target := s.minimax(s.start); s.minimax(p) >= target && -s.minimax(next) < target {
		if stop {
			s.mistakes[s.key(p)] = true
			return
		}
		s.later++
	}
	if s.b.Result(next) != game.Ongoing {
		s.count(next, -1)
		return
	}
	for a := range s.b.Actions() {
		if s.b.CanPlay(next, a) {
			s.play(s.b.Play(next, a), stop)
		}
	}
}

func (s *slow) report() *Report {
	r := &Report{Result: s.minimax(s.start), Held: len(s.mistakes) == 0, All: Layer{Stones: s.start.Plies()}}
	for stones, positions := range s.layers {
		sum := Layer{Stones: stones}
		for p, l := range positions {
			sum.Positions += l.Positions
			sum.add(l.Ends)
			if s.mistakes[p] {
				sum.Mistakes++
			}
		}
		if len(positions) > 0 {
			r.Layers = append(r.Layers, sum)
		}
		r.All.Positions, r.All.Mistakes = r.All.Positions+sum.Positions, r.All.Mistakes+sum.Mistakes
		r.All.add(sum.Ends)
	}
	return r
}

// recorded are the positions of a run's mistakes, and how many records follow them. All results must be exact.
func recorded(t *testing.T, s *slow, dir string) map[game.Position]bool {
	paths := gametest.Must(filepath.Glob(filepath.Join(dir, "mistakes-*.parquet")))(t)
	found := map[game.Position]bool{}
	if len(paths) == 0 {
		return found
	}
	for _, rec := range recordtest.Read(t, paths...) {
		if z := s.minimax(rec.Position); int(rec.Z) != z || rec.Source != eval.Solved {
			t.Errorf("%+v: the result is %d", rec, z)
		}
		if len(rec.Visits) > 0 {
			found[rec.Position] = true
		}
	}
	return found
}

// All is as by playing every game, for both sides, whatever the memory.
func TestRun(t *testing.T) {
	later, mistakes := 0, 0
	for _, rules := range []string{"5x4x4", "3x3x3free"} {
		b := board(t, rules)
		for _, text := range []string{"policy:model=bitsquares", "mcts:model=uniform,visits=4", "solver", "lowest"} {
			for _, start := range []game.Position{{}, b.Play(game.Position{}, 1)} {
				s := newSlow(t, b, text, start)
				memory := int64(1 << 12)
				if len(s.seen[0]) < 300 {
					memory = 1 // a run and a chunk for each position
				}
				dir := filepath.Join(t.TempDir(), "run")
				got := gametest.Must(Run(t.Context(), dir, start, options(t, b, text, memory)))(t)
				if text == "solver" { // of equal moves its choice is free
					if !got.Held || got.All.Mistakes != 0 || got.All.Positions == 0 || got.Result > 0 && got.All.Drawn > 0 || got.Result >= 0 && got.All.Lost > 0 {
						t.Errorf("%s, solver from %+v: %+v", rules, start, got)
					}
					continue
				}
				if diff := cmp.Diff(s.report(), got); diff != "" {
					t.Fatalf("%s, %s from %+v (-slow +run):\n%s", rules, text, start, diff)
				}
				if diff := cmp.Diff(s.mistakes, recorded(t, s, dir)); diff != "" {
					t.Errorf("%s, %s from %+v (-slow +records):\n%s", rules, text, start, diff)
				}
				o := options(t, b, text, memory)
				o.Agents = make([]agent.Agent, 2) // no agent is asked
				if again := gametest.Must(Run(t.Context(), dir, start, o))(t); !cmp.Equal(got, again) {
					t.Errorf("%s, %s, again:\n%s", rules, text, cmp.Diff(got, again))
				}
				later, mistakes = later+s.later, mistakes+len(s.mistakes)
			}
		}
	}
	if mistakes < 100 || later < mistakes+100 {
		t.Errorf("only %d first mistakes of %d", mistakes, later)
	}
}

// A sample has the requested number of positions of each layer, or all if there are fewer, with exact results.
func TestSample(t *testing.T) {
	b, text := board(t, "5x4x4"), "policy:model=bitsquares"
	s := newSlow(t, b, text, game.Position{})
	for _, n := range []int{1, 40, 1 << 20} {
		dir := filepath.Join(t.TempDir(), "run")
		o := options(t, b, text, 1<<12)
		o.Sample = n
		r := gametest.Must(Run(t.Context(), dir, game.Position{}, o))(t)
		layers := 0
		for _, l := range r.Layers {
			if l.Positions == 0 {
				continue
			}
			layers++
			found := map[game.Position]bool{}
			for _, rec := range recordtest.Read(t, filepath.Join(dir, fmt.Sprintf("sample-%02d.parquet", l.Stones))) {
				if len(rec.Visits) == 0 {
					continue // after a random move
				}
				if s.layers[l.Stones][rec.Position].Positions != 1 || found[rec.Position] || int(rec.Z) != s.minimax(rec.Position) {
					t.Fatalf("%d of %d stones: %+v is no position of the layer, or there already, or its result is %d", n, l.Stones, rec, s.minimax(rec.Position))
				}
				found[rec.Position] = true
			}
			if want := min(int64(n), l.Positions); int64(len(found)) != want {
				t.Errorf("%d of %d stones: %d positions, want %d", n, l.Stones, len(found), want)
			}
		}
		if files := gametest.Must(filepath.Glob(filepath.Join(dir, "sample-*")))(t); len(files) != layers || layers < 8 {
			t.Errorf("%d layers, files %q", layers, files)
		}
	}
}

// The one mistake of an agent is found, whether the run begins there or before.
func TestMistake(t *testing.T) {
	b := board(t, "3x3x3free")
	for moves, want := range map[string]int64{"5": 1, "1": 0} {
		dir := filepath.Join(t.TempDir(), "run")
		r := gametest.Must(Run(t.Context(), dir, at(t, b, moves), options(t, b, "careless", 1<<12)))(t)
		if r.Result != 0 || r.Held != (want == 0) || r.All.Mistakes != want || (r.All.Lost > 0) != (want > 0) {
			t.Errorf("after %s: %+v", moves, r)
		}
		if want == 0 {
			continue
		}
		for _, rec := range recordtest.Read(t, filepath.Join(dir, "mistakes-00000.parquet")) {
			if len(rec.Visits) > 0 && !cmp.Equal(rec.Visits, []uint32{1, 0, 1, 0, 0, 0, 1, 0, 1}) {
				t.Errorf("after %s: %+v", moves, rec)
			}
		}
	}
}

// A start may be the end of the game, and boards have a limit.
func TestBounds(t *testing.T) {
	b, lost := board(t, "3x3x3free"), Layer{Stones: 5, Ends: Ends{Lost: 1}}
	r := gametest.Must(Run(t.Context(), filepath.Join(t.TempDir(), "run"), at(t, b, "14253"), options(t, b, "lowest", 1<<12)))(t)
	if diff := cmp.Diff(&Report{Result: -1, Held: true, Layers: []Layer{lost}, All: lost}, r); diff != "" {
		t.Errorf("after 14253 (-want +got):\n%s", diff)
	}
	wide := game.MustBoard(game.Rules{Rows: 8, Columns: 8, InARow: 4, Gravity: true})
	if _, err := Run(t.Context(), t.TempDir(), game.Position{}, Options{Board: wide}); err == nil || !strings.Contains(err.Error(), "8x8x4 has too many positions") {
		t.Errorf("a wide board: error %v", err)
	}
}

// asked keeps the least number of stones of the positions that its agent was asked about.
type asked struct {
	agent.Agent
	mu    *sync.Mutex
	least *int
}

func (a asked) Move(ctx context.Context, b *game.Board, p game.Position) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	*a.least = min(*a.least, p.Plies())
	return a.Agent.Move(ctx, b, p)
}

// An interrupted run is resumed, and finds the same. Finished layers are not computed again.
func TestResumed(t *testing.T) {
	b := board(t, "5x4x4")
	run := func(dir string, interrupt int) (*Report, int, error) {
		o := options(t, b, "lowest", 1<<12)
		least, mu := b.Cells(), new(sync.Mutex)
		for i := range o.Agents {
			o.Agents[i] = asked{o.Agents[i], mu, &least}
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		calls := 0
		o.Progress = func(string, int64, int64) {
			if calls++; calls == interrupt {
				cancel()
			}
		}
		r, err := Run(ctx, dir, game.Position{}, o)
		return r, least, err
	}
	want, _, err := run(filepath.Join(t.TempDir(), "whole"), 0)
	gametest.OK(t, err)
	dir := filepath.Join(t.TempDir(), "resumed")
	for interrupt := 1; ; interrupt++ {
		steps, err := durable.ReadJournal[step](filepath.Join(dir, "steps.jsonl"), "")
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		first := 0
		for _, s := range steps {
			if s.Pass == passForward {
				first = s.Stones + 2
			}
		}
		got, least, err := run(dir, interrupt)
		if least < first {
			t.Errorf("interrupt %d: the layer of %d stones was asked again; those below %d were done", interrupt, least, first)
		}
		if err == nil {
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-whole +resumed):\n%s", diff)
			}
			if interrupt < 5 {
				t.Errorf("only %d interruptions", interrupt-1)
			}
			return
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
}

// No damage of an interrupted run's files goes unnoticed.
func TestDamaged(t *testing.T) {
	b, dir := board(t, "3x3x3free"), filepath.Join(t.TempDir(), "run")
	ctx, cancel := context.WithCancel(t.Context())
	o := options(t, b, "lowest", 1<<12)
	o.Progress = func(work string, _, _ int64) {
		if strings.HasPrefix(work, "backward, 2 ") {
			cancel()
		}
	}
	if _, err := Run(ctx, dir, game.Position{}, o); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	o.Progress = nil
	durabletest.Damage(t, dir, 15, nil, func(dir string) (string, error) {
		r, err := Run(t.Context(), dir, game.Position{}, o)
		text, _ := json.Marshal(r)
		return string(text), err
	})
}
