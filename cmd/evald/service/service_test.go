package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/evald/evald/cmd/evald/client"
	"github.com/evald/evald/cmd/evald/kserve"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("testing.(*F).Fuzz.func1"))
}

var connect4 = game.MustBoard(game.Connect4)

// serving is a server under test.
type serving struct {
	*Server
	api   kserve.GRPCInferenceServiceClient
	conn  *grpc.ClientConn // of api
	rest  string           // URL
	grpc  string           // HOST:PORT
	watch string           // URL of the metrics
	stop  context.CancelFunc
	ended chan error
}

// testConfig serves a stub under the name "stub". A slow machine under the race detector keeps
// within a minute. Tests of what a limit does set their own.
func testConfig(b eval.Backend) Config {
	limits := DefaultLimits
	limits.Timeout, limits.Headers, limits.Receive = time.Minute, time.Minute, time.Minute
	return Config{
		Version: "test", Rules: game.Connect4, Models: []Model{{Name: "stub"}},
		Load: func(m Model) (Loaded, error) {
			if m.Name != "stub" {
				return Loaded{}, errors.New("there is no such file")
			}
			return Loaded{Backend: b, Version: "1", Platform: NetworkPlatform, Describe: "a stub"}, nil
		},
		Available: func() []string { return []string{"stub", "other"} },
		Settings:  DefaultSettings, Limits: limits, DrainTime: time.Minute,
	}
}

func serve(t testing.TB, c Config) *serving {
	t.Helper()
	return serveOn(t, c, "127.0.0.1:0", "127.0.0.1:0")
}

// serveOn serves REST and gRPC at these addresses.
func serveOn(t testing.TB, c Config, rest, calls string) *serving {
	t.Helper()
	s, err := New(c)
	gametest.OK(t, err)
	s.SetPage(http.NotFoundHandler(), func() {})
	listen := func(address string) net.Listener {
		return gametest.Must(net.Listen("tcp", address))(t)
	}
	l := Listeners{HTTP: listen(rest), GRPC: listen(calls), Metrics: listen("127.0.0.1:0")}
	ctx, stop := context.WithCancel(context.Background())
	out := &serving{Server: s, rest: "http://" + l.HTTP.Addr().String(), grpc: l.GRPC.Addr().String(), watch: "http://" + l.Metrics.Addr().String() + "/metrics", stop: stop, ended: make(chan error, 1)}
	out.conn = out.connect(t)
	out.api = kserve.NewGRPCInferenceServiceClient(out.conn)
	if s.access.Load().TLS != nil {
		out.rest = strings.Replace(out.rest, "http", "https", 1)
	}
	go func() { out.ended <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		out.end(t)
		http.DefaultClient.CloseIdleConnections()
	})
	return out
}

// end ends the server, if it has not ended.
func (s *serving) end(t testing.TB) {
	t.Helper()
	s.stop()
	if err := <-s.ended; err != nil {
		t.Errorf("the server ended with %v", err)
	}
	s.ended <- nil
	s.conn.Close()
}

// connect is a connection to the gRPC port.
func (s *serving) connect(t testing.TB, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	if len(options) == 0 {
		options = []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	}
	conn := gametest.Must(grpc.NewClient(s.grpc, options...))(t)
	t.Cleanup(func() { conn.Close() })
	return conn
}

// underWay waits until n requests are under way.
func (s *serving) underWay(t testing.TB, n int) {
	t.Helper()
	waitFor(t, fmt.Sprintf("%d requests under way", n), func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.requests == n
	})
}

// get reads a page of the HTTP port.
func (s *serving) get(t testing.TB, path string) (status int, text string) {
	t.Helper()
	reply, body := s.ask(t, http.MethodGet, path, nil, nil)
	return reply.StatusCode, string(body)
}

// metricsText is what Prometheus reads.
func (s *serving) metricsText() string {
	answer := httptest.NewRecorder()
	s.metricsHandler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return answer.Body.String()
}

// metric is the value of a metric with its labels, or 0.
func (s *serving) metric(name string) (value float64) {
	for line := range strings.Lines(s.metricsText()) {
		if text, ok := strings.CutPrefix(line, name+" "); ok {
			_, _ = fmt.Sscan(text, &value)
		}
	}
	return value
}

// after is the position after some moves.
func after(t testing.TB, moves string) game.Position {
	t.Helper()
	p, _, err := connect4.ParseMoves(moves)
	gametest.OK(t, err)
	return p
}

// rawRequest asks for raw values.
func rawRequest(name, datatype string, raw []byte, shape ...int64) *kserve.ModelInferRequest {
	return &kserve.ModelInferRequest{
		ModelName:        "stub",
		Inputs:           []*kserve.ModelInferRequest_InferInputTensor{{Name: name, Datatype: datatype, Shape: shape}},
		RawInputContents: [][]byte{raw},
	}
}

func bitboardRequest(board *game.Board, pos ...game.Position) *kserve.ModelInferRequest {
	r := rawRequest(bitboardsInput, uint64Type, client.Bitboards(board, pos), int64(len(pos)), int64(2*words(board)))
	setParameter(r, "board", board.Rules().String())
	return r
}

// searchRequest asks for a search of bitboards.
func searchRequest(visits int, pos ...game.Position) *kserve.ModelInferRequest {
	r := bitboardRequest(connect4, pos...)
	r.ModelName = searchModel
	setParameter(r, "visits", visits)
	return r
}

func setParameter(r *kserve.ModelInferRequest, name string, value any) {
	p := &kserve.InferParameter{}
	switch v := value.(type) {
	case string:
		p.ParameterChoice = &kserve.InferParameter_StringParam{StringParam: v}
	case int:
		p.ParameterChoice = &kserve.InferParameter_Int64Param{Int64Param: int64(v)}
	case bool:
		p.ParameterChoice = &kserve.InferParameter_BoolParam{BoolParam: v}
	}
	if r.Parameters == nil {
		r.Parameters = map[string]*kserve.InferParameter{}
	}
	r.Parameters[name] = p
}

// expected is what all outputs must be, by name, straight from the evaluator.
func expected(t testing.TB, e *eval.Evaluator, board *game.Board, pos []game.Position) map[string][]byte {
	t.Helper()
	b := eval.NewBatch(board, len(pos))
	copy(b.Pos, pos)
	gametest.OK(t, e.Evaluate(t.Context(), b))
	out := map[string][]byte{}
	for i := range pos {
		out[wdlOutput] = appendNumbers(out[wdlOutput], b.WDLRow(i))
		out[valueOutput] = appendNumbers(out[valueOutput], []float32{b.WDLRow(i)[0] - b.WDLRow(i)[2]})
		out[policyOutput] = appendNumbers(out[policyOutput], b.PolicyRow(i))
		out[gameoverOutput] = append(out[gameoverOutput], map[game.Result]byte{game.Win: 1, game.Loss: 2, game.Draw: 3}[board.Result(pos[i])])
		out[sourceOutput] = appendBytes(out[sourceOutput], b.Source[i].String())
	}
	return out
}

// answer is the outputs of an answer, by name.
func (s *serving) answer(t testing.TB, ask *kserve.ModelInferRequest) map[string][]byte {
	t.Helper()
	got := gametest.Must(s.api.ModelInfer(t.Context(), ask))(t)
	return raws(got)
}

func raws(r *kserve.ModelInferResponse) map[string][]byte {
	out := map[string][]byte{}
	for i, o := range r.Outputs {
		out[o.Name] = r.RawOutputContents[i]
	}
	return out
}

// post sends a body and reads the reply.
func (s *serving) post(t testing.TB, path string, header map[string]string, body []byte) (*http.Response, []byte) {
	t.Helper()
	return s.ask(t, http.MethodPost, path, header, body)
}

func (s *serving) ask(t testing.TB, method, path string, header map[string]string, body []byte) (*http.Response, []byte) {
	t.Helper()
	r := gametest.Must(http.NewRequestWithContext(t.Context(), method, s.rest+path, bytes.NewReader(body)))(t)
	for k, v := range header {
		r.Header.Set(k, v)
	}
	reply := gametest.Must(http.DefaultClient.Do(r))(t)
	defer reply.Body.Close()
	text := gametest.Must(io.ReadAll(reply.Body))(t)
	return reply, text
}

const inferPath = "/v2/models/stub/infer"

// aMove asks for the position after one move, over REST.
const aMove = `{"inputs":[{"name":"moves","datatype":"BYTES","shape":[1],"data":["44"]}]}`
