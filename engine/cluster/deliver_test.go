package cluster_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/evald/evald/engine/cluster"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/heuristic"
	"github.com/evald/evald/engine/selfplay"
)

// wire is a worker's connection, for messages that no worker would send.
func wire(t *testing.T, l *cluster.Learner) *nats.Conn {
	t.Helper()
	c := gametest.Must(nats.Connect(l.Join(), append(cluster.AsWorker(), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))...))(t)
	t.Cleanup(c.Close)
	return c
}

func encode(t *testing.T, games ...*selfplay.Game) (all []json.RawMessage) {
	t.Helper()
	for _, g := range games {
		all = append(all, gametest.Must(json.Marshal(g))(t))
	}
	return all
}

// deliver sends games of generation 0 and returns the answer.
func deliver(t *testing.T, c *nats.Conn, run, id string, games ...*selfplay.Game) (refused, later string) {
	t.Helper()
	parcel, err := cluster.Parcel("v", run, id, 0, encode(t, games...)...)
	return sendParcel(t, c, parcel, err)
}

// sendParcel sends any message where games go.
func sendParcel(t *testing.T, c *nats.Conn, parcel []byte, err error) (refused, later string) {
	t.Helper()
	gametest.OK(t, err)
	m := gametest.Must(c.Request(cluster.GamesSubject, parcel, 10*time.Second))(t)
	refused, later, err = cluster.Answer(m.Data)
	gametest.OK(t, err)
	return refused, later
}

// begin begins a generation, and returns its end.
func begin(t *testing.T, l *cluster.Learner, b selfplay.Batch) (over chan error) {
	t.Helper()
	over = make(chan error, 1)
	go func() { over <- l.Play(t.Context(), b) }()
	for !l.Status().Playing {
		select {
		case err := <-over:
			t.Fatal(err)
		case <-time.After(time.Millisecond):
		}
	}
	return over
}

// Games arrive twice, in any order, in one message, and after the end of their generation. Forged games arrive too. The files are those of
// one machine.
func TestDeliveries(t *testing.T) {
	const n = 620
	c := small(0)
	games := played(t, c, n)
	l := open(t, cluster.Options{})
	conn := wire(t, l)
	run, id := l.Status().Run, cluster.Settings(c, n)
	dir := filepath.Join(t.TempDir(), "0")
	if _, later := deliver(t, conn, run, id, games[0]); later == "" {
		t.Error("a game is taken before its generation")
	}
	over := begin(t, l, selfplay.Batch{Config: c, Dir: dir, Games: n})
	spoil(t, conn, run, id, games)

	random := rand.New(rand.NewPCG(3, 4))
	order := append(random.Perm(n), random.Perm(n/2)...)
	random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	last := order[len(order)-1]
	var told ledger
	for len(order) > 0 {
		k := min(1+random.IntN(30), len(order))
		var some []*selfplay.Game
		var numbers []int
		for _, number := range order[:k] {
			some, numbers = append(some, games[number]), append(numbers, number)
		}
		some = append(some, some[0]) // twice in one message
		order = order[k:]
		if refused, later := deliver(t, conn, run, id, some...); refused != "" || later != "" {
			t.Fatalf("refused %q, later %q", refused, later)
		}
		told.kept(0, numbers)
	}
	gametest.OK(t, <-over)
	if refused, later := deliver(t, conn, run, id, games[last]); refused != "" || later != "" {
		t.Errorf("a late game: refused %q, later %q", refused, later)
	}
	same(t, alone(t, c, n), files(t, dir))
	told.check(t, 0, dir, n)
	if s := l.Status(); s.Kept != n || s.Duplicates < n/2 {
		t.Errorf("kept %d, %d came again", s.Kept, s.Duplicates)
	}
}

// spoil sends what must be refused.
func spoil(t *testing.T, conn *nats.Conn, run, id string, games []*selfplay.Game) {
	t.Helper()
	type message struct {
		version, run, id string
		generation       int
		games            []json.RawMessage
	}
	altered := func(change func(*selfplay.Game)) func(*message) {
		return func(m *message) {
			var g selfplay.Game
			gametest.OK(t, json.Unmarshal(m.games[0], &g))
			change(&g)
			m.games = encode(t, &g)
		}
	}
	for why, change := range map[string]func(*message){
		"games 0 to 619":       altered(func(g *selfplay.Game) { g.Number = 620 }),
		"the run has":          altered(func(g *selfplay.Game) { g.Number = -1 }),
		"0 positions":          altered(func(g *selfplay.Game) { g.Plies = nil }),
		"the last position":    altered(func(g *selfplay.Game) { g.Result = (g.Result+2)%3 - 1 }),
		"column q":             altered(func(g *selfplay.Game) { g.Plies[0].Q = 7 }),
		"column visits":        altered(func(g *selfplay.Game) { g.Plies[0].Visits = []uint32{1} }),
		"column source":        altered(func(g *selfplay.Game) { g.Plies[0].Source = "me" }),
		"does not follow":      altered(func(g *selfplay.Game) { g.Plies = append(g.Plies[:1], g.Plies[2:]...) }),
		"position 1":           altered(func(g *selfplay.Game) { g.Plies[0].Position.Own = game.Bits{Hi: 1} }),
		"off the board":        altered(func(g *selfplay.Game) { g.Last.All.Hi |= 1 << 36 }),
		"not follow from":      altered(func(g *selfplay.Game) { g.Last = g.Plies[len(g.Plies)-1].Position; g.Result = 1 }),
		"Plies":                func(m *message) { m.games[0] = json.RawMessage(`{"Plies":3}`) },
		"game 0: 0 positions":  func(m *message) { m.games[0] = json.RawMessage("null") },
		"its version is":       func(m *message) { m.version = "w" },
		"other rules":          func(m *message) { m.id = "x" },
		"of another run":       func(m *message) { m.run = "x" },
		"does not play this":   func(m *message) { m.generation = 1 },
		"generation -1 cannot": func(m *message) { m.generation = -1 },
		"bitsquares plays the": altered(func(g *selfplay.Game) { g.Plies[0].Source = "gpu" }),
		"unexpected end of":    func(*message) {},
	} {
		m := message{"v", run, id, 0, encode(t, games[5])}
		change(&m)
		parcel, err := cluster.Parcel(m.version, m.run, m.id, m.generation, m.games...)
		if why == "unexpected end of" {
			parcel = parcel[:len(parcel)/2]
		}
		refused, later := sendParcel(t, conn, parcel, err)
		if !strings.Contains(refused+later, why) {
			t.Errorf("want a refusal with %q: refused %q, later %q", why, refused, later)
		}
	}
}

// The disk is slow. Workers are let in meanwhile and get jobs, and people see the status.
func TestSlowDisk(t *testing.T) {
	within(t, time.Minute)
	l := open(t, cluster.Options{})
	c, conn := small(0), wire(t, l)
	over := begin(t, l, selfplay.Batch{Config: c, Dir: t.TempDir(), Games: 4})
	run, id := l.Status().Run, cluster.Settings(c, 4)
	release := l.SlowDisk()
	games := encode(t, played(t, c, 4)...)
	parcel := gametest.Must(cluster.Parcel("v", run, id, 0, games...))(t)
	gametest.OK(t, conn.PublishRequest(cluster.GamesSubject, conn.NewInbox(), parcel))
	question := gametest.Must(cluster.AskJob(run))(t)
	for _, subject := range []string{"evald.hello", "evald.job", "evald.status"} {
		if _, err := conn.Request(subject, question, 10*time.Second); err != nil {
			t.Errorf("%s: %v", subject, err)
		}
	}
	release()
	gametest.OK(t, <-over)
}

// stub is a learner of run R that a test has itself. It answers each subject by a function.
func stub(t *testing.T, url string, answers map[string]func(*nats.Msg)) {
	t.Helper()
	learner := gametest.Must(nats.Connect(url))(t)
	t.Cleanup(learner.Close)
	for subject, answer := range answers {
		gametest.Must(learner.Subscribe(subject, answer))(t)
	}
	gametest.OK(t, learner.Flush())
}

// says answers a message with a text.
func says(t *testing.T, text string) func(*nats.Msg) {
	return func(m *nats.Msg) {
		if err := m.Respond([]byte(text)); err != nil {
			t.Error(err)
		}
	}
}

// A learner that was started anew gives a worker the games again that it plays already. The worker plays each once. It reports the
// newest lease until the games are confirmed, and not longer.
func TestRedelivered(t *testing.T) {
	within(t, time.Minute)
	const games = 4
	url := outside(t).ClientURL()
	held, confirm := make(chan []string, 10_000), make(chan struct{})
	var jobs, sent atomic.Int32
	stub(t, url, map[string]func(*nats.Msg){
		"evald.hello": says(t, `{"run":"R"}`),
		cluster.GamesSubject: func(m *nats.Msg) {
			select {
			case <-confirm:
				sent.Add(1)
				says(t, `{"run":"R"}`)(m)
			default:
				says(t, `{"run":"R","later":"not now"}`)(m)
			}
		},
		"evald.job": func(m *nats.Msg) {
			n := jobs.Add(1)
			if n > 3 {
				says(t, `{"run":"R"}`)(m)
				return
			}
			says(t, string(gametest.Must(cluster.Job("R", fmt.Sprint("lease", n), small(0), 0, 1, 2, 3))(t)))(m)
		},
		"evald.worker": func(m *nats.Msg) { held <- gametest.Must(cluster.Held(m.Data))(t) },
	})
	var kept []int
	over := make(chan struct{})
	work(t, cluster.WorkerOptions{Connection: to(url), Kept: func(_ int, numbers []int) {
		if kept = append(kept, numbers...); len(kept) >= games {
			close(over)
		}
	}})
	for got := ""; got != "lease3"; { // the worker has the job, and got it twice more
		got = strings.Join(<-held, " ")
	}
	for range 3 {
		if got := <-held; len(got) != 1 || got[0] != "lease3" {
			t.Fatalf("the worker reports the leases %q while the games are not confirmed, want lease3", got)
		}
	}
	close(confirm)
	<-over
	for len(<-held) > 0 {
	}
	if slices.Sort(kept); !slices.Equal(kept, []int{0, 1, 2, 3}) || sent.Load() != 1 {
		t.Errorf("games %v were confirmed, in %d messages", kept, sent.Load())
	}
}

// A worker gets the content of another network, then only a part of the right one. It plays once the right one has arrived.
func TestWrongNetwork(t *testing.T) {
	within(t, time.Minute)
	url := outside(t).ClientURL()
	network := strings.Repeat("a network ", 100)
	c := small(0)
	c.Network = "net"
	var asked atomic.Int32
	got := make(chan string, 10)
	stub(t, url, map[string]func(*nats.Msg){
		"evald.hello":        says(t, `{"run":"R"}`),
		cluster.GamesSubject: says(t, `{"run":"R"}`),
		"evald.job":          says(t, string(gametest.Must(cluster.JobBy("R", []byte(network), c, 0))(t))),
		"evald.network": func(m *nats.Msg) {
			switch asked.Add(1) {
			case 1:
				says(t, strings.ToUpper(network))(m)
			case 2:
				says(t, network[:10])(m)
			case 3:
				says(t, "")(m)
			default:
				says(t, network)(m)
			}
		},
	})
	work(t, cluster.WorkerOptions{Connection: to(url), Evaluator: func(file, name, _ string) (*eval.Evaluator, func(), error) {
		text, err := os.ReadFile(file)
		got <- string(text)
		return gametest.Must(heuristic.New(eval.Bitsquares))(t), func() {}, err
	}})
	if text := <-got; text != network || asked.Load() != 4 {
		t.Errorf("the worker plays with %.50q after %d requests", text, asked.Load())
	}
}

// A learner that lags answers later than a worker waits. The worker waits longer then, until an answer is in time.
func TestLateAnswers(t *testing.T) {
	within(t, time.Minute)
	const patience = cluster.Patience / 10
	url := outside(t).ClientURL()
	came := make(chan struct{}, 1000)
	stub(t, url, map[string]func(*nats.Msg){
		"evald.hello": says(t, `{"run":"R"}`),
		cluster.GamesSubject: func(m *nats.Msg) {
			came <- struct{}{}
			time.AfterFunc(3*patience, func() { says(t, `{"run":"R"}`)(m) })
		},
	})
	home := filepath.Join(t.TempDir(), "workers", "1")
	gametest.OK(t, os.MkdirAll(home, 0o755))
	spool := gametest.Must(cluster.OpenSpool(filepath.Join(home, "spool-R.jsonl")))(t)
	spool.Add(played(t, small(0), 1)[0])
	spool.Close()
	kept := make(chan []int, 1)
	stop := work(t, cluster.WorkerOptions{
		Connection: to(url).Hurried(patience), Dir: filepath.Dir(filepath.Dir(home)), Kept: func(_ int, numbers []int) { kept <- numbers },
	})
	if numbers := <-kept; len(numbers) != 1 || numbers[0] != 0 {
		t.Errorf("the worker was told of games %v, want 0", numbers)
	}
	_ = stop()         // interrupted
	if len(came) > 5 { // it waits for 1, 2, 4, 8 times its patience
		t.Errorf("the game was sent %d times", len(came))
	}
}
