//go:build !first

package main

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"google.golang.org/grpc/grpclog"

	"github.com/evald/evald/cmd/evald/service"
)

// logger returns the service's log, with the form and level of the flags. The log does not wait for
// w; close writes what waits, and lost counts lines that w has not accepted in time. On a terminal
// a line of text replaces the first records: only warnings are logged until started is called with
// that line.
func (c *serveCmd) logger(w io.Writer) (l serveLog) {
	var level slog.LevelVar
	_ = level.UnmarshalText([]byte(c.LogLevel)) // cannot fail: the flag's enum has only known levels
	handler := func(w io.Writer) slog.Handler {
		if c.Log == "json" {
			return slog.NewJSONHandler(w, &slog.HandlerOptions{Level: &level, ReplaceAttr: inSeconds})
		}
		return slog.NewTextHandler(w, &slog.HandlerOptions{Level: &level})
	}
	q := newLogQueue(w)
	direct := slog.New(handler(w))
	q.report = func(lost uint64) { direct.Warn("standard error was not read in time", "lines_dropped", lost) }
	go q.run()
	l = serveLog{Logger: slog.New(handler(q)), started: func(string) {}, lost: q.lost.Load, close: q.close}
	if c.Log != "json" && isTerminal(w) {
		then := level.Level()
		level.Set(max(then, slog.LevelWarn))
		l.started = func(line string) {
			fmt.Fprintln(q, line)
			level.Set(then)
		}
	}
	return l
}

// inSeconds writes a duration as a number of seconds, whose name has the unit. Otherwise JSON would
// have nanoseconds without one.
func inSeconds(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		return slog.Float64(a.Key+"_seconds", a.Value.Duration().Seconds())
	}
	return a
}

// serveLog is the log of a service.
type serveLog struct {
	*slog.Logger
	started func(line string)
	lost    func() (lines uint64)
	close   func()
}

// opening returns the line for a terminal, with the addresses of the service and its page, and the models.
func (c *serveCmd) opening(l service.Listeners, models string) string {
	address := func(l net.Listener) string {
		host, port, _ := net.SplitHostPort(l.Addr().String())
		if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
			host = "localhost"
		}
		return net.JoinHostPort(host, port)
	}
	var at []string
	if l.HTTP != nil {
		scheme := "http"
		if c.TLSCert != "" {
			scheme = "https"
		}
		at = append(at, "open "+scheme+"://"+address(l.HTTP)+" in a browser")
	}
	if l.GRPC != nil {
		at = append(at, "gRPC at "+address(l.GRPC))
	}
	return "evald: " + strings.Join(append(at, models, "Ctrl-C ends it"), "; ")
}

// linesToLog returns a function that logs each line of a text as a warning.
func linesToLog(log *slog.Logger) func(text string) {
	return func(text string) {
		for line := range strings.Lines(text) {
			log.Warn(strings.TrimSpace(line))
		}
	}
}

// logLibraries directs messages of libraries to the log; by default they write to standard error.
func logLibraries(log *slog.Logger) {
	slog.SetDefault(log) // this also redirects package log
	otel.SetLogger(logr.FromSlogHandler(log.Handler()))
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("traces", "error", err) }))
}

// gRPC requires that its logger is set before any other of its functions is called.
func init() {
	grpclog.SetLoggerV2(grpcLog{grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard)})
}

// grpcLog sends gRPC's errors to the default log. Its warnings have level debug, because clients can cause any number of them.
type grpcLog struct{ grpclog.LoggerV2 }

func (grpcLog) Error(args ...any)   { slog.Error("gRPC: " + fmt.Sprint(args...)) }
func (grpcLog) Errorln(args ...any) { slog.Error("gRPC: " + strings.TrimSpace(fmt.Sprintln(args...))) }

func (grpcLog) Errorf(format string, args ...any) {
	slog.Error("gRPC: " + fmt.Sprintf(format, args...))
}
func (grpcLog) Warning(args ...any) { slog.Debug("gRPC: " + fmt.Sprint(args...)) }
func (grpcLog) Warningln(args ...any) {
	slog.Debug("gRPC: " + strings.TrimSpace(fmt.Sprintln(args...)))
}

func (grpcLog) Warningf(format string, args ...any) {
	slog.Debug("gRPC: " + fmt.Sprintf(format, args...))
}
