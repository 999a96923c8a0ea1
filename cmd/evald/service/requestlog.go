package service

import (
	"context"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/evald/evald/engine/short"
)

// maxLogged is how long a client's text or a refusal may be in the log, in bytes.
const maxLogged = 256

// attributes are those of a request's log record. Status is an HTTP status, an int, or a codes.Code.
func (r *request) attributes(status any) []any {
	if code, ok := status.(codes.Code); ok {
		status = code.String()
	}
	a := []any{"protocol", r.protocol}
	text := func(name, value string) {
		if value != "" {
			a = append(a, name, short.To(value, maxLogged))
		}
	}
	text("method", r.method)
	text("path", r.path)
	a = append(a, "status", status, "remote", r.remote)
	text("model", r.model)
	text("id", r.id)
	if r.rows > 0 {
		a = append(a, "rows", r.rows)
	}
	if r.token != nil {
		a = append(a, "token", "line "+strconv.Itoa(r.token.number))
	}
	return a
}

// logged logs a request that was answered: at level debug each, at level info those that were refused. Status is that of
// attributes; refusal says why the request was not done, or is empty.
func (s *Server) logged(r *request, status any, refusal string) {
	log, now := s.config.Log, time.Now()
	if log.Enabled(context.Background(), slog.LevelDebug) {
		log.Debug("request", append(r.attributes(status), "duration", now.Sub(r.began))...)
	}
	if refusal == "" || !log.Enabled(context.Background(), slog.LevelInfo) {
		return
	}
	if hidden, ok := s.refusals.let(status, now); ok {
		log.Info("refused", append(r.attributes(status), "why", short.To(refusal, maxLogged), "not_shown", hidden)...)
	}
}

// loggedGRPC logs a call of gRPC that has ended; err is why it was not answered, or nil.
func (s *Server) loggedGRPC(r *request, err error) {
	refusal := ""
	switch status.Code(err) {
	case codes.InvalidArgument, codes.Unauthenticated, codes.PermissionDenied, codes.ResourceExhausted:
		refusal = status.Convert(err).Message()
	}
	s.logged(r, status.Code(err), refusal)
}

// limiter lets a few records of each kind through in a period, so that clients cannot fill the log.
type limiter struct {
	mu    sync.Mutex
	kinds map[any]while
}

// while is a period of one kind's records.
type while struct {
	began         time.Time
	shown, hidden int
}

// shownRefusals is how many records of a kind are logged in a period of limiterWhile.
const (
	shownRefusals = 10
	limiterWhile  = 10 * time.Second
)

// let reports whether a record of the kind may be logged now, and how many were dropped since the last logged one.
func (l *limiter) let(kind any, now time.Time) (hidden int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.kinds[kind]
	if now.Sub(w.began) >= limiterWhile { // or there was none
		w.began, w.shown = now, 0
	}
	if ok = w.shown < shownRefusals; ok {
		w.shown++
		hidden, w.hidden = w.hidden, 0
	} else {
		w.hidden++
	}
	if l.kinds == nil {
		l.kinds = map[any]while{}
	}
	l.kinds[kind] = w
	return hidden, ok
}
