package service

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/evald/evald/cmd/evald/kserve"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

// logbook is a log that is read while it is written.
type logbook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logbook) logger(level slog.Level) *slog.Logger {
	return slog.New(slog.NewJSONHandler(l, &slog.HandlerOptions{Level: level}))
}

// records are those with a message, without their time.
func (l *logbook) records(t *testing.T, message string) (found []map[string]any) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range bytes.Lines(l.text.Bytes()) {
		var r map[string]any
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if r["msg"] == message {
			delete(r, "time")
			delete(r, "msg")
			found = append(found, r)
		}
	}
	return found
}

// wait waits for n more records with a message after the first before records, and returns all those.
func (l *logbook) wait(t *testing.T, message string, before, n int) []map[string]any {
	t.Helper()
	var found []map[string]any
	waitFor(t, message, func() bool { found = l.records(t, message); return len(found) >= before+n })
	return found[before:]
}

const (
	inferMethod  = kserve.GRPCInferenceService_ModelInfer_FullMethodName
	streamMethod = kserve.GRPCInferenceService_ModelStreamInfer_FullMethodName
)

// At level debug, each request of both transports is logged, with its call, its status, and its model, id and rows where they were read.
func TestRequestLog(t *testing.T) {
	book := &logbook{}
	c := testConfig(&evaltest.Stub{Source: eval.CPU})
	c.Log = book.logger(slog.LevelDebug)
	s := serve(t, c)
	good := `{"id":"mine","inputs":[{"name":"moves","datatype":"BYTES","shape":[2],"data":["44","4"]}]}`
	post := func(path, body string) func() {
		return func() { s.post(t, path, nil, []byte(body)) }
	}
	infer := func(change func(*kserve.ModelInferRequest)) *kserve.ModelInferRequest {
		ask := bitboardRequest(connect4, make([]game.Position, 3)...)
		ask.Id = "theirs"
		change(ask)
		return ask
	}
	none := func(*kserve.ModelInferRequest) {}
	type record = map[string]any
	rest := func(path string, status float64, more record) []record {
		r := record{"protocol": "HTTP/1.1", "method": "POST", "path": path, "status": status}
		maps.Copy(r, more)
		return []record{r}
	}
	seen := 0
	for _, x := range []struct {
		name string
		do   func()
		want []record
	}{
		{"REST", post(inferPath, good), rest(inferPath, 200, record{"model": "stub", "id": "mine", "rows": 2.0})},
		{"REST, no JSON", post(inferPath, "{"), rest(inferPath, 400, record{"model": "stub"})},
		{"REST, no call", post("/v2/nothing?secret=1", ""), rest("/v2/nothing", 404, nil)},
		{"page", post("/page", ""), rest("/page", 404, nil)},
		{
			"gRPC", func() { _, _ = s.api.ModelInfer(t.Context(), infer(none)) },
			[]record{{"protocol": "gRPC", "method": inferMethod, "status": "OK", "model": "stub", "id": "theirs", "rows": 3.0}},
		},
		{
			"gRPC, no model", func() { _, _ = s.api.ModelMetadata(t.Context(), &kserve.ModelMetadataRequest{Name: "x"}) },
			[]record{{"protocol": "gRPC", "method": kserve.GRPCInferenceService_ModelMetadata_FullMethodName, "status": "NotFound", "model": "x"}},
		},
		{
			"gRPC, too long", func() {
				_, _ = s.api.ModelInfer(t.Context(), rawRequest(bitboardsInput, uint64Type, make([]byte, 9<<20), 1, 2))
			},
			[]record{{"protocol": "gRPC", "method": inferMethod, "status": "ResourceExhausted"}},
		},
		{
			"gRPC, no call", func() {
				_ = s.conn.Invoke(t.Context(), "/some.Service/Call", &kserve.ServerLiveRequest{}, &kserve.ServerLiveResponse{})
			},
			[]record{{"protocol": "gRPC", "method": "/some.Service/Call", "status": "Unimplemented"}},
		},
		{
			"gRPC, a stream", func() {
				stream, err := s.api.ModelStreamInfer(t.Context())
				gametest.OK(t, err)
				for _, ask := range []*kserve.ModelInferRequest{infer(none), infer(func(r *kserve.ModelInferRequest) { r.ModelName = "x" })} {
					gametest.OK(t, stream.Send(ask))
					gametest.Must(stream.Recv())(t)
				}
				_ = stream.CloseSend()
				_, _ = stream.Recv()
			},
			[]record{
				{"protocol": "gRPC stream", "method": streamMethod, "status": "OK", "model": "stub", "id": "theirs", "rows": 3.0},
				{"protocol": "gRPC stream", "method": streamMethod, "status": "NotFound", "model": "x", "id": "theirs"},
				{"protocol": "gRPC", "method": streamMethod, "status": "OK"},
			},
		},
	} {
		x.do()
		got := book.wait(t, "request", seen, len(x.want))
		seen += len(got)
		for _, r := range got {
			remote, _ := r["remote"].(string)
			took, _ := r["duration"].(float64)
			if !strings.HasPrefix(remote, "127.0.0.1:") || took <= 0 || took > 1e10 || r["level"] != "DEBUG" {
				t.Errorf("%s: %v", x.name, r)
			}
			for _, name := range []string{"remote", "duration", "level"} {
				delete(r, name)
			}
		}
		if diff := cmp.Diff(x.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", x.name, diff)
		}
	}
}

// Refusals are logged at level info with who and why, and nothing else is; no text of a client's is longer than 256 bytes
// there, and no token is among them.
func TestRefusalLog(t *testing.T) {
	book := &logbook{}
	c := testConfig(&evaltest.Stub{Source: eval.CPU})
	c.Log = book.logger(slog.LevelInfo)
	c.Tokens = tokens(t, "# who\ninference s3cret\nmetadata other name=dashboard\n")
	s := serve(t, c)
	grpcAs := func(token string, ask *kserve.ModelInferRequest) func() {
		return func() {
			_, _ = s.api.ModelInfer(metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token), ask)
		}
	}
	restAs := func(token, path, body string) func() {
		return func() { s.post(t, path, map[string]string{"Authorization": "Bearer " + token}, []byte(body)) }
	}
	long := strings.Repeat("x", 4000)
	ok := bitboardRequest(connect4, game.Position{})
	bad := bitboardRequest(connect4, game.Position{})
	bad.Id = long
	setParameter(bad, long, 1)
	seen := 0
	for _, x := range []struct {
		name   string
		do     func()
		status any
		token  any
		why    string // in part; "" for no record
	}{
		{"REST, no token", restAs("", inferPath, ""), 401.0, nil, "need the header"},
		{"REST, wrong token", restAs("wr0ng", inferPath, ""), 401.0, nil, "the token is not known"},
		{"REST, another's token", restAs("other", inferPath, ""), 403.0, "dashboard", "does not open calls of group inference"},
		{"REST, bad", restAs("s3cret", inferPath, `{"id":"`+long+`","parameters":{"`+long+`":1}}`), 400.0, "line 2", "must be board, visits"},
		{"REST, too long", restAs("s3cret", inferPath, strings.Repeat(" ", 9<<20)), 413.0, "line 2", "longer than 8388608 bytes"},
		{"REST, long path", restAs("s3cret", "/v2/models/"+long+"/infer", "{"), 400.0, "line 2", "body: unexpected EOF"},
		{"REST, page", restAs("s3cret", "/", ""), 403.0, "line 2", "group page"},
		{"REST, good", restAs("s3cret", inferPath, aMove), nil, nil, ""},
		{"gRPC, no token", func() { _, _ = s.api.ModelInfer(t.Context(), ok) }, "Unauthenticated", nil, "need the header"},
		{"gRPC, another's token", grpcAs("other", ok), "PermissionDenied", "dashboard", "does not open"},
		{"gRPC, bad", grpcAs("s3cret", bad), "InvalidArgument", "line 2", "must be board, visits"},
		{"gRPC, too long", grpcAs("s3cret", rawRequest(bitboardsInput, uint64Type, make([]byte, 9<<20), 1, 2)), "ResourceExhausted", "line 2", "larger than max"},
		{"gRPC, good", grpcAs("s3cret", ok), nil, nil, ""},
		{"gRPC, wrong token", grpcAs("wr0ng", ok), "Unauthenticated", nil, "the token is not known"}, // after the good one
	} {
		x.do()
		if x.why == "" {
			continue
		}
		r := book.wait(t, "refused", seen, 1)[0]
		seen++
		why, _ := r["why"].(string)
		remote, _ := r["remote"].(string)
		if r["status"] != x.status || r["token"] != x.token || !strings.Contains(why, x.why) || !strings.HasPrefix(remote, "127.0.0.1:") || r["level"] != "INFO" || r["not_shown"] != 0.0 {
			t.Errorf("%s: %v, want status %v, token %v and %q", x.name, r, x.status, x.token, x.why)
		}
		for name, value := range r {
			if text, _ := value.(string); len(text) > 256 {
				t.Errorf("%s: %s has %d bytes", x.name, name, len(text))
			}
		}
	}
	if n := len(book.records(t, "request")); n > 0 || len(book.records(t, "refused")) != seen {
		t.Errorf("%d records of requests, which are for debugging, and %d refusals of %d", n, len(book.records(t, "refused")), seen)
	}
	book.mu.Lock()
	defer book.mu.Unlock()
	for _, token := range []string{"s3cret", "wr0ng"} {
		if strings.Contains(book.text.String(), token) {
			t.Errorf("the log has the token %s", token)
		}
	}
}

// A server that is not ready says so by 400 to those who probe it, which refuses nothing.
func TestNotReadyIsNoRefusal(t *testing.T) {
	book := &logbook{}
	c := testConfig(&evaltest.Stub{Source: eval.CPU})
	c.Log = book.logger(slog.LevelDebug)
	s := serve(t, c)
	waitFor(t, "the server", s.isReady)
	s.enterState(notReady)
	status, _ := s.get(t, "/v2/health/ready")
	book.wait(t, "request", 0, 1)
	if refused := book.records(t, "refused"); status != http.StatusBadRequest || refused != nil {
		t.Errorf("status %d, refusals %v", status, refused)
	}
}

// In ten seconds ten refusals of a kind are shown; the first after that says how many were not.
func TestLimiter(t *testing.T) {
	var l limiter
	start := time.Unix(1000, 0)
	for _, x := range []struct {
		at            time.Duration
		shown, hidden int // hidden: as the first one shown says
	}{{0, 10, 0}, {9 * time.Second, 0, 0}, {10 * time.Second, 10, 18}, {15 * time.Second, 0, 0}, {100 * time.Second, 10, 18}} {
		shown := 0
		for range 14 {
			if hidden, ok := l.let(codes.InvalidArgument, start.Add(x.at)); ok {
				if shown++; shown == 1 && hidden != x.hidden || shown > 1 && hidden != 0 {
					t.Errorf("%v, record %d: %d hidden, want %d", x.at, shown, hidden, x.hidden)
				}
			}
		}
		if shown != x.shown {
			t.Errorf("%v: %d shown, want %d", x.at, shown, x.shown)
		}
		if hidden, ok := l.let(x.at, start.Add(x.at)); hidden != 0 || !ok {
			t.Errorf("%v: the first of another kind: %v, %d hidden", x.at, ok, hidden)
		}
	}
}

// Above level debug, logging an answered request allocates nothing.
func TestRequestLogIsFree(t *testing.T) {
	c := testConfig(&evaltest.Stub{Source: eval.CPU})
	c.Log = (&logbook{}).logger(slog.LevelInfo)
	s := gametest.Must(New(c))(t)
	e := &request{method: "POST", path: inferPath, model: "stub"}
	if n := testing.AllocsPerRun(100, func() { s.logged(e, http.StatusOK, ""); s.logged(e, codes.OK, "") }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
