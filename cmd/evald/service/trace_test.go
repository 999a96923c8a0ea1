package service

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	oteltrace "go.opentelemetry.io/otel/trace"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"

	"github.com/evald/evald/cmd/evald/kserve"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

// Traces go where the environment says, as part of the client's, and nowhere without it.
func TestTraces(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "")
	if p, err := Traces(t.Context(), "test"); p != nil || err != nil {
		t.Fatalf("without an endpoint: %v, %v", p, err)
	}
	var mu sync.Mutex
	var got bytes.Buffer
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		body := io.Reader(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			var err error
			if body, err = gzip.NewReader(body); err != nil {
				t.Error(err)
			}
		}
		if _, err := got.ReadFrom(body); err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", r.URL, err)
		}
	}))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	provider := gametest.Must(Traces(t.Context(), "test"))(t)
	c := testConfig(&evaltest.Stub{Source: eval.CPU})
	c.Traces = provider
	s := serve(t, c)
	parent := "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	ctx := metadata.AppendToOutgoingContext(t.Context(), "traceparent", parent)
	gametest.Must(s.api.ModelInfer(ctx, bitboardRequest(connect4, game.Position{})))(t)
	if reply, text := s.post(t, inferPath, map[string]string{"traceparent": parent}, []byte(aMove)); reply.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", reply.StatusCode, text)
	}
	s.end(t) // a span may end after its reply has left
	gametest.OK(t, provider.Shutdown(context.WithoutCancel(t.Context())))
	mu.Lock()
	defer mu.Unlock()
	for _, want := range []string{"inference.GRPCInferenceService/ModelInfer", "queue", "evald.rows", "7x6x4", "service.name", "\x0a\xf7\x65\x19\x16\xcd\x43\xdd\x84\x48\xeb\x21\x1c\x80\x31\x9c"} {
		if n := bytes.Count(got.Bytes(), []byte(want)); n == 0 || want == "evald.rows" && n != 2 {
			t.Errorf("%q is %d times in the traces", want, n)
		}
	}
}

// A request has a span for its time in the queue and one for its evaluation. Probes have none.
func TestSpans(t *testing.T) {
	stub, entered, open := gate()
	defer open()
	kept := tracetest.NewInMemoryExporter()
	c := testConfig(stub)
	c.Traces, c.Settings.InFlight = trace.NewTracerProvider(trace.WithSyncer(kept)), 1
	s := serve(t, c)
	ask := func(n int) {
		_, _ = s.api.ModelInfer(t.Context(), bitboardRequest(connect4, make([]game.Position, n)...))
	}
	var all sync.WaitGroup
	all.Go(func() { ask(1) })
	<-entered
	all.Go(func() { s.post(t, inferPath, nil, []byte(aMove)) }) // waits for the first one
	waitFor(t, "the queue", func() bool { return s.metric(`evald_queued_rows{model="stub",version="1"}`) == 1 })
	late := bitboardRequest(connect4, game.Position{})
	setParameter(late, "timeout", 10_000)
	stream := gametest.Must(s.api.ModelStreamInfer(t.Context()))(t) // one span for all of its requests
	gametest.OK(t, stream.Send(late))
	gametest.OK(t, stream.CloseSend())
	if m := gametest.Must(stream.Recv())(t); !strings.Contains(m.ErrorMessage, "deadline exceeded") {
		t.Fatal(m)
	}
	open()
	all.Wait()
	for _, path := range []string{"/v2/health/live", "/v2/health/ready", "/v2/models/stub/ready", "/v2"} {
		s.get(t, path)
	}
	gametest.Must(http.Get(s.watch))(t).Body.Close()
	gametest.Must(s.api.ServerReady(t.Context(), &kserve.ServerReadyRequest{}))(t)
	gametest.Must(healthpb.NewHealthClient(s.conn).Check(t.Context(), &healthpb.HealthCheckRequest{}))(t)
	s.end(t)
	spans := map[string]tracetest.SpanStub{}
	parents := map[oteltrace.SpanID]string{}
	for _, span := range kept.GetSpans() {
		if !span.Parent.IsValid() {
			parents[span.SpanContext.SpanID()] = span.Name
		}
	}
	for _, span := range kept.GetSpans() {
		name := span.Name
		if span.Parent.IsValid() {
			name = parents[span.Parent.SpanID()] + ": " + name
		}
		if _, twice := spans[name]; twice {
			t.Errorf("%s is there twice", name)
		}
		spans[name] = span
	}
	const rest, calls, streams = "POST /v2/models/{model}/infer", "inference.GRPCInferenceService/ModelInfer", "inference.GRPCInferenceService/ModelStreamInfer"
	want := []string{"GET /v2", rest, rest + ": compute", rest + ": queue", calls, calls + ": compute", calls + ": queue", streams, streams + ": queue"}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(spans))); diff != "" {
		t.Fatalf("spans (-want +got):\n%s", diff)
	}
	call, queued, computed := spans[rest], spans[rest+": queue"], spans[rest+": compute"]
	if queued.StartTime.Before(call.StartTime) || !queued.EndTime.After(queued.StartTime) || !queued.EndTime.Equal(computed.StartTime) || !computed.EndTime.After(computed.StartTime) || computed.EndTime.After(call.EndTime) {
		t.Errorf("the times do not fit: %v", spans)
	}
}
