package service

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"google.golang.org/grpc/metadata"

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
	for _, want := range []string{"inference.GRPCInferenceService/ModelInfer", "evald.queue_us", "evald.rows", "7x6x4", "service.name", "\x0a\xf7\x65\x19\x16\xcd\x43\xdd\x84\x48\xeb\x21\x1c\x80\x31\x9c"} {
		if n := bytes.Count(got.Bytes(), []byte(want)); n == 0 || want == "evald.rows" && n != 2 {
			t.Errorf("%q is %d times in the traces", want, n)
		}
	}
}
