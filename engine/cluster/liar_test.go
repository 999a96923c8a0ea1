package cluster_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/nats-io/nats.go"

	"github.com/evald/evald/engine/cluster"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/selfplay"
)

// The tests of this file are of a worker that lies: it has the workers' password, and sends what no worker sends.

// A worker asks for answers at subjects that are no inboxes: those that the learner listens to, and those of streams. The learner sends
// nothing there, has nothing in streams, and its jobs and network are its own. Also at a server elsewhere.
func TestAnswersElsewhere(t *testing.T) {
	within(t, time.Minute)
	s := outside(t)
	spy := gametest.Must(nats.Connect(s.ClientURL(), nats.NoEcho()))(t)
	defer spy.Close()
	l := open(t, cluster.Options{Outside: new(to(s.ClientURL()))})
	c := small(0)
	const games = 100
	dir := t.TempDir()
	over := begin(t, l, selfplay.Batch{Config: c, Dir: dir, Games: games})
	seen := gametest.Must(spy.SubscribeSync(">"))(t)
	ask := gametest.Must(cluster.AskJob(l.Status().Run))(t)
	for _, subject := range []string{"evald.hello", "evald.network", "evald.games", "evald.status", "evald.worker"} {
		for _, reply := range []string{"evald.job", "evald.games", "evald.worker", "$JS.API.STREAM.DELETE.x", "x"} {
			gametest.OK(t, spy.PublishRequest(subject, reply, ask))
		}
	}
	for range 2 { // the first may overtake what other subjects have waiting
		for _, subject := range []string{"evald.hello", "evald.network", "evald.games", "evald.status"} {
			gametest.Must(spy.Request(subject, ask, 10*time.Second))(t)
		}
	}
	for n, _, _ := seen.Pending(); n > 0; n-- { // what the learner sent before its last answer
		m := gametest.Must(seen.NextMsg(time.Second))(t)
		if !strings.HasPrefix(m.Subject, "_INBOX.") {
			t.Errorf("the learner sent %.100q to %s", m.Data, m.Subject)
		}
	}
	work(t, cluster.WorkerOptions{Connection: to(s.ClientURL())})
	gametest.OK(t, <-over)
	same(t, alone(t, c, games), files(t, dir))
}

// A worker with the workers' password, but another connection, gets none of the answers that a worker gets.
func TestOwnInbox(t *testing.T) {
	within(t, time.Minute)
	l := open(t, cluster.Options{})
	denied := make(chan error, 100)
	note := nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { denied <- err })
	victim := gametest.Must(nats.Connect(l.Join(), cluster.AsWorker()...))(t)
	defer victim.Close()
	inbox := victim.Opts.InboxPrefix
	for name, options := range map[string][]nats.Option{
		"another inbox": cluster.AsWorker(),
		"no inbox":      {nats.Name("test")},
		"all inboxes":   {nats.Name("test _INBOX.worker.>")},
		"all of a kind": {nats.Name("test _INBOX.worker.*")},
		"the parent":    {nats.Name("test _INBOX.worker")},
	} {
		liar := gametest.Must(nats.Connect(l.Join(), append(options, note)...))(t)
		for _, subject := range []string{">", "_INBOX.>", "_INBOX.worker.>", "_INBOX.worker.*.*", inbox + ".>", inbox + ".x"} {
			gametest.Must(liar.SubscribeSync(subject))(t)
			gametest.OK(t, liar.Flush())
			expectDenied(t, denied, name+": subscribe "+subject)
		}
		liar.Close()
	}
	gametest.Must(victim.Request("evald.hello", []byte("{}"), 10*time.Second))(t)
}

// Reports with numbers and names that no worker has are left out. The status answers, its sums are those of honest workers, and
// nothing in it moves a terminal's cursor.
func TestLyingReports(t *testing.T) {
	within(t, time.Minute)
	var log lockedBuffer
	l := open(t, cluster.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	conn := wire(t, l)
	for i, lie := range []string{
		`"games_per_second":1.7e308`, `"games_per_second":-1`, `"games_per_second":1e400`, `"spool":4611686018427387904`, `"spool":-1`,
		`"begun":4611686018427387904`, `"begun":-9223372036854775808`, `"games":9223372036854775807`, `"kept":-5`, `"spool_older":1e18`,
		`"generation":-1`, `"generation":9000000000`, `"network":"\u001b[2J"`, `"fetching":"a\nfake line"`, `"network":"\u202eevil"`,
		`"network":"` + strings.Repeat("x", 201) + `"`, `"worker":"twice"`,
	} {
		gametest.OK(t, conn.Publish("evald.worker", fmt.Appendf(nil, `{"worker":"liar-%d",%s}`, i, lie)))
	}
	for _, name := range []string{`\u001b[31mEVIL\u001b]0;pwn\u0007`, `a\nfake line`, `\u009b2J`, ``, strings.Repeat("x", 201), "\xff"} {
		gametest.OK(t, conn.Publish("evald.worker", []byte(`{"worker":"`+name+`","games_per_second":1}`)))
	}
	honest := cluster.Worker{Name: "honest", Network: "002", Begun: 10, Spool: 2, PerSecond: 1.5, Games: 3}
	gametest.OK(t, conn.Publish("evald.worker", gametest.Must(json.Marshal(honest))(t)))
	heard := func(workers int) (s cluster.Status) {
		for s.Heard < workers { // on a busy machine, the learner reads reports for longer than Ask waits
			s, _ = cluster.Ask(t.Context(), connection(l))
		}
		return s
	}
	s := heard(1)
	if s.Heard != 1 || s.Workers[0].Name != "honest" || s.Spool != 2 || s.Played != 1.5 || len(s.Networks) != 1 || s.Networks[0].Begun != 10 {
		t.Errorf("status %+v", s)
	}
	if i := strings.IndexFunc(log.String(), func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); i >= 0 {
		t.Errorf("the log has %q", log.String()[i:])
	}
	// The greatest numbers that are taken, and the longest names, of more workers than are listed.
	for n := range 1200 {
		w := cluster.Worker{
			Name: fmt.Sprintf("%0190d", n), Network: strings.Repeat("<", 190) + fmt.Sprint(n), Fetching: strings.Repeat(`"`, 190) + fmt.Sprint(n),
			Generation: 1e9, Begun: 1e9, Games: 1e15, PerSecond: 1e9, Kept: 1e15, Spool: 1e9, Older: 1e9,
		}
		gametest.OK(t, conn.Publish("evald.worker", gametest.Must(json.Marshal(w))(t)))
	}
	s = heard(1201)
	if len(s.Workers) < 100 || len(s.Networks) < 100 || s.Spool != 1200e9+2 || math.Abs(s.Played-1200e9-1.5) > 1 {
		t.Errorf("%d workers and %d networks are listed; in spools %d, %v games/s", len(s.Workers), len(s.Networks), s.Spool, s.Played)
	}
}

// What workers send cannot fill the log: it has some lines of each ten seconds, and the number of those that were left out.
func TestLogOfLies(t *testing.T) {
	within(t, time.Minute)
	var log lockedBuffer
	l := open(t, cluster.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	conn := wire(t, l)
	start := time.Now()
	const lies = 1000
	for range lies {
		for subject, text := range map[string]string{"evald.games": "[", "evald.hello": `{"worker":"liar","version":"x"}`, "evald.worker": "["} {
			gametest.OK(t, conn.Publish(subject, []byte(text)))
		}
		gametest.OK(t, conn.PublishRequest("evald.hello", "evald.hello", []byte(`{"worker":"liar","version":"v"}`)))
		gametest.Must(conn.Request("evald.games", []byte("["), 10*time.Second))(t) // so that none is dropped
	}
	most := 50 * (2 + int(time.Since(start)/(10*time.Second)))
	if lines := strings.Count(log.String(), "\n"); lines > most || lines < 10 || l.Status().Refused < lies {
		t.Errorf("%d lines for %d messages, want %d at most; %d were refused", lines, 5*lies, most, l.Status().Refused)
	}
}

// A worker sends games far beyond those that were given out, which would wait in memory, and keeps jobs that it does not play. Others
// get these jobs, and the files are those of one machine.
func TestUnplayedJobs(t *testing.T) {
	within(t, time.Minute)
	l := open(t, cluster.Options{})
	conn, c := wire(t, l), small(0)
	over := begin(t, l, selfplay.Batch{Config: c, Dir: t.TempDir(), Games: cluster.Window + 100})
	far := *played(t, c, 1)[0]
	far.Number = cluster.Window + 50
	run, want := l.Status().Run, fmt.Sprintf("game %d is in no job yet: games up to %d are", far.Number, cluster.Window-1)
	if _, later := deliver(t, conn, run, cluster.Settings(c, cluster.Window+100), &far); later != want || l.Status().Games != 0 {
		t.Errorf("later %q, want %q; %d games are kept", later, want, l.Status().Games)
	}
	select {
	case err := <-over:
		t.Error(err)
	default:
	}

	other := open(t, cluster.Options{})
	const games = 60
	dir := t.TempDir()
	over = begin(t, other, selfplay.Batch{Config: c, Dir: dir, Games: games})
	conn, run = wire(t, other), other.Status().Run
	var all []int
	var leases []string
	for len(all) < games {
		m := gametest.Must(conn.Request("evald.job", gametest.Must(cluster.AskJob(run))(t), 10*time.Second))(t)
		lease, missing, err := cluster.GotJob(m.Data)
		gametest.OK(t, err)
		all, leases = append(all, missing...), append(leases, lease)
	}
	if slices.Sort(all); all[0] != 0 || all[games-1] != games-1 || len(slices.Compact(all)) != games {
		t.Errorf("jobs have the games %v", all)
	}
	m := gametest.Must(conn.Request("evald.job", gametest.Must(cluster.AskJob(run))(t), 10*time.Second))(t)
	if lease, _, err := cluster.GotJob(m.Data); lease != "" || err != nil || other.Status().Jobs != 0 {
		t.Errorf("there is another job: %q, %v", lease, err)
	}
	holds := gametest.Must(json.Marshal(map[string]any{"worker": "liar", "holds": leases[1:]}))(t)
	work(t, cluster.WorkerOptions{Connection: connection(other)})
	tick := time.NewTicker(cluster.Lease / 8)
	defer tick.Stop()
	for ended := false; !ended; {
		select {
		case err := <-over:
			gametest.OK(t, err)
			ended = true
		case <-tick.C:
			gametest.OK(t, conn.Publish("evald.worker", holds))
		}
	}
	same(t, alone(t, c, games), files(t, dir))
}
