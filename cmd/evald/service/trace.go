package service

import (
	"context"
	"net/http"
	"os"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
	oteltrace "go.opentelemetry.io/otel/trace"
	grpcstats "google.golang.org/grpc/stats"
)

// propagator reads the trace context of a request from its headers.
var propagator = propagation.TraceContext{}

// Traces returns a provider that sends traces to the address in the environment variable OTEL_EXPORTER_OTLP_ENDPOINT or
// OTEL_EXPORTER_OTLP_TRACES_ENDPOINT. If both are missing, the provider is nil. It also follows the other variables of the OpenTelemetry
// specification. The caller must shut the provider down.
func Traces(ctx context.Context, version string) (*trace.TracerProvider, error) {
	const endpoint, protocol = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_PROTOCOL"
	if os.Getenv(endpoint) == "" && os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "" {
		return nil, nil
	}
	var exporter *otlptrace.Exporter
	var err error
	if os.Getenv(protocol) == "grpc" {
		exporter, err = otlptracegrpc.New(ctx)
	} else {
		exporter, err = otlptracehttp.New(ctx)
	}
	if err != nil {
		return nil, err
	}
	about, err := resource.New(ctx, resource.WithAttributes(semconv.ServiceName("evald"), semconv.ServiceVersion(version)),
		resource.WithFromEnv(), resource.WithTelemetrySDK())
	if err != nil {
		return nil, err
	}
	return trace.NewTracerProvider(trace.WithBatcher(exporter), trace.WithResource(about)), nil
}

// tracedCalls returns the handler that makes a span of each gRPC call but the calls of health, with
// which probes would outnumber requests.
func (s *Server) tracedCalls() grpcstats.Handler {
	return otelgrpc.NewServerHandler(otelgrpc.WithTracerProvider(s.config.Traces), otelgrpc.WithPropagators(propagator),
		otelgrpc.WithFilter(func(call *grpcstats.RPCTagInfo) bool { return grpcGroup(call.FullMethodName) != healthCalls }))
}

// traced wraps the handler of a group of calls over REST in the same way.
func (s *Server) traced(g group, next http.Handler) http.Handler {
	if s.config.Traces == nil || g == healthCalls {
		return next
	}
	return otelhttp.NewHandler(next, "rest", otelhttp.WithTracerProvider(s.config.Traces), otelhttp.WithPropagators(propagator))
}

// trace describes an evaluated request in the span of its call, and adds a span for the time in the
// queue and one for the evaluation. With an exact step they are the sums of its times and those of
// the other rows.
func (r *request) trace(ctx context.Context) {
	call := oteltrace.SpanFromContext(ctx)
	if !call.IsRecording() {
		return
	}
	call.SetAttributes(attribute.String("evald.model", r.served.name), attribute.Int("evald.rows", r.rows), attribute.String("evald.board", r.board.Rules().String()))
	at := r.asked.Add(r.times.input)
	for _, phase := range []struct {
		name string
		took time.Duration
	}{{"queue", r.times.queue}, {"compute", r.times.infer}} {
		if phase.took == 0 {
			continue
		}
		_, span := call.TracerProvider().Tracer("github.com/evald/evald").Start(ctx, phase.name, oteltrace.WithTimestamp(at))
		at = at.Add(phase.took)
		span.End(oteltrace.WithTimestamp(at))
	}
}
