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

// WorkerOptions are the options of Work.
type WorkerOptions struct {
	Connection
	Version  string // of the program; the learner must have the same
	Dir      string // for networks and unconfirmed games; workers of one machine share it
	Parallel int    // maximum concurrent games
	Batch    int    // leaves per batch
	Log      *slog.Logger

	// Evaluator opens the evaluator of a network file. Its answers carry name, and path is selfplay.Config.Path. file is "" if name is a
	// heuristic.
	Evaluator func(file, name, path string) (e *eval.Evaluator, done func(), err error)
	// Kept, unless nil, is called with games that the learner has confirmed. It blocks the worker.
	Kept func(generation int, numbers []int)
}

// Work plays games for the learner at a server until ctx ends, or the learner (ErrRefused) or the server refuses this worker. It waits for
// an absent server or learner, even at the start.
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

// ownDir is a folder for this worker alone.
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
	inbox   string         // prefix of the subjects of answers
	answers chan *nats.Msg // at inbox and the number of the question
	lost    chan error     // the connection and all its answers are lost

	questions int // asked by earlier sessions
}

// dial connects, and waits for an absent server. Rejected credentials and an invalid certificate are errors. gone is called when the server
// has ended the connection for good.
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
		default: // an earlier loss was not handled yet
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

// sleep waits for d; its error is that of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// absent reports whether an error of a connection means that no server answers, instead of an invalid certificate or rejected credentials.
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
