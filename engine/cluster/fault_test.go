package cluster_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/evald/evald/engine/cluster"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/selfplay"
)

// outside is a NATS server that the test has itself.
func outside(t *testing.T) *server.Server {
	t.Helper()
	return outsideWith(t, &server.Options{})
}

// outsideWith is a NATS server that the test has itself, with options of the test.
func outsideWith(t *testing.T, o *server.Options) *server.Server {
	t.Helper()
	o.Host, o.Port, o.NoSigs, o.NoLog = "127.0.0.1", server.RANDOM_PORT, true, true
	s := gametest.Must(server.NewServer(o))(t)
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server does not start")
	}
	return s
}

// The server loses one message of ten, either way: jobs, games, confirmations, parts of networks, reports. The files are those of one machine,
// and each worker's machine keeps the network once.
func TestLosses(t *testing.T) {
	within(t, 2*time.Minute+2*soak(t))
	s := outside(t)
	for _, subject := range []string{"evald.job", "evald.network", "evald.games", "evald.worker", "_INBOX.worker.>"} {
		gametest.OK(t, s.GlobalAccount().AddWeightedMappings(subject, server.NewMapDest(subject, 90)))
	}
	url := s.ClientURL()
	network := filepath.Join(t.TempDir(), "network")
	gametest.OK(t, os.WriteFile(network, []byte(strings.Repeat("a network ", 50_000)), 0o644))
	l := open(t, cluster.Options{Outside: new(to(url))})
	read := func(file, name, _ string) (*eval.Evaluator, func(), error) {
		text, err := os.ReadFile(file)
		if err != nil || len(text) != 500_000 {
			return nil, nil, fmt.Errorf("%d bytes, %w", len(text), err)
		}
		return bitsquares(file, name, "")
	}
	for start, round := time.Now(), 0; round == 0 || time.Since(start) < soak(t)/2; round++ {
		const games = 520
		c, dir := small(round), t.TempDir()
		c.Network = "net" // no heuristic, so it is asked for its file
		var told ledger
		machine := t.TempDir()
		var stops []func() error
		for range 3 {
			stops = append(stops, work(t, cluster.WorkerOptions{Connection: to(url).Hurried(cluster.Patience / 5), Dir: machine, Evaluator: read, Kept: told.kept, Parallel: 32, Batch: 16}))
		}
		gametest.OK(t, l.Play(t.Context(), selfplay.Batch{Generation: round, Config: c, Dir: dir, Games: games, Network: network}))
		for _, stop := range stops {
			_ = stop() // interrupted
		}
		same(t, alone(t, c, games), files(t, dir))
		told.check(t, round, dir, games)
		if got, err := filepath.Glob(filepath.Join(machine, "networks", "*")); err != nil || len(got) != 1 {
			t.Errorf("networks %v, %v", got, err)
		}
	}
}

// A worker's line is so slow that a network needs longer than is waited for it at first. It arrives all the same.
func TestSlowLine(t *testing.T) {
	within(t, time.Minute)
	network := filepath.Join(t.TempDir(), "network")
	gametest.OK(t, os.WriteFile(network, []byte(strings.Repeat("a network ", 10_000)), 0o644))
	url := outside(t).ClientURL()
	slow := newRelay(t, after(url, "//"))
	slow.mu.Lock()
	slow.rate = 200_000
	slow.mu.Unlock()
	l := open(t, cluster.Options{Outside: new(to(url))})
	work(t, cluster.WorkerOptions{Connection: to("nats://" + slow.l.Addr().String()).Hurried(cluster.Patience / 5), Parallel: 16, Batch: 8})
	gametest.OK(t, l.Play(t.Context(), selfplay.Batch{Config: small(0), Dir: t.TempDir(), Games: 20, Network: network}))
}

// A worker is cut off, plays on, and returns when others have played its games. Then all are cut off.
func TestPartition(t *testing.T) {
	within(t, 5*time.Minute)
	cut := time.Second / 2
	if soak(t) > 0 {
		cut = time.Minute
	}
	l := open(t, cluster.Options{})
	host := after(l.Join(), "@")
	var relays []*relay
	var told ledger
	for range 2 {
		r := newRelay(t, host)
		relays = append(relays, r)
		url := strings.Replace(l.Join(), host, r.l.Addr().String(), 1)
		work(t, cluster.WorkerOptions{Connection: to(url), Kept: told.kept, Parallel: 24, Batch: 16})
	}
	mend := func() { relays[0].set(false); relays[1].set(false) }
	at := []struct {
		games int
		what  func()
	}{
		{100, func() { relays[0].set(true) }},
		{200, mend},
		{250, func() { relays[1].set(true) }},
		{350, mend},
		{400, func() { relays[0].set(true); relays[1].set(true); time.AfterFunc(cut, mend) }},
		{450, func() { relays[0].set(true) }},
	}
	report := func(p selfplay.Progress) {
		for len(at) > 0 && p.Games >= at[0].games {
			at[0].what()
			at = at[1:]
		}
	}
	playSame(t, l, selfplay.Batch{Config: small(0), Games: 560, Report: report}, &told)
	if len(at) > 0 {
		t.Errorf("not cut: %d", len(at))
	}
}
