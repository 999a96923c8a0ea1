package service

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/evald/evald/engine/short"
)

// logEntry is what the log says about a request. Level debug logs every request, level info the refused ones. The code that
// answers the request fills in what it learns.
type logEntry struct {
	protocol  string // "HTTP/1.1", "gRPC"
	method    string // "GET", or the full name of gRPC
	path      string // of HTTP
	remote    string // address
	began     time.Time
	model, id string
	rows      int // 0 if not known
	token     int // its line in the file of tokens; 0 if there is no token, or an unknown one

	group   group
	account account // for whom its memory is counted
	paid    *hold   // that memory
	cancel  func()  // ends the call, if it is one of gRPC
	answer  answer  // of gRPC, until it is written
}

type entryKey struct{}

// entryOf is the entry of the request that ctx belongs to. If there is no request, it is an entry that nobody reads.
func entryOf(ctx context.Context) *logEntry {
	if e, ok := ctx.Value(entryKey{}).(*logEntry); ok {
		return e
	}
	return new(logEntry)
}

func (e *logEntry) context(ctx context.Context) context.Context {
	return context.WithValue(ctx, entryKey{}, e)
}

// maxLogged is how long a client's text or a refusal may be in the log, in bytes.
const maxLogged = 256

// attributes are those of a log record. Status is an HTTP status, an int, or a codes.Code.
func (e *logEntry) attributes(status any) []any {
	if code, ok := status.(codes.Code); ok {
		status = code.String()
	}
	a := []any{"protocol", e.protocol, "method", short.To(e.method, maxLogged)}
	if e.path != "" {
		a = append(a, "path", short.To(e.path, maxLogged))
	}
	a = append(a, "status", status, "remote", e.remote)
	if e.model != "" {
		a = append(a, "model", short.To(e.model, maxLogged))
	}
	if e.id != "" {
		a = append(a, "id", short.To(e.id, maxLogged))
	}
	if e.rows > 0 {
		a = append(a, "rows", e.rows)
	}
	if e.token > 0 {
		a = append(a, "token", "line "+strconv.Itoa(e.token))
	}
	return a
}

// logged logs a request that was answered. Status is that of attributes; refusal says why the request was not done, or is
// empty.
func (s *Server) logged(e *logEntry, status any, refusal string) {
	log, now := s.config.Log, time.Now()
	if log.Enabled(context.Background(), slog.LevelDebug) {
		log.Debug("request", append(e.attributes(status), "duration", now.Sub(e.began))...)
	}
	if refusal == "" || !log.Enabled(context.Background(), slog.LevelInfo) {
		return
	}
	if hidden, ok := s.refusals.let(status, now); ok {
		log.Info("refused", append(e.attributes(status), "why", short.To(refusal, maxLogged), "not_shown", hidden)...)
	}
}

// limiter lets a few records of each kind through in a period, so that clients cannot fill the log.
type limiter struct {
	mu    sync.Mutex
	kinds map[any]*while
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

// let reports whether a record of the kind may be logged now, and how many were left out since the last one that was.
func (l *limiter) let(kind any, now time.Time) (hidden int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.kinds[kind]
	if w == nil {
		w = &while{began: now}
		if l.kinds == nil {
			l.kinds = map[any]*while{}
		}
		l.kinds[kind] = w
	}
	if now.Sub(w.began) >= limiterWhile {
		w.began, w.shown = now, 0
	}
	if w.shown >= shownRefusals {
		w.hidden++
		return 0, false
	}
	w.shown++
	hidden, w.hidden = w.hidden, 0
	return hidden, true
}

// logHTTP logs the requests of a port.
func (s *Server) logHTTP(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e := &logEntry{protocol: r.Proto, method: r.Method, path: r.URL.Path, remote: r.RemoteAddr, began: time.Now(), account: s.httpAccount(r)}
		e.paid = s.memory.hold(e.account.from)
		defer e.paid.end()
		watched := &watched{ResponseWriter: w}
		r = r.WithContext(e.context(r.Context()))
		arriving := &arriving{ReadCloser: r.Body, conn: e.account.conn, end: func() {}}
		defer func() { arriving.end() }()
		if r.Body == http.NoBody {
			arriving.whole()
		} else {
			r.Body = arriving
		}
		next.ServeHTTP(watched, r)
		status := cmp.Or(watched.status, http.StatusOK)
		if status < http.StatusBadRequest {
			s.knows(e)
		}
		s.logged(e, status, watched.refusal())
	})
}

// knows notes that the client has shown who it is: by a token, or if no tokens are asked for, by a request that is answered.
func (s *Server) knows(e *logEntry) {
	if e.group != healthCalls && (s.config.Tokens == nil || e.token > 0) {
		e.account.conn.know()
	}
}

// arriving is a body that is still being received. Once it is here, its connection is at work.
type arriving struct {
	io.ReadCloser
	conn *connection
	end  func() // of the work
	done bool
}

// Read implements io.Reader.
func (a *arriving) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		a.whole()
	}
	return n, err
}

func (a *arriving) whole() {
	if !a.done {
		a.done, a.end = true, a.conn.begin()
	}
}

// watched is an answer whose status is noted, and its text if it refuses.
type watched struct {
	http.ResponseWriter
	status int // 0: not written yet, which stands for 200
	text   []byte
}

// WriteHeader implements http.ResponseWriter.
func (w *watched) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK { // lower ones come before the answer
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *watched) Write(p []byte) (int, error) {
	const most = 4 << 10
	if w.refuses() {
		w.text = append(w.text, p[:min(len(p), most-len(w.text))]...)
	}
	return w.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (w *watched) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *watched) refuses() bool {
	switch w.status {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusTooManyRequests:
		return true
	}
	return false
}

// refusal is the error in the answer, or empty if it refuses nothing. The answer of a server that is not ready has no text.
func (w *watched) refusal() string {
	var e errorBody
	if json.Unmarshal(w.text, &e) == nil && e.Error != "" {
		return e.Error
	}
	return strings.TrimSpace(string(w.text))
}

// loggedGRPC logs a gRPC call that has ended; err is why it was not answered, or nil.
func (s *Server) loggedGRPC(e *logEntry, err error) {
	refusal := ""
	switch status.Code(err) {
	case codes.InvalidArgument, codes.Unauthenticated, codes.PermissionDenied, codes.ResourceExhausted:
		refusal = status.Convert(err).Message()
	}
	s.logged(e, status.Code(err), refusal)
}

// grpcEntry is the entry of a call that begins.
func (s *Server) grpcEntry(ctx context.Context, info *tap.Info) *logEntry {
	e := &logEntry{protocol: "gRPC", method: info.FullMethodName, began: time.Now(), group: grpcGroup(info.FullMethodName), account: account{budget: s.memory}}
	if p, ok := peer.FromContext(ctx); ok {
		e.remote, e.account = p.Addr.String(), s.grpcAccount(p)
	}
	return e
}

// noCall answers calls that no service knows.
func noCall(_ any, stream grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(stream)
	return refuse(codes.Unimplemented, "%s is no call of the protocol", method)
}

// asks notes what a message says about the request.
func (e *logEntry) asks(message any) {
	switch m := message.(type) {
	case interface{ GetModelName() string }: // of inference, and the repository
		e.model = m.GetModelName()
	case interface{ GetName() string }: // of metadata
		e.model = m.GetName()
	}
	if m, ok := message.(interface{ GetId() string }); ok {
		e.id = m.GetId()
	}
}
