package cluster_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/evald/evald/engine/cluster"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/heuristic"
	"github.com/evald/evald/engine/record"
	"github.com/evald/evald/engine/record/recordtest"
	"github.com/evald/evald/engine/selfplay"
	"github.com/evald/evald/engine/solver"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		inRole(role)
	}
	goleak.VerifyTestMain(m)
}

// small is a game of some milliseconds. In odd generations games end where they are proved.
func small(generation int) selfplay.Config {
	c := selfplay.DefaultConfig()
	c.Rules, c.Network, c.Seed, c.Visits, c.FastVisits, c.OpeningPlies = "5x4x4", "bitsquares", uint64(7+generation), 8, 4, 4
	c.Exact, c.Policy = solver.Nodes(generation%2*20), generation%2 == 1
	return c
}

func bitsquares(_, _, _ string) (*eval.Evaluator, func(), error) {
	e, err := heuristic.New(eval.Bitsquares)
	return e, func() {}, err
}

// alone are the files of the same games on one machine.
func alone(t testing.TB, c selfplay.Config, games int) map[string]string {
	t.Helper()
	dir := t.TempDir()
	s := gametest.Must(selfplay.OpenStore(dir, c, games))(t)
	gametest.OK(t, s.Add(played(t, c, games)...))
	gametest.OK(t, s.Close())
	return files(t, dir)
}

// playedGames has the games of played, by configuration.
var playedGames = map[string][]*selfplay.Game{}

// played are the first games of a configuration. They are played once for all tests, which must not change them.
func played(t testing.TB, c selfplay.Config, n int) []*selfplay.Game {
	t.Helper()
	key := cluster.Settings(c, 0)
	had := len(playedGames[key])
	games := append(playedGames[key], make([]*selfplay.Game, max(0, n-had))...)
	e := gametest.Must(heuristic.New(eval.Bitsquares))(t)
	gametest.OK(t, selfplay.Play(t.Context(), e, c, had, len(games)-had, nil, func(g *selfplay.Game) error {
		games[g.Number] = g
		return nil
	}))
	playedGames[key] = games
	return games[:n:n]
}

// files are those of a folder of records.
func files(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, e := range gametest.Must(os.ReadDir(dir))(t) {
		text := gametest.Must(os.ReadFile(filepath.Join(dir, e.Name())))(t)
		all[e.Name()] = string(text)
	}
	return all
}

// same compares the files of a cluster with those of one machine.
func same(t testing.TB, want, got map[string]string) {
	t.Helper()
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Fatalf("files (-one machine +cluster):\n%.1000s", diff)
	}
}

// ledger is what workers were told.
type ledger struct {
	mu   sync.Mutex
	told map[keptGame]bool
}

type keptGame struct{ generation, number int }

func (l *ledger) kept(generation int, numbers []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.told == nil {
		l.told = map[keptGame]bool{}
	}
	for _, n := range numbers {
		l.told[keptGame{generation, n}] = true
	}
}

// check compares what workers were told with the files of a generation: each game is there once, which is from its first
// position to its end without a position twice.
func (l *ledger) check(t testing.TB, generation int, dir string, games int) {
	t.Helper()
	paths := gametest.Must(filepath.Glob(filepath.Join(dir, "games-*.parquet")))(t)
	ended, last := map[int]int{}, record.Record{Game: -1}
	for _, rec := range recordtest.Read(t, paths...) {
		if rec.Game == last.Game && rec.Ply != last.Ply+1 {
			t.Errorf("game %d goes from ply %d to %d", rec.Game, last.Ply, rec.Ply)
		}
		if rec.Game != last.Game {
			ended[int(rec.Game)]++
		}
		last = rec
	}
	if len(ended) != games {
		t.Errorf("generation %d: %d games, want %d", generation, len(ended), games)
	}
	for n, times := range ended {
		if times != 1 {
			t.Errorf("generation %d: game %d is there %d times", generation, n, times)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for g := range l.told {
		if g.generation == generation && ended[g.number] != 1 {
			t.Errorf("generation %d: a worker was told that game %d is kept, which is there %d times", generation, g.number, ended[g.number])
		}
	}
}

func quiet() *slog.Logger {
	return slog.New(slog.NewTextHandler(logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// logs are where logs go: CLUSTER_TEST_LOG=1 shows them.
var logs = func() io.Writer {
	if os.Getenv("CLUSTER_TEST_LOG") != "" {
		return os.Stderr
	}
	return io.Discard
}()

func open(t testing.TB, o cluster.Options) *cluster.Learner {
	t.Helper()
	o.Dir, o.Log, o.Version = cmp.Or(o.Dir, t.TempDir()), cmp.Or(o.Log, quiet()), cmp.Or(o.Version, "v")
	o.Server.Listen = cmp.Or(o.Server.Listen, "127.0.0.1:0")
	l := gametest.Must(cluster.Open(t.Context(), o.Hurried()))(t)
	t.Cleanup(l.Close)
	return l
}

// work starts a worker, and returns what ends it and gives its error.
func work(t testing.TB, o cluster.WorkerOptions) (stop func() error) {
	t.Helper()
	o.Dir, o.Log, o.Version = cmp.Or(o.Dir, t.TempDir()), cmp.Or(o.Log, quiet()), cmp.Or(o.Version, "v")
	if o.Evaluator == nil {
		o.Evaluator = bitsquares
	}
	if o.Parallel == 0 {
		o.Parallel, o.Batch = 64, 32
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- cluster.Work(ctx, o) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() { _ = stop() })
	return stop
}

func connection(l *cluster.Learner) cluster.Connection { return to(l.Join()) }

func to(url string) cluster.Connection { return cluster.Connection{URL: url}.Hurried(cluster.Patience) }

// Three workers play what one machine would: the files are the same, bit for bit, in both generations. The learner stops
// and resumes between them and within a generation.
func TestSameFiles(t *testing.T) {
	var told ledger
	dir, run := t.TempDir(), t.TempDir()
	l := open(t, cluster.Options{Dir: run})
	for range 3 {
		work(t, cluster.WorkerOptions{Connection: connection(l), Kept: told.kept})
	}
	for generation, games := range []int{620, 40} {
		b := selfplay.Batch{Generation: generation, Config: small(generation), Dir: filepath.Join(dir, fmt.Sprint(generation)), Games: games}
		if generation == 0 {
			ctx, cancel := context.WithCancel(t.Context())
			b.Report = func(p selfplay.Progress) {
				if p.Games > 300 {
					cancel()
				}
			}
			if err := l.Play(ctx, b); err == nil {
				t.Error("not interrupted")
			}
		}
		proved := 0
		b.Report = func(p selfplay.Progress) { proved = p.Proved }
		playSame(t, l, b, &told)
		if (proved > games/2) != (b.Config.Exact > 0) || proved > games {
			t.Errorf("generation %d: %d of %d games ended by proof", generation, proved, games)
		}
	}
	if n := len(told.told); n < 500 {
		t.Errorf("workers were told of %d games only", n)
	}
}

// playSame lets workers play a generation. Its files are those of one machine, and have each game that a worker was told of.
func playSame(t testing.TB, l *cluster.Learner, b selfplay.Batch, told *ledger) {
	t.Helper()
	b.Dir = cmp.Or(b.Dir, t.TempDir())
	gametest.OK(t, l.Play(t.Context(), b))
	same(t, alone(t, b.Config, b.Games), files(t, b.Dir))
	told.check(t, b.Generation, b.Dir, b.Games)
}

// within fails a test that hangs, with the stacks of all goroutines.
func within(t testing.TB, d time.Duration) {
	timer := time.AfterFunc(d, func() { panic(t.Name() + " hangs") })
	t.Cleanup(func() { timer.Stop() })
}
