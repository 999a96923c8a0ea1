package service

import (
	"cmp"
	"context"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/evald/evald/engine/short"
)

// maxLogged is the maximum length of a client's text or a refusal in the log, in bytes.
const maxLogged = 256

// attributes returns the attributes of a request's log record. status is an HTTP status (int) or a codes.Code.
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
		a = append(a, "token", cmp.Or(r.token.name, "line "+strconv.Itoa(r.token.number)))
	}
	return a
}

// logged counts a request that has ended for its client, and logs it: every one at level debug, and also, with its reason, a refused one at
// level info. refusal is the reason, or "". status is as in attributes.
func (s *Server) logged(r *request, status any, refusal string) {
	s.clients.count(r, status)
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

// loggedGRPC logs a gRPC call that has ended. err is nil or the call's status.
func (s *Server) loggedGRPC(r *request, err error) {
	refusal := ""
	switch status.Code(err) {
	case codes.InvalidArgument, codes.Unauthenticated, codes.PermissionDenied, codes.ResourceExhausted:
		refusal = status.Convert(err).Message()
	}
	s.codes.WithLabelValues(cmp.Or(s.methods[r.method], "unknown"), status.Code(err).String()).Inc()
	s.logged(r, status.Code(err), refusal)
}

// limiter allows a few records of each kind per period, so that clients cannot fill the log.
type limiter struct {
	mu    sync.Mutex
	kinds map[any]while
}

// while is the current period of one kind of records.
type while struct {
	began         time.Time
	shown, hidden int
}

// shownRefusals is the maximum number of records of a kind that are logged in a period of limiterWhile.
const (
	shownRefusals = 10
	limiterWhile  = 10 * time.Second
)

// let reports whether a record of the kind may be logged now. hidden is the number of records dropped since the last one logged.
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
