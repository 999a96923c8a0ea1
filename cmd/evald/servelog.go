package main

import (
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"google.golang.org/grpc/grpclog"
)

// logger is the service's log. The flags say its form and its level.
func (c *serveCmd) logger(w io.Writer) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(c.LogLevel)) // the flag's values are all known
	options := &slog.HandlerOptions{Level: level}
	if c.Log == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// linesToLog makes a warning of each line of a text.
func linesToLog(log *slog.Logger) func(text string) {
	return func(text string) {
		for line := range strings.Lines(text) {
			log.Warn(strings.TrimSpace(line))
		}
	}
}

// logLibraries sends to the log what libraries would otherwise write to standard error, in forms of their own.
func logLibraries(log *slog.Logger) {
	slog.SetDefault(log) // and of the package log
	otel.SetLogger(logr.FromSlogHandler(log.Handler()))
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("traces", "error", err) }))
}

// gRPC wants its logger before any of its other functions is called.
func init() {
	grpclog.SetLoggerV2(grpcLog{grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard)})
}

// grpcLog sends gRPC's errors to the default log. Its warnings go there at level debug, since clients can cause as many as they
// like.
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
