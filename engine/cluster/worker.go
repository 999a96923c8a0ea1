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
	Version  string // Protocol; the learner must have the same
	Dir      string // folder for networks and unconfirmed games; workers on one machine share it
	Parallel int    // maximum number of concurrent games
	Batch    int    // leaves per batch
	Log      *slog.Logger

	// Evaluator opens the evaluator of a network's file. name is the Source name of its answers, and path is selfplay.Config.Path. file is
	// "" if name is a heuristic.
	Evaluator func(file, name, path string) (e *eval.Evaluator, done func(), err error)
	// Kept, if not nil, is called with the numbers of games that the learner has confirmed. The worker waits until it returns.
	Kept func(generation int, numbers []int)
}

// Work plays games for the learner at a server until ctx ends, until the learner rejects this worker (ErrRefused), or if the server rejects
// it at the start. If the server or the learner is absent, even at the start, or later has another password, Work waits for it.
func Work(ctx context.Context, o WorkerOptions) error {
	home, err := ownDir(durable.OS, o.Dir)
	if err != nil {
		return err
	}
	defer home.Close()
	host, _ := os.Hostname() // "" is accepted
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
			return cause // the server has closed the connection
		}
		if !errors.Is(err, errOtherRun) {
			return err
		}
		w.o.Log.Info("the learner has started another run")
	}
}

// ownDir creates and locks a folder for this worker.
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
	inbox   string         // prefix of the subjects of replies
	answers chan *nats.Msg // receives replies; their subject is inbox and the number of the question
	lost    chan error     // receives an error when the connection, and with it all replies, are lost

	questions int // number of questions in earlier sessions
}

// dial connects to the server; if the server is absent, it waits. Rejected credentials and an invalid certificate are errors. gone is
// called when the server has closed the connection for good.
func (w *worker) dial(ctx context.Context, gone func(error)) (err error) {
	closed := nats.ClosedHandler(func(c *nats.Conn) {
		if err := c.LastError(); err != nil {
			gone(fmt.Errorf("%s: %w", w.o.plain(), err))
		}
	})
	lost := nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
		if err != nil {
			w.o.Log.Warn("lost the server; games continue", "error", err)
		}
		select {
		case w.lost <- cmp.Or(err, nats.ErrConnectionClosed):
		default: // an earlier loss is still unhandled
		}
	})
	back := nats.ReconnectHandler(func(*nats.Conn) { w.o.Log.Info("the server is back") })
	for said := false; ; said = true {
		if w.conn, err = w.o.connect(w.name, w.inbox, w.o.Log, closed, lost, back, nats.ReconnectBufSize(-1), nats.IgnoreAuthErrorAbort()); err == nil {
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

// sleep waits for d. If ctx ends first, it returns ctx's error.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// absent reports whether a connection failed because no server answers, rather than because of an invalid certificate or rejected
// credentials.
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
