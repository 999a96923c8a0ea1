package selfplay_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/fault"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/heuristic"
	"github.com/evald/evald/engine/record"
	"github.com/evald/evald/engine/record/recordtest"
	"github.com/evald/evald/engine/selfplay"
	"github.com/evald/evald/engine/solver"
)

func config() selfplay.Config {
	c := selfplay.DefaultConfig()
	c.Visits, c.FastVisits, c.FullShare, c.Parallel, c.Batch, c.Seed, c.Network = 30, 8, 0.5, 20, 4, 7, "test"
	return c
}

func bitsquares(t testing.TB) *eval.Evaluator {
	t.Helper()
	return gametest.Must(heuristic.New(eval.Bitsquares))(t)
}

// files are the files of a directory, whole.
func files(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, e := range gametest.Must(os.ReadDir(dir))(t) {
		all[e.Name()] = string(gametest.Must(os.ReadFile(filepath.Join(dir, e.Name())))(t))
	}
	return all
}

func names(files map[string]string) []string { return slices.Sorted(maps.Keys(files)) }

// Records are those of legal games, and say how each ended, which game it was and what was played.
func TestRecords(t *testing.T) {
	for _, rules := range []string{"7x6x4", "5x4x4", "3x3x3free", "12x9x5"} {
		c := config()
		c.Rules = rules
		dir := t.TempDir()
		const games = 12
		gametest.OK(t, selfplay.Run(t.Context(), bitsquares(t), c, dir, games, nil))
		if got := names(files(t, dir)); !slices.Equal(got, []string{"games-000000-000011.parquet", "selfplay.json"}) {
			t.Fatalf("files %v", got)
		}
		ended, full, fast := 0, 0, 0
		board := game.MustBoard(gametest.Must(game.ParseRules(rules))(t))
		var last record.Record
		for _, rec := range recordtest.Read(t, filepath.Join(dir, "games-000000-000011.parquet")) { // checks legality, classes and results
			if rec.Game != int64(ended) { // before this record is counted
				t.Fatalf("game %d comes as number %d", rec.Game, ended)
			}
			if last.Move != 0 && board.Play(last.Position, int(last.Move)-1) != rec.Position {
				t.Errorf("move %d leads from %v to %v", last.Move, last.Position, rec.Position)
			}
			if (rec.Move == 0) != (rec.GameOver != game.NotOver) {
				t.Errorf("class %d, move %d", rec.GameOver, rec.Move)
			}
			if rec.Network != "test" || rec.Rules.String() != rules || rec.Weight != 1 {
				t.Fatalf("record %+v", rec)
			}
			switch {
			case rec.GameOver != game.NotOver:
				ended++
				if rec.Source != eval.Terminal || len(rec.Visits) > 0 {
					t.Errorf("the end of a game is %+v", rec)
				}
			case len(rec.Visits) > 0:
				full++
			default:
				fast++
			}
			if last.Weight > 0 && last.GameOver == game.NotOver && rec.Ply != last.Ply+1 {
				t.Errorf("%d stones, then %d, in one game", last.Ply, rec.Ply)
			}
			if last.GameOver == game.NotOver && last.Weight > 0 && rec.Z != -last.Z {
				t.Errorf("the outcome is %d, then %d for the other side", last.Z, rec.Z)
			}
			last = rec
		}
		if ended != games || full < 10 || fast < 10 {
			t.Errorf("%s: %d games ended, %d records of full and %d of fast searches", rules, ended, full, fast)
		}
	}
}

// If the rules decide, records have their result and all the moves that lead to it, whatever the search preferred.
func TestRulesDecide(t *testing.T) {
	b := game.MustBoard(game.Connect4)
	c := config()
	c.Openings, c.OpeningPlies = selfplay.Mixed, 30
	decided, several := 0, 0
	err := selfplay.Play(t.Context(), bitsquares(t), c, 0, 150, nil, func(g *selfplay.Game) error {
		for _, p := range g.Plies {
			o := b.Outlook(p.Position)
			if (o.Result != game.Ongoing) != (p.Source == eval.Rules) {
				t.Errorf("game %d: %v, and the source is %v", g.Number, o.Result, p.Source)
			}
			if o.Result == game.Ongoing {
				continue
			}
			decided++
			result := map[game.Result]int8{game.Win: 1, game.Draw: 0, game.Loss: -1}[o.Result]
			if p.Q != float32(result) || g.Result*(3-2*int8(p.Position.Mover())) != result {
				t.Errorf("game %d: decided as %v, value %v, the game's result %d for player 1", g.Number, o.Result, p.Q, g.Result)
			}
			moves := 0
			for a, v := range p.Visits {
				moves += int(v)
				if want := !b.Cell(p.Position, a).And(o.Moves).IsZero(); want != (v == 1) {
					t.Errorf("game %d: visits %v, the moves are %v", g.Number, p.Visits, o.Moves)
				}
			}
			if moves > 1 {
				several++
			}
		}
		return nil
	})
	if err != nil || decided < 100 || several < 20 {
		t.Errorf("%d positions decided, %d of them with several moves, error %v", decided, several, err)
	}
}

// Games end at proofs, and each proof is right: the solver finds the same result, and all the moves keep it. A store takes such
// games, and refuses proofs of another outcome or where none are asked for.
func TestExact(t *testing.T) {
	for _, b := range []*game.Board{game.MustBoard(game.Connect4), game.MustBoard(game.Rules{Rows: 4, Columns: 5, InARow: 4, Gravity: true}), game.MustBoard(game.TicTacToe)} {
		full := gametest.Must(solver.New(b, solver.Options{}))(t)
		result := func(p game.Position) int8 {
			if r := b.Result(p); r != game.Ongoing {
				return int8(r.Value())
			}
			return int8(gametest.Must(full.WDL(t.Context(), p))(t).Score)
		}
		c := config()
		c.Rules, c.Openings, c.OpeningPlies, c.Exact = b.Rules().String(), selfplay.Mixed, b.Cells()/2, 20
		without := c
		without.Exact = 0
		const games = 150
		s, none := gametest.Must(selfplay.OpenStore(t.TempDir(), c, games))(t), gametest.Must(selfplay.OpenStore(t.TempDir(), without, games))(t)
		proved, policies, searched := 0, 0, 0
		gametest.OK(t, selfplay.Play(t.Context(), bitsquares(t), c, 0, games, nil, func(g *selfplay.Game) error {
			gametest.OK(t, s.Check(g))
			last := len(g.Plies) - 1
			for i, p := range g.Plies {
				if (p.Source == eval.Solved) != (i == last && g.Proved()) {
					t.Errorf("game %d, ply %d of %d: the source is %v", g.Number, i, last, p.Source)
				}
			}
			if !g.Proved() {
				if b.Result(g.Last) == game.Ongoing {
					t.Errorf("game %d ends at %+v without a proof", g.Number, g.Last)
				}
				return nil
			}
			proved++
			if last > 0 {
				searched++
			}
			p := g.Plies[last]
			want := result(p.Position)
			if p.Q != float32(want) || g.Result*(3-2*int8(p.Position.Mover())) != want || g.Last != p.Position {
				t.Errorf("game %d ends at %+v with value %v and result %d for player 1; the solver says %d", g.Number, p.Position, p.Q, g.Result, want)
			}
			if p.Visits != nil {
				policies++
			}
			for a, v := range p.Visits {
				if v > 1 || v == 1 && -result(b.Play(p.Position, a)) != want {
					t.Errorf("game %d: visits %v at %+v, whose result is %d", g.Number, p.Visits, p.Position, want)
				}
			}
			if err := none.Check(g); err == nil {
				t.Errorf("game %d: a store without exact ends takes it", g.Number)
			}
			wrong := *g
			wrong.Result = (g.Result+2)%3 - 1
			if err := s.Check(&wrong); err == nil || !strings.Contains(err.Error(), "proved") {
				t.Errorf("game %d with result %d, proved %d: error %v", g.Number, wrong.Result, g.Result, err)
			}
			return nil
		}))
		gametest.OK(t, errors.Join(s.Close(), none.Close()))
		t.Logf("%v: of %d games %d were proved, %d after searches, %d with moves", b.Rules(), games, proved, searched, policies)
		if proved < games/4 || searched < 10 || policies < proved/2 {
			t.Errorf("%v: of %d games %d were proved, %d after searches, %d with moves", b.Rules(), games, proved, searched, policies)
		}
	}
}

// Games begin with the play that was asked for: openings are short, and random play misses more wins.
func TestOpenings(t *testing.T) {
	b := game.MustBoard(game.Connect4)
	c := config()
	c.OpeningPlies, c.Visits, c.FastVisits = 30, 2, 2
	plies, decided := map[string]int{}, map[string]int{}
	const games = 300
	for _, kind := range []string{"", "random", "plausible", "openings", "mixed"} {
		c.Openings = kind
		err := selfplay.Play(t.Context(), bitsquares(t), c, 0, games, nil, func(g *selfplay.Game) error {
			first := g.Plies[0].Position
			plies[kind] = max(plies[kind], first.Plies())
			if b.Outlook(first).Plies > 0 {
				decided[kind]++
			}
			return nil
		})
		gametest.OK(t, err)
	}
	if plies[""] != plies["random"] || decided[""] != decided["random"] {
		t.Errorf("no kind gives %v and %v, random play %v and %v", plies[""], decided[""], plies["random"], decided["random"])
	}
	if plies["random"] < 29 || plies["plausible"] < 29 || plies["mixed"] < 29 || plies["openings"] != 12 {
		t.Errorf("most plies by kind: %v", plies)
	}
	if !(decided["openings"] < decided["mixed"] && decided["mixed"] < decided["random"]) {
		t.Errorf("first positions with a forced move, of %d: %v", games, decided)
	}
}

// The same run gives the same files, however many games are played at once, and however often it is interrupted.
func TestRepeatable(t *testing.T) {
	for _, selection := range []string{"puct", "gumbel"} {
		c := config()
		c.Selection, c.Openings = selection, map[string]string{"puct": "", "gumbel": selfplay.Mixed}[selection]
		c.Exact = map[string]solver.Nodes{"gumbel": 100}[selection]
		const games = 40
		dir := t.TempDir()
		gametest.OK(t, selfplay.Run(t.Context(), bitsquares(t), c, dir, games, nil))
		want := files(t, dir)

		c.Parallel, c.Batch = 3, 1
		dir = t.TempDir()
		gametest.OK(t, selfplay.Run(t.Context(), bitsquares(t), c, dir, games, nil))
		if diff := cmp.Diff(want, files(t, dir)); diff != "" {
			t.Errorf("%s: three games at once give other files than twenty", selection)
		}

		c.Parallel, c.Batch = 20, 4
		dir = t.TempDir()
		stops, waited := 0, false
		for {
			ctx, cancel := context.WithCancel(t.Context())
			err := selfplay.Run(ctx, bitsquares(t), c, dir, games, func(p selfplay.Progress) {
				if p.Played == 7 {
					cancel()
				}
			})
			cancel()
			if err == nil {
				break
			}
			if !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			stops++
			journal := gametest.Must(os.OpenFile(filepath.Join(dir, "waiting.jsonl"), os.O_WRONLY|os.O_APPEND, 0))(t)
			if info, err := journal.Stat(); err != nil || info.Size() > 0 {
				waited = true
			}
			if _, err := journal.WriteString(`{"Number":3,"Plies":[{"Pos`); err != nil { // what a kill leaves
				t.Fatal(err)
			}
			journal.Close()
		}
		if stops < 4 || stops > 6 || !waited {
			t.Errorf("%s: %d interrupts, games waited: %v; want 4 to 6, as each but the last played 7 games or more of %d and lost none", selection, stops, waited, games)
		}
		if diff := cmp.Diff(want, files(t, dir)); diff != "" {
			t.Errorf("%s: files after interrupts (-want +got):\n%.500s", selection, diff)
		}
	}
}

// Remembered answers change no game, however many games are played at once and whichever met a position first.
func TestRemember(t *testing.T) {
	c := config()
	c.Selection = "gumbel"
	var want map[string]string
	rows := map[bool]uint64{}
	for _, parallel := range []int{1, 20} {
		c.Parallel = parallel
		stub, dir := &evaltest.Stub{Source: eval.CPU}, t.TempDir()
		gametest.OK(t, selfplay.Run(t.Context(), selfplay.Remember(evaltest.Raw(stub), "stub", selfplay.Remembered), c, dir, 40, nil))
		if got := files(t, dir); want == nil {
			want = got
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Error("20 games at once give other files than one after the other")
		}
		rows[true] = stub.Rows.Load()
	}
	stub := &evaltest.Stub{Source: eval.CPU}
	gametest.OK(t, selfplay.Run(t.Context(), evaltest.Raw(stub), c, t.TempDir(), 40, nil))
	if rows[false] = stub.Rows.Load(); rows[true]*10 > rows[false]*8 {
		t.Errorf("%d positions were evaluated with memory, %d without", rows[true], rows[false])
	}
	t.Log(rows)
}

// A run that asks for more games continues after the last one, and another configuration is refused.
func TestContinues(t *testing.T) {
	c, dir := config(), t.TempDir()
	for _, n := range []int{5, 9, 9, 3} {
		gametest.OK(t, selfplay.Run(t.Context(), bitsquares(t), c, dir, n, nil))
	}
	if got := names(files(t, dir)); !slices.Equal(got, []string{"games-000000-000004.parquet", "games-000005-000008.parquet", "selfplay.json"}) {
		t.Errorf("files %v", got)
	}
	other := c
	other.Visits++
	if err := selfplay.Run(t.Context(), bitsquares(t), other, dir, 9, nil); err == nil || !strings.Contains(err.Error(), "selfplay.json: the run has visits") {
		t.Errorf("other visits: error %v", err)
	}
	gametest.OK(t, os.Remove(filepath.Join(dir, "games-000000-000004.parquet")))
	if err := selfplay.Run(t.Context(), bitsquares(t), c, dir, 9, nil); err == nil || !strings.Contains(err.Error(), "games-000005-000008.parquet: want the games from number 0 on") {
		t.Errorf("a gap: error %v", err)
	}
}

// A record names a network or a heuristic of the catalog. An answer by anybody else is an error that says who: such games
// must not be recorded as the rules' own, from which networks learn.
func TestUnknownSource(t *testing.T) {
	c := config()
	for _, who := range []eval.Source{"nobody", eval.Searched, eval.Terminal, eval.None} {
		games := 0
		err := selfplay.Play(t.Context(), evaltest.Raw(&evaltest.Stub{Source: who}), c, 0, 5, nil, func(*selfplay.Game) error { games++; return nil })
		if want := fmt.Sprintf("answered by source %q", who); err == nil || !strings.Contains(err.Error(), want) || games > 0 {
			t.Errorf("%v: %d games, error %v, want %s", who, games, err, want)
		}
	}
	for _, h := range heuristic.All() {
		err := selfplay.Play(t.Context(), evaltest.Raw(&evaltest.Stub{Source: h.Source}), c, 0, 5, nil, func(g *selfplay.Game) error {
			for _, p := range g.Plies {
				if p.Source != h.Source && p.Source != eval.Rules && p.Source != eval.Terminal {
					t.Errorf("game %d by %v: a position's source is %v", g.Number, h.Source, p.Source)
				}
			}
			return nil
		})
		if err != nil {
			t.Errorf("%v: %v", h.Source, err)
		}
	}
}

// A panic of a network, or of what counts and takes the games, is the play's error, and does not
// keep other seats waiting.
func TestPanics(t *testing.T) {
	for _, what := range []string{"network", "next", "done"} {
		batches, games := atomic.Int64{}, 0
		e := evaltest.Raw(&evaltest.Stub{Source: eval.CPU, Before: func(context.Context, *eval.Batch) error {
			if batches.Add(1) == 9 && what == "network" {
				panic("broken network")
			}
			return nil
		}})
		number := 0
		next := func() (int, bool) {
			if number++; number == 30 && what == "next" {
				panic("broken next")
			}
			return number, number <= 50
		}
		err := selfplay.PlayNext(t.Context(), e, config(), next, func(*selfplay.Game) error {
			if games++; games == 9 && what == "done" {
				panic("broken done")
			}
			return nil
		})
		if fault.In(err) == nil || !strings.Contains(err.Error(), "broken "+what) {
			t.Errorf("%s: %v, want a fault", what, err)
		}
	}
}

// The source of answers is in the records. An error of the evaluator ends the run.
func TestSources(t *testing.T) {
	c := config()
	calls := 0
	flaky := &evaltest.Stub{Source: eval.GPU, Before: func(context.Context, *eval.Batch) error {
		if calls++; calls%5 == 0 {
			return errors.New("device lost")
		}
		return nil
	}}
	e := eval.New(eval.Fallback{{Name: "gpu", Backend: flaky}, {Name: "bitsquares", Backend: bitsquares(t).Backend()}}, eval.Options{})
	seen := map[eval.Source]int{}
	c.Batch, c.Parallel = 8, 8
	err := selfplay.Play(t.Context(), e, c, 0, 20, nil, func(g *selfplay.Game) error {
		for _, p := range g.Plies {
			seen[p.Source]++
		}
		return nil
	})
	if err != nil || seen[eval.GPU] == 0 || seen[eval.Bitsquares] == 0 {
		t.Errorf("sources %v, error %v", seen, err)
	}
	broken := errors.New("device lost")
	err = selfplay.Play(t.Context(), evaltest.Raw(&evaltest.Stub{Before: func(context.Context, *eval.Batch) error { return broken }}), c, 0, 5, nil, func(*selfplay.Game) error { return nil })
	if !errors.Is(err, broken) {
		t.Errorf("a broken evaluator: error %v", err)
	}
	full := errors.New("disk full")
	err = selfplay.Play(t.Context(), bitsquares(t), c, 0, 50, nil, func(*selfplay.Game) error { return full })
	if !errors.Is(err, full) || errors.Is(err, context.Canceled) {
		t.Errorf("nowhere to put games: error %v", err)
	}
}

func TestValidate(t *testing.T) {
	for want, change := range map[string]func(*selfplay.Config){
		"rules":                  func(c *selfplay.Config) { c.Rules = "7x6" },
		`selection is "uct"`:     func(c *selfplay.Config) { c.Selection = "uct" },
		"visits is 1, want 2":    func(c *selfplay.Config) { c.Visits = 1 },
		"full share is 2":        func(c *selfplay.Config) { c.FullShare = 2 },
		`openings is "early"`:    func(c *selfplay.Config) { c.Openings = "early" },
		"parallel is -1, want 0": func(c *selfplay.Config) { c.Parallel = -1 },
	} {
		c := config()
		change(&c)
		if err := selfplay.Run(t.Context(), bitsquares(t), c, t.TempDir(), 1, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

// Without numbers each processor has two batches, larger ones on a device that prefers many rows, and smaller ones if there are
// few games.
func TestSized(t *testing.T) {
	heuristic, network, gpu := bitsquares(t), evaltest.Raw(&evaltest.Stub{}), eval.New(manyRows{&evaltest.Stub{}}, eval.Options{})
	cores := runtime.GOMAXPROCS(0)
	for _, test := range []struct {
		name                    string
		e                       *eval.Evaluator
		parallel, batch, games  int
		wantParallel, wantBatch int
	}{
		{"a heuristic", heuristic, 0, 0, math.MaxInt, 256 * cores, 128},
		{"few games by a heuristic", heuristic, 0, 0, 8 * cores, 8 * cores, 4},
		{"a network", network, 0, 0, math.MaxInt, 256 * cores, 128},
		{"few games by a network", network, 0, 0, 8, 8, 128},
		{"a GPU", gpu, 0, 0, math.MaxInt, 1024 * cores, 512},
		{"some games by a GPU", gpu, 0, 0, 400 * cores, 400 * cores, 200},
		{"few games by a GPU", gpu, 0, 0, 8, 8, 128},
		{"no game", gpu, 0, 0, 0, 1, 128},
		{"a batch", gpu, 0, 64, math.MaxInt, 128 * cores, 64},
		{"games at once", gpu, 600 * cores, 0, 10, 600 * cores, 300},
		{"both", gpu, 3, 5, 10, 3, 5},
	} {
		c := selfplay.DefaultConfig()
		c.Parallel, c.Batch = test.parallel, test.batch
		if c = c.Sized(test.e, test.games); c.Parallel != test.wantParallel || c.Batch != test.wantBatch {
			t.Errorf("%s: %d games at once, batches of %d; want %d, %d", test.name, c.Parallel, c.Batch, test.wantParallel, test.wantBatch)
		}
	}
}

// manyRows is a backend that prefers large batches, as a GPU does.
type manyRows struct{ eval.Backend }

func (manyRows) Attributes() eval.Attributes { return eval.Attributes{Rows: 1024, Invariant: true} }

// The games do not depend on how many answers are remembered.
func TestRememberNone(t *testing.T) {
	var games [3][]string
	for i, answers := range []int{0, 1, selfplay.Remembered} {
		stub := &evaltest.Stub{Source: eval.CPU}
		games[i] = make([]string, 30)
		gametest.OK(t, selfplay.Play(t.Context(), selfplay.Remember(evaltest.Raw(stub), "stub", answers), config(), 0, 30, nil, func(g *selfplay.Game) error {
			games[i][g.Number] = fmt.Sprint(g.Plies, g.Last, g.Result)
			return nil
		}))
	}
	if !slices.Equal(games[0], games[2]) || !slices.Equal(games[1], games[2]) {
		t.Error("games differ")
	}
}

var update = flag.Bool("update", false, "write the golden files anew")

// The same flags play the same games as when the files were made, without and with policies.
func TestGolden(t *testing.T) {
	c := selfplay.DefaultConfig()
	c.Visits, c.FastVisits, c.Seed, c.Network = 20, 5, 3, "bitsquares"
	policies := c
	policies.Rules, policies.Visits, policies.Selection, policies.FullShare, policies.Policy = "5x4x4", 4, "gumbel", 0.8, true
	for file, c := range map[string]selfplay.Config{"games": c, "policies": policies} {
		dir := t.TempDir()
		gametest.OK(t, selfplay.Run(t.Context(), bitsquares(t), c, dir, 3, nil))
		made, kept := filepath.Join(dir, "games-000000-000002.parquet"), "testdata/"+file+".parquet"
		if *update {
			gametest.OK(t, os.WriteFile(kept, gametest.Must(os.ReadFile(made))(t), 0o644))
		}
		if diff := cmp.Diff(recordtest.Read(t, kept), recordtest.Read(t, made)); diff != "" {
			t.Errorf("%s: other records than before (-then +now; go test ./engine/selfplay -run Golden -update writes them anew):\n%s", file, diff)
		}
	}
}

// A policy is what the visits are rounded from. It changes nothing else in the records.
func TestPolicy(t *testing.T) {
	for _, selection := range []string{"puct", "gumbel"} {
		c := config()
		c.Rules, c.Selection, c.Visits, c.Exact = "5x4x4", selection, 5, 20
		path := func() string {
			dir := t.TempDir()
			gametest.OK(t, selfplay.Run(t.Context(), bitsquares(t), c, dir, 10, nil))
			return filepath.Join(dir, "games-000000-000009.parquet")
		}
		without := recordtest.Read(t, path())
		c.Policy = true
		with := recordtest.Read(t, path())
		lost := 0
		for i := range with {
			rec := &with[i]
			factor := float64(c.Visits)
			if rec.Source == eval.Rules || rec.Source == eval.Solved {
				factor = 0
				for _, n := range rec.Visits {
					factor += float64(n)
				}
			}
			for a, p := range rec.Policy {
				if n := float64(p) * float64(c.Visits-1); rec.Source == eval.Bitsquares && math.Abs(n-math.Round(n)) > 1e-5 {
					lost++ // the root's first visit is no move's
				}
				if uint32(math.Round(float64(p)*factor)) != rec.Visits[a] {
					t.Errorf("%s: policy %v, visits %v", selection, rec.Policy, rec.Visits)
					break
				}
			}
			if len(rec.Policy) != len(rec.Visits) {
				t.Errorf("%s: policy %v, visits %v", selection, rec.Policy, rec.Visits)
			}
			rec.Policy = nil
		}
		if (lost > 0) != (selection == "gumbel") {
			t.Errorf("%s: %d shares are no whole visits", selection, lost)
		}
		if diff := cmp.Diff(without, with, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: other records with policies (-without +with):\n%s", selection, diff)
		}
	}
}

// With fewer visits than moves, the shares of equally good moves may all be rounded to none. One move
// has a visit then.
func TestFewVisits(t *testing.T) {
	c := config()
	c.Rules, c.Selection, c.Visits, c.FullShare = "5x5x4free", "gumbel", 4, 1
	one := 0
	uniform := gametest.Must(heuristic.New(eval.Uniform))(t)
	gametest.OK(t, selfplay.Play(t.Context(), uniform, c, 0, 20, nil, func(g *selfplay.Game) error {
		for _, p := range g.Plies {
			sum := uint32(0)
			for _, n := range p.Visits {
				sum += n
			}
			if sum == 0 {
				t.Errorf("game %d has no visits at %v", g.Number, p.Position)
			}
			if sum == 1 && p.Source == eval.Uniform {
				one++
			}
		}
		return nil
	}))
	if one == 0 {
		t.Error("no position has one visit")
	}
}

// Resigned games end early, and their last position is not recorded as over.
func TestResign(t *testing.T) {
	c := config()
	c.Resign, c.FullShare = 0.2, 1
	resigned := 0
	err := selfplay.Play(t.Context(), bitsquares(t), c, 0, 20, nil, func(g *selfplay.Game) error {
		b := game.MustBoard(game.Connect4)
		if b.Result(g.Last) == game.Ongoing {
			resigned++
			if last := g.Plies[len(g.Plies)-1]; last.Q >= -0.2 || last.Position != g.Last {
				t.Errorf("game %d was resigned at %v", g.Number, last.Q)
			}
			if want := int8(1 - 2*(g.Last.Mover()&1)); g.Result != want {
				t.Errorf("game %d: result %d after player %d resigned", g.Number, g.Result, g.Last.Mover())
			}
		}
		return nil
	})
	if err != nil || resigned < 5 {
		t.Errorf("%d of 20 games were resigned, error %v", resigned, err)
	}
	dir, none := t.TempDir(), 0
	gametest.OK(t, selfplay.Run(t.Context(), bitsquares(t), c, dir, 20, nil))
	for _, rec := range recordtest.Read(t, filepath.Join(dir, "games-000000-000019.parquet")) {
		if rec.GameOver == game.NotOver && rec.Move == 0 {
			none++
		}
	}
	if none != resigned {
		t.Errorf("%d records have no move, want the last ones of the %d games that were resigned", none, resigned)
	}
}

// Games in which the evaluator is never asked end with their context too.
func TestInterruptedWithoutEvaluations(t *testing.T) {
	c := config()
	c.Rules = "1x1x1"
	ctx, cancel := context.WithCancel(t.Context())
	games := 0
	err := selfplay.Play(ctx, evaltest.Raw(&evaltest.Stub{Before: func(context.Context, *eval.Batch) error {
		t.Error("the evaluator was asked")
		return nil
	}}), c, 0, math.MaxInt32, nil, func(*selfplay.Game) error {
		if games++; games == 100 {
			cancel()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) || games < 100 {
		t.Errorf("%d games, error %v", games, err)
	}
}

// A store takes games in any order and more than once, continues after a kill, and ends with the files of Run. Run resumes a folder
// that a store has begun.
func TestStore(t *testing.T) {
	c := config()
	c.Policy = true
	want, dir, both := t.TempDir(), t.TempDir(), t.TempDir()
	const n = 560
	gametest.OK(t, selfplay.Run(t.Context(), bitsquares(t), c, want, n, nil))
	games := make([]*selfplay.Game, n)
	gametest.OK(t, selfplay.Play(t.Context(), bitsquares(t), c, 0, n, nil, func(g *selfplay.Game) error { games[g.Number] = g; return nil }))
	random := rand.New(rand.NewPCG(1, 1))
	s := gametest.Must(selfplay.OpenStore(dir, c, n))(t)
	for i, number := range append(random.Perm(n), random.Perm(n)...) {
		g := games[number]
		had := s.Has(number)
		gametest.OK(t, errors.Join(s.Check(g), s.Add(g, g)))
		if had != (i >= n) || !s.Has(number) || s.Games() != min(i+1, n) {
			t.Fatalf("game %d: had %t, has %t, %d games after %d", number, had, s.Has(number), s.Games(), i+1)
		}
		if i%97 == 0 { // as after a kill, for the journal is not ended
			gametest.OK(t, s.Close())
			s = gametest.Must(selfplay.OpenStore(dir, c, n))(t)
		}
		if i == 300 {
			gametest.OK(t, os.CopyFS(both, os.DirFS(dir)))
		}
	}
	gametest.OK(t, s.Close())
	gametest.OK(t, selfplay.Run(t.Context(), bitsquares(t), c, both, n, nil))
	for _, dir := range []string{dir, both} {
		if diff := cmp.Diff(files(t, want), files(t, dir)); diff != "" {
			t.Errorf("(-Run +store):\n%.500s", diff)
		}
	}
}
