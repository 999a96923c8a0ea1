package service

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/pprof"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	gstatus "google.golang.org/grpc/status"
)

func (s *Server) httpServer(base context.Context, h http.Handler) *http.Server {
	return &http.Server{
		Handler:     s.receiveHTTP(s.config.Origins.Guard(h)),
		BaseContext: func(net.Listener) context.Context { return base },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connectionKey{}, connectionOf(c.RemoteAddr()))
		},
		ReadHeaderTimeout: s.config.Limits.Headers,
		ReadTimeout:       s.config.Limits.Headers + s.config.Limits.Receive + s.config.Limits.Timeout,
		WriteTimeout:      s.writeTime(),
		IdleTimeout:       s.config.Limits.Idle,
		MaxHeaderBytes:    mostHTTPHeaders,
		ErrorLog:          log.New(closeLog{s}, "", 0),
	}
}

// writeTime returns how long an answer may wait for a client that reads nothing.
func (s *Server) writeTime() time.Duration {
	return 2*s.config.Limits.Receive + s.config.Limits.Timeout
}

func (s *Server) metricsHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.metrics, promhttp.HandlerOpts{Registry: s.metrics}))
	return mux
}

func profileHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

type connectionKey struct{}

// receiveHTTP creates the request object of each HTTP request, passes it on in the context, and logs it after the answer.
func (s *Server) receiveHTTP(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn := r.Context().Value(connectionKey{}).(*connection)
		ask := &request{conn: conn, protocol: r.Proto, method: r.Method, path: r.URL.Path, began: time.Now(), tls: r.TLS, shown: holder(r.TLS)}
		ask.came(s.config.Proxies, r.Header["X-Forwarded-For"])
		r.RemoteAddr = ask.remote
		defer ask.end()
		x := &exchange{ResponseWriter: w, ReadCloser: r.Body, request: ask, end: func() {}}
		defer func() { x.end() }()
		r = r.WithContext(ask.context(r.Context()))
		if s.parts(conn) {
			w.Header().Set("Connection", "close") // the next request of this client shall reach a server that is ready, or new
		}
		if r.Body != http.NoBody {
			r.Body = x
		} else {
			x.end = conn.begin()
		}
		if size := httpHeadersOf(r); size > longestHeaders {
			writeJSON(x, http.StatusRequestHeaderFieldsTooLarge, errorBody{gstatus.Convert(s.takeHeaders(ask, size)).Message()})
		} else if err := s.takeHeaders(ask, size); err != nil {
			writeError(x, err)
		} else {
			next.ServeHTTP(x, r)
		}
		status := cmp.Or(x.status, http.StatusOK)
		if status < http.StatusBadRequest {
			s.knows(ask)
		}
		if conn.of.port == httpPort {
			s.statuses.WithLabelValues(strconv.Itoa(status), string(ask.group)).Inc()
		}
		s.logged(ask, status, x.refusal())
	})
}

// parts reports whether a client is asked to use another connection: because the server is not ready, or the connection is old.
func (s *Server) parts(c *connection) bool {
	age := s.config.Limits.Age
	return !s.isReady() || age > 0 && time.Since(c.since) > age
}

// exchange wraps a request's body and its answer. Once the whole body has arrived, the connection counts as working. It records the status
// of the answer and, for the log, the text of a refusal.
type exchange struct {
	http.ResponseWriter
	io.ReadCloser
	request *request
	here    bool   // whether the whole body has arrived
	end     func() // ends the work that connection.begin began
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
	if x.status == 0 && status >= http.StatusOK { // lower statuses precede the answer's own
		x.status = status
	}
	x.ResponseWriter.WriteHeader(status)
}

func (x *exchange) Write(p []byte) (int, error) {
	const most = 4 << 10
	if slices.Contains(refusing[:], x.status) {
		x.text = append(x.text, p[:min(len(p), most-len(x.text))]...)
	}
	if x.request.group == pageCalls { // other calls reserve memory before they make their answers
		if x.request.take(len(p)) != nil {
			panic(http.ErrAbortHandler)
		}
		defer x.request.give(len(p))
	}
	return x.ResponseWriter.Write(p)
}

// Unwrap gives http.ResponseController access to the wrapped writer.
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// refusing lists the statuses that are logged as refusals.
var refusing = [...]int{
	http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusRequestEntityTooLarge,
	http.StatusUnsupportedMediaType, http.StatusTooManyRequests, http.StatusRequestHeaderFieldsTooLarge,
}

// refusal returns the error in the answer, or "" if there is none.
func (x *exchange) refusal() string {
	var e errorBody
	if json.Unmarshal(x.text, &e) == nil {
		return e.Error
	}
	return strings.TrimSpace(string(x.text))
}
