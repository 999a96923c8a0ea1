package cluster_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/evald/evald/engine/cluster"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/selfplay"
)

// outside is a NATS server that the test has itself.
func outside(t *testing.T) (url string, js jetstream.JetStream) {
	t.Helper()
	url = outsideWith(t, &server.Options{})
	conn := gametest.Must(nats.Connect(url))(t)
	t.Cleanup(conn.Close)
	return url, gametest.Must(jetstream.New(conn))(t)
}

// outsideWith is a NATS server that the test has itself, with options of the test.
func outsideWith(t *testing.T, o *server.Options) (url string) {
	t.Helper()
	o.Host, o.Port, o.JetStream, o.StoreDir, o.NoSigs, o.NoLog = "127.0.0.1", server.RANDOM_PORT, true, t.TempDir(), true, true
	s := gametest.Must(server.NewServer(o))(t)
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server does not start")
	}
	return s.ClientURL()
}

// The server loses jobs, streams and networks, has old jobs again and another network under the name of the right one, again
// and again. The files are those of one machine, and each worker's machine gets the network once.
func TestLosses(t *testing.T) {
	within(t, 2*time.Minute+2*soak(t))
	url, js := outside(t)
	network := filepath.Join(t.TempDir(), "network")
	gametest.OK(t, os.WriteFile(network, []byte(strings.Repeat("a network ", 50_000)), 0o644))
	l := open(t, cluster.Options{Outside: new(to(url))})
	var opened atomic.Int32
	read := func(file, name, _ string) (*eval.Evaluator, func(), error) {
		text, err := os.ReadFile(file)
		if opened.Add(1); err != nil || len(text) != 500_000 {
			return nil, nil, fmt.Errorf("%d bytes, %w", len(text), err)
		}
		return bitsquares(file, name, "")
	}
	start, random := time.Now(), rand.New(rand.NewPCG(5, 6))
	for round := 0; round == 0 || time.Since(start) < soak(t)/2; round++ {
		const games = 520
		c, dir := small(round), t.TempDir()
		c.Network = "net" // no heuristic, so it is asked for its file
		var told ledger
		machine := t.TempDir()
		var stops []func() error
		for range 3 {
			stops = append(stops, work(t, cluster.WorkerOptions{Connection: to(url), Dir: machine, Evaluator: read, Kept: told.kept, Parallel: 32, Batch: 16}))
		}
		var old [][]byte
		losses := 0
		b := selfplay.Batch{Generation: round, Config: c, Dir: dir, Games: games, Network: network}
		b.Report = func(p selfplay.Progress) {
			if random.IntN(3) > 0 {
				return
			}
			losses++
			old = lose(t, js, random, old)
		}
		gametest.OK(t, l.Play(t.Context(), b))
		for _, stop := range stops {
			_ = stop() // interrupted
		}
		same(t, alone(t, c, games), files(t, dir))
		told.check(t, round, dir, games)
		if losses == 0 && round == 0 {
			t.Error("nothing was lost")
		}
		if got, err := filepath.Glob(filepath.Join(machine, "networks", "*")); err != nil || len(got) != 1 {
			t.Errorf("networks %v, %v", got, err)
		}
	}
	t.Logf("the network was opened %d times", opened.Load())
}

// lose makes a server forget or repeat something. It returns the jobs that were there, for the next time.
func lose(t *testing.T, js jetstream.JetStream, random *rand.Rand, old [][]byte) [][]byte {
	ctx := t.Context()
	stream, err := js.Stream(ctx, "JOBS")
	if err != nil {
		return old
	}
	info, err := stream.Info(ctx)
	if err != nil {
		t.Error(err)
		return old
	}
	if m, err := stream.GetMsg(ctx, info.State.FirstSeq); err == nil {
		old = append(old, m.Data)
	}
	switch random.IntN(5) {
	case 0:
		err = stream.Purge(ctx)
	case 1:
		err = js.DeleteStream(ctx, "JOBS")
	case 2:
		err = js.DeleteObjectStore(ctx, "networks")
	case 3: // an older store is there again
		for _, job := range old {
			_, err = js.Publish(ctx, "evald.jobs", job)
		}
	case 4:
		objects, failed := js.ObjectStore(ctx, "networks")
		if failed != nil {
			return old
		}
		all, _ := objects.List(ctx)
		for _, o := range all {
			_, err = objects.PutString(ctx, o.Name, "another one")
		}
	}
	if err != nil {
		t.Log(err) // the learner was at work there too
	}
	return old
}

// A worker's line is so slow that a network needs longer than is waited for it at first. It arrives all the same.
func TestSlowLine(t *testing.T) {
	within(t, time.Minute)
	network := filepath.Join(t.TempDir(), "network")
	gametest.OK(t, os.WriteFile(network, []byte(strings.Repeat("a network ", 10_000)), 0o644))
	url, _ := outside(t)
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
