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
	"github.com/evald/evald/engine/short"
)

// Options of a Learner.
type Options struct {
	Version string // Protocol; workers must have the same
	Program string // version of the program, for people
	Dir     string // folder for the run's number and the workers' password
	Shared  string // file with the workers' password of all new runs, so that workers can wait for the next one; "" is a password of the run's own
	Log     *slog.Logger

	// Exactly one of the two is used: a server inside the learner, or one elsewhere.
	Server  Server
	Outside *Connection

	pace pace // zero means the default
}

// Learner leases jobs and stores the games that arrive. It must be closed.
type Learner struct {
	pace
	o        Options
	password string // of workers
	server   *server.Server
	conn     *nats.Conn
	incoming *nats.Subscription // games
	progress chan struct{}      // signals that games were stored
	done     sync.WaitGroup
	closed   chan struct{} // is closed by Close

	// keeping is held while games are checked and written, which waits for the disk. mu guards the state and is held only briefly, so that
	// replies to workers and the status do not wait for the disk. Starting or ending a generation requires both.
	keeping sync.Mutex
	mu      sync.Mutex
	state   *learnerState
}

// Open starts the server, or connects to one, and listens for workers. It fails if the server already has a learner.
func Open(ctx context.Context, o Options) (*Learner, error) {
	p := cmp.Or(o.pace, usual)
	l := &Learner{pace: p, o: o, progress: make(chan struct{}, 1), closed: make(chan struct{}), state: newLearnerState(o.Version, p, o.Log, rand.Text)}
	l.state.program = o.Program
	l.done.Go(l.listenForSilence)
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
	file := filepath.Join(l.o.Dir, "run")
	if l.state.run, err = secret(durable.OS, file, rand.Text()); err != nil {
		return err
	}
	if !runName.MatchString(l.state.run) { // workers would refuse it, each by itself
		return fmt.Errorf("%s: is damaged: it has %s in place of the run's name, capital letters and digits; remove the file, and the run gets a new name", file, short.Quote(l.state.run))
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
		_ = json.Unmarshal(answer.Data, &r) // the run is only for the message to the user
		return fmt.Errorf("another learner, of run %.10q, uses this server: give each learner an account of its own", r.Run)
	}
	return l.listen()
}

// serve starts the server inside the learner and connects to it.
func (l *Learner) serve() (err error) {
	if l.password = l.o.Server.Password; l.password == "" {
		fresh := rand.Text()
		if l.o.Shared != "" {
			if err := durable.MkdirAllIn(durable.OS, filepath.Dir(l.o.Shared)); err != nil {
				return err
			}
			if fresh, err = secret(durable.OS, l.o.Shared, fresh); err != nil {
				return err
			}
		}
		if l.password, err = secret(durable.OS, filepath.Join(l.o.Dir, "password"), fresh); err != nil {
			return err
		}
	}
	own := rand.Text()
	if l.server, err = l.o.Server.start(own, l.password); err != nil {
		return err
	}
	l.conn, err = inside(l.server, own, func(_ *nats.Conn, _ *nats.Subscription, err error) {
		l.say(slog.LevelWarn, "workers send more than the learner reads; they send it again", "error", err)
	})
	return err
}

// Join is the URL for workers on this machine, including the password. Workers on other machines replace the host with this machine's name.
// Join is empty if the server is elsewhere.
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

// Close stops the server inside, or disconnects from the one elsewhere. Play must have returned.
func (l *Learner) Close() {
	close(l.closed)
	if l.conn != nil {
		l.conn.Close()
	}
	l.done.Wait()
	if l.server != nil {
		l.server.Shutdown()
		l.server.WaitForShutdown()
	}
}

// listenForSilence logs lost workers, also while no games are played, until Close.
func (l *Learner) listenForSilence() {
	tick := time.NewTicker(l.lost / 4)
	defer tick.Stop()
	for {
		select {
		case <-l.closed:
			return
		case now := <-tick.C:
			l.mu.Lock()
			l.state.heard(now)
			l.mu.Unlock()
		}
	}
}

// Play lets workers play the missing games of a generation, and returns when all games are in files. Generations must be played in order,
// including complete ones.
func (l *Learner) Play(ctx context.Context, b selfplay.Batch) error {
	store, err := selfplay.OpenStore(b.Dir, b.Config, b.Games)
	if err != nil {
		return err
	}
	var network []byte
	if b.Network != "" {
		if network, err = os.ReadFile(b.Network); err != nil {
			return errors.Join(err, store.Close())
		}
	}
	g := newGeneration(b, network, store, l.pace.window, time.Now())
	l.turn(func(s *learnerState) { s.begin(g) })
	err = l.play(ctx, g, b.Report)
	l.turn(func(s *learnerState) { s.end(err == nil) })
	return errors.Join(err, store.Close())
}

// turn calls change to begin or end a generation. While it runs, no games are written.
func (l *Learner) turn(change func(*learnerState)) {
	l.keeping.Lock()
	defer l.keeping.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	change(l.state)
}

// play returns when all games are stored. Meanwhile it ends the leases of silent workers.
func (l *Learner) play(ctx context.Context, g *generation, report func(selfplay.Progress)) error {
	tick := time.NewTicker(l.pause)
	defer tick.Stop()
	for {
		if p := g.progress(time.Now()); report != nil && p.Played > 0 {
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
			select { // limits the rate of reports
			case <-ctx.Done():
			case <-time.After(l.pause / 10):
			}
		}
	}
}

// complete reports whether all games are in files. If writing the last file has failed, it tries again.
func (l *Learner) complete(g *generation) bool {
	if g.store.First() < g.job.All {
		return false
	}
	l.keeping.Lock()
	defer l.keeping.Unlock()
	return l.add(g) == nil
}

// Status returns the current status.
func (l *Learner) Status() Status {
	lag := l.lag()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state.status(time.Now(), lag)
}

// say logs a line that a worker has caused.
func (l *Learner) say(level slog.Level, text string, about ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state.notices.say(time.Now(), level, text, about...)
}
