package cluster

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/selfplay"
)

// Options of a Learner.
type Options struct {
	Version string // of the program; workers must have the same
	Dir     string // for the run's number and the workers' password
	Log     *slog.Logger

	// One of the two: the server inside, or one elsewhere.
	Server  Server
	Outside *Connection

	pace pace // zero: usual
}

// Learner hands out jobs and keeps the games that come in. Close it.
type Learner struct {
	pace
	o        Options
	run      string // its number, random
	password string // of workers
	server   *server.Server
	conn     *nats.Conn
	incoming *nats.Subscription // games
	progress chan struct{}      // games were kept
	done     sync.WaitGroup
	notices  notices

	// keeping is held while games are looked at and written, which waits for the disk. playing and last change, and the
	// store is written, under it alone. mu is held for moments: who answers a worker or the status waits for it, and not for
	// the disk.
	keeping sync.Mutex

	mu      sync.Mutex
	playing *generation // nil between generations
	last    int         // the last generation that is complete, -1 if it is not known
	workers map[string]*Worker
	total   Status // of its life: Kept, Duplicates, Refused and Failures
	network []byte // the one that workers can ask for
	sha256  string // of network
}

// generation is one whose games are being played.
type generation struct {
	job   job // without Lease and Missing
	id    string
	store *selfplay.Store
	grew  time.Time // when the last new game came
	start time.Time // of Play
	had   int       // games that were there at the start

	given  int               // games below this were in a job
	again  []span            // which were, and need another worker
	leases map[string]*lease // by their names
}

// Open starts the server, or joins one, and listens to workers. It fails if another learner is there.
func Open(ctx context.Context, o Options) (*Learner, error) {
	l := &Learner{pace: cmp.Or(o.pace, usual), o: o, last: -1, workers: map[string]*Worker{}, progress: make(chan struct{}, 1), notices: notices{log: o.Log}}
	if err := l.begin(); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

func (l *Learner) begin() (err error) {
	if err := durable.MkdirAllIn(durable.OS, l.o.Dir); err != nil {
		return err
	}
	if l.run, err = secret(durable.OS, filepath.Join(l.o.Dir, "run")); err != nil {
		return err
	}
	if l.o.Outside != nil {
		l.conn, err = l.o.Outside.connect(learnerUser, learnerInbox, l.o.Log)
	} else {
		err = l.serve()
	}
	if err != nil {
		return err
	}
	if answer, err := l.conn.Request(helloSubject, []byte("{}"), l.patience); err == nil {
		var r reply
		_ = json.Unmarshal(answer.Data, &r) // the run is for people
		return fmt.Errorf("another learner is at this server, of run %.10q: give each an account of its own", r.Run)
	}
	return l.listen()
}

// serve starts the server inside and connects to it.
func (l *Learner) serve() (err error) {
	if l.password = l.o.Server.Password; l.password == "" {
		if l.password, err = secret(durable.OS, filepath.Join(l.o.Dir, "password")); err != nil {
			return err
		}
	}
	own := rand.Text()
	if l.server, err = l.o.Server.start(own, l.password); err != nil {
		return err
	}
	l.conn, err = inside(l.server, own, func(_ *nats.Conn, _ *nats.Subscription, err error) {
		l.notices.say(slog.LevelWarn, "workers send more than the learner reads; they send it again", "error", err)
	})
	return err
}

// Join is the URL for workers on this machine, with their password; others put in the name of this machine. It is empty if
// the server is elsewhere.
func (l *Learner) Join() string {
	if l.server == nil {
		return ""
	}
	scheme := "nats"
	if l.o.Server.Certificate != "" {
		scheme = "tls"
	}
	u := url.URL{Scheme: scheme, User: url.UserPassword(workerUser, l.password), Host: l.server.Addr().String()}
	return u.String()
}

// Close ends the server inside, or leaves the one elsewhere. Play must have returned.
func (l *Learner) Close() {
	if l.conn != nil {
		l.conn.Close()
	}
	l.done.Wait()
	if l.server != nil {
		l.server.Shutdown()
		l.server.WaitForShutdown()
	}
}

// Play lets workers play the games of a generation that are missing, and returns when all are in files. Generations must be
// played in order, also those that are complete.
func (l *Learner) Play(ctx context.Context, b selfplay.Batch) error {
	store, err := selfplay.OpenStore(b.Dir, b.Config, b.Games)
	if err != nil {
		return err
	}
	g := &generation{
		store: store, grew: time.Now(), start: time.Now(), had: store.Games(), leases: map[string]*lease{},
		job: job{Generation: b.Generation, Config: b.Config, All: b.Games},
	}
	var network []byte
	if b.Network != "" {
		if network, err = os.ReadFile(b.Network); err != nil {
			return errors.Join(err, store.Close())
		}
		g.job.Network, g.job.Bytes = sum(network), len(network)
	}
	g.id = g.job.settings()
	l.mu.Lock()
	l.network, l.sha256 = network, g.job.Network
	l.mu.Unlock()
	l.turn(g, b.Generation-1)
	err = l.play(ctx, g, b.Report)
	last := b.Generation - 1
	if err == nil {
		last = b.Generation
	}
	l.turn(nil, last)
	return errors.Join(err, store.Close())
}

// turn begins a generation, or ends it if playing is nil. When it returns, no games of the one before are being written.
func (l *Learner) turn(playing *generation, last int) {
	l.keeping.Lock()
	defer l.keeping.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.playing, l.last = playing, last
}

// play waits until all games are there. Jobs of workers that are silent go back.
func (l *Learner) play(ctx context.Context, g *generation, report func(selfplay.Progress)) error {
	tick := time.NewTicker(l.pause)
	defer tick.Stop()
	for {
		had := g.store.Games()
		p := selfplay.Progress{Games: had, All: g.job.All, Played: had - g.had, Proved: g.store.Proved(), Elapsed: time.Since(g.start)}
		if report != nil && p.Played > 0 {
			report(p)
		}
		if l.complete(g) {
			return nil
		}
		l.mu.Lock()
		g.expire(time.Now(), l.lease)
		l.mu.Unlock()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		case <-l.progress:
			select { // not for each game
			case <-ctx.Done():
			case <-time.After(l.pause / 10):
			}
		}
	}
}

// complete reports whether all games are in files. It writes the last file, if that has failed before.
func (l *Learner) complete(g *generation) bool {
	if g.store.First() < g.job.All {
		return false
	}
	l.keeping.Lock()
	defer l.keeping.Unlock()
	return l.add(g) == nil
}
