package service

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// httpServer is a port's server.
func (s *Server) httpServer(base context.Context, h http.Handler) *http.Server {
	return &http.Server{
		Handler:     s.receiveHTTP(s.config.Origins.Guard(h)),
		BaseContext: func(net.Listener) context.Context { return base },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connectionKey{}, connectionOf(c.RemoteAddr()))
		},
		ReadHeaderTimeout: s.config.Limits.Receive,
		ReadTimeout:       s.config.Limits.Receive + s.config.Limits.Timeout,
		WriteTimeout:      s.writeTime(),
		IdleTimeout:       4 * s.config.Limits.Receive,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(s.config.Log.Handler(), slog.LevelDebug),
	}
}

// writeTime is how long a client may read nothing of an answer.
func (s *Server) writeTime() time.Duration {
	return 2*s.config.Limits.Receive + s.config.Limits.Timeout
}

// metricsHandler is the metrics port.
func (s *Server) metricsHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.metrics, promhttp.HandlerOpts{Registry: s.metrics}))
	return mux
}

// profileHandler is the port for profiles.
func profileHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

type connectionKey struct{}

// receiveHTTP makes a request of each one of a port, and logs it.
func (s *Server) receiveHTTP(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn := r.Context().Value(connectionKey{}).(*connection)
		ask := &request{conn: conn, protocol: r.Proto, method: r.Method, path: r.URL.Path, remote: r.RemoteAddr, began: time.Now(), shown: holder(r.TLS)}
		defer ask.end()
		x := &exchange{ResponseWriter: w, ReadCloser: r.Body, request: ask, end: func() {}}
		defer func() { x.end() }()
		r = r.WithContext(ask.context(r.Context()))
		if r.Body != http.NoBody {
			r.Body = x
		} else {
			x.end = conn.begin()
		}
		next.ServeHTTP(x, r)
		status := cmp.Or(x.status, http.StatusOK)
		if status < http.StatusBadRequest {
			s.knows(ask)
		}
		s.logged(ask, status, x.refusal())
	})
}

// exchange wraps a request's body and its answer: its connection counts as working once the body has arrived, and it records the status of
// the answer, and the text of a refusal.
type exchange struct {
	http.ResponseWriter
	io.ReadCloser
	request *request
	here    bool   // the whole body
	end     func() // of the work
	status  int    // 0: not written yet, which stands for 200
	text    []byte
}

func (x *exchange) Read(p []byte) (int, error) {
	n, err := x.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) && !x.here {
		x.here, x.end = true, x.request.conn.begin()
	}
	return n, err
}

func (x *exchange) WriteHeader(status int) {
	if x.status == 0 && status >= http.StatusOK { // lower ones come before the answer
		x.status = status
	}
	x.ResponseWriter.WriteHeader(status)
}

func (x *exchange) Write(p []byte) (int, error) {
	const most = 4 << 10
	if slices.Contains(refusing[:], x.status) {
		x.text = append(x.text, p[:min(len(p), most-len(x.text))]...)
	}
	if x.request.group == pageCalls { // other calls take their answers' memory before they make them
		if x.request.take(len(p)) != nil {
			panic(http.ErrAbortHandler)
		}
		defer x.request.give(len(p))
	}
	return x.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// refusing are the statuses of requests that are refused.
var refusing = [...]int{
	http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusRequestEntityTooLarge,
	http.StatusUnsupportedMediaType, http.StatusTooManyRequests,
}

// refusal is the error in the answer, or empty if it refuses nothing. The answer of a server that is not ready has no error.
func (x *exchange) refusal() string {
	var e errorBody
	if json.Unmarshal(x.text, &e) == nil {
		return e.Error
	}
	return strings.TrimSpace(string(x.text))
}
