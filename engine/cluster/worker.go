package cluster

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/short"
)

// WorkerOptions are those of Work.
type WorkerOptions struct {
	Connection
	Version  string // of the program; the learner must have the same
	Dir      string // for networks and for games that are not confirmed; workers of one machine share it
	Parallel int    // games at once at most
	Batch    int    // leaves that are evaluated together
	Log      *slog.Logger

	// Evaluator opens the evaluator of a network, a file; its answers call it by name, and path is selfplay.Config.Path. The file is ""
	// if name is a heuristic.
	Evaluator func(file, name, path string) (e *eval.Evaluator, done func(), err error)
	// Kept, unless nil, hears of games that the learner has confirmed. All of the worker waits for it.
	Kept func(generation int, numbers []int)
}

// Work plays games for the learner at a server until ctx ends, or the learner refuses this worker (ErrRefused), or the server
// does. It waits for a server and a learner that are not there, also at its start.
func Work(ctx context.Context, o WorkerOptions) error {
	home, err := ownDir(durable.OS, o.Dir)
	if err != nil {
		return err
	}
	defer home.Close()
	host, _ := os.Hostname() // "" will do
	w := &worker{pace: cmp.Or(o.pace, usual), o: o, home: home, name: printable(short.To(host, 100)) + "-" + strings.ToLower(rand.Text()[:6]), inbox: newInbox(), answers: make(chan *nats.Msg, 64), lost: make(chan error, 1)}
	w.o.Log = o.Log.With("worker", w.name)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if err := w.dial(ctx, cancel); err != nil {
		return err
	}
	defer w.conn.Close()
	for {
		err := w.play(ctx)
		if cause := context.Cause(ctx); ctx.Err() != nil && cause != ctx.Err() {
			return cause // the server has ended the connection
		}
		if !errors.Is(err, errOtherRun) {
			return err
		}
		w.o.Log.Info("the learner has begun anew")
	}
}

// ownDir is a folder that no other worker of this machine has.
func ownDir(disk durable.FS, dir string) (*durable.Dir, error) {
	for n := 1; ; n++ {
		d, err := durable.OpenDirIn(disk, filepath.Join(dir, "workers", fmt.Sprint(n)))
		if !errors.Is(err, durable.ErrFolderInUse) {
			return d, err
		}
	}
}

// worker is one process that plays games.
type worker struct {
	pace
	o    WorkerOptions
	name string
	home *durable.Dir

	conn    *nats.Conn
	inbox   string         // what the subjects of answers begin with
	answers chan *nats.Msg // at inbox, and the number of the question
	lost    chan error     // the connection, and all answers with it

	questions int // that earlier sessions asked
}

// dial connects, and waits for a server that is not there. A server that wants other credentials, or has a wrong
// certificate, is an error. gone is called when the server has ended the connection for good.
func (w *worker) dial(ctx context.Context, gone func(error)) (err error) {
	closed := nats.ClosedHandler(func(c *nats.Conn) {
		if err := c.LastError(); err != nil {
			gone(fmt.Errorf("%s: %w", w.o.plain(), err))
		}
	})
	lost := nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
		if err != nil {
			w.o.Log.Warn("the server is lost; playing on", "error", err)
		}
		select {
		case w.lost <- cmp.Or(err, nats.ErrConnectionClosed):
		default: // it was not seen yet that it was lost before
		}
	})
	back := nats.ReconnectHandler(func(*nats.Conn) { w.o.Log.Info("the server is back") })
	for said := false; ; said = true {
		if w.conn, err = w.o.connect(w.name, w.inbox, w.o.Log, closed, lost, back, nats.ReconnectBufSize(-1)); err == nil {
			break
		}
		if !absent(err) {
			return err
		}
		if !said {
			w.o.Log.Warn("waiting for the server, trying again and again", "every", w.pause, "error", err)
		}
		if err := sleep(ctx, w.pause); err != nil {
			return err
		}
	}
	_, err = w.conn.ChanSubscribe(w.inbox+".*", w.answers)
	return err
}

// sleep waits; its error is that of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// absent reports whether an error of a connection is that of a server that is not there. One that is there may have a wrong
// certificate, or want other credentials.
func absent(err error) bool {
	if errors.Is(err, nats.ErrNoServers) || errors.Is(err, nats.ErrTimeout) || errors.Is(err, io.EOF) {
		return true
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return true
	}
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op != "remote error"
}
