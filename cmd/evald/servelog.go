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

// logger is the service's log, with the form and level of the flags. On a terminal a line for people replaces the first
// records: until started is called with it, only warnings are logged.
func (c *serveCmd) logger(w io.Writer) (log *slog.Logger, started func(line string)) {
	var level slog.Level
	_ = level.UnmarshalText([]byte(c.LogLevel)) // the flag's values are all known
	if c.Log == "json" {
		return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level})), func(string) {}
	}
	if !isTerminal(w) {
		return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level})), func(string) {}
	}
	var now slog.LevelVar
	now.Set(max(level, slog.LevelWarn))
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: &now})), func(line string) {
		fmt.Fprintln(w, line)
		now.Set(level)
	}
}

// opening is the line for a terminal: where the service and its page are, and what evaluates.
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

// linesToLog makes a warning of each line of a text.
func linesToLog(log *slog.Logger) func(text string) {
	return func(text string) {
		for line := range strings.Lines(text) {
			log.Warn(strings.TrimSpace(line))
		}
	}
}

// logLibraries sends messages of libraries to the log, which they would otherwise write to standard error.
func logLibraries(log *slog.Logger) {
	slog.SetDefault(log) // and of the package log
	otel.SetLogger(logr.FromSlogHandler(log.Handler()))
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("traces", "error", err) }))
}

// gRPC wants its logger before any of its other functions is called.
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
