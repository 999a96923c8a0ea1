package service

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/evald/evald/cmd/evald/client"
	"github.com/evald/evald/cmd/evald/kserve"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/heuristic"
	"github.com/evald/evald/engine/mcts"
	nets "github.com/evald/evald/nn/net"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("testing.(*F).Fuzz.func1"))
}

var connect4 = game.MustBoard(game.Connect4)

// serving is a server under test.
type serving struct {
	*Server
	rest  string // URL
	grpc  string // HOST:PORT
	stop  context.CancelFunc
	ended chan error
}

// testConfig serves a stub under the name "stub".
func testConfig(e eval.Evaluator) Config {
	limits := DefaultLimits
	limits.Timeout, limits.Receive = 10*time.Second, 2*time.Second
	return Config{
		Version: "test", Rules: game.Connect4, Models: []string{"stub"},
		Load: func(name string) (Loaded, error) {
			if name != "stub" {
				return Loaded{}, errors.New("there is no such file")
			}
			return Loaded{Evaluator: e, Version: "1", Platform: NetworkPlatform, Describe: "a stub"}, nil
		},
		Available: func() []string { return []string{"stub", "other"} },
		Batching:  DefaultBatching, Search: DefaultSearch, Limits: limits,
		Log: slog.New(slog.DiscardHandler), DrainTime: 10 * time.Second,
	}
}

func serve(t testing.TB, c Config) *serving {
	t.Helper()
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	l := Listeners{HTTP: listen(), GRPC: listen(), Metrics: listen()}
	ctx, stop := context.WithCancel(context.Background())
	out := &serving{s, "http://" + l.HTTP.Addr().String(), l.GRPC.Addr().String(), stop, make(chan error, 1)}
	if c.TLS != nil {
		out.rest = strings.Replace(out.rest, "http", "https", 1)
	}
	go func() { out.ended <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-out.ended; err != nil {
			t.Errorf("the server ended with %v", err)
		}
		out.ended <- nil
		http.DefaultClient.CloseIdleConnections()
	})
	return out
}

func (s *serving) dial(t testing.TB, options ...grpc.DialOption) kserve.GRPCInferenceServiceClient {
	t.Helper()
	if len(options) == 0 {
		options = []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	}
	conn, err := grpc.NewClient(s.grpc, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return kserve.NewGRPCInferenceServiceClient(conn)
}

// request asks for raw values.
func request(name, datatype string, raw []byte, shape ...int64) *kserve.ModelInferRequest {
	return &kserve.ModelInferRequest{
		ModelName:        "stub",
		Inputs:           []*kserve.ModelInferRequest_InferInputTensor{{Name: name, Datatype: datatype, Shape: shape}},
		RawInputContents: [][]byte{raw},
	}
}

func bitboardRequest(board *game.Board, pos ...game.Position) *kserve.ModelInferRequest {
	r := request(bitboardsInput, uint64Type, client.Bitboards(board, pos), int64(len(pos)), int64(2*words(board)))
	setParameter(r, "board", board.Rules().String())
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
func expected(t testing.TB, e eval.Evaluator, board *game.Board, pos []game.Position) map[string][]byte {
	t.Helper()
	b := eval.NewBatch(board, len(pos))
	copy(b.Pos, pos)
	if err := e.Evaluate(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for i := range pos {
		out[wdlOutput] = appendFloats(out[wdlOutput], b.WDLRow(i))
		out[valueOutput] = appendFloats(out[valueOutput], []float32{b.WDLRow(i)[0] - b.WDLRow(i)[2]})
		out[policyOutput] = appendFloats(out[policyOutput], b.PolicyRow(i))
		out[gameoverOutput] = append(out[gameoverOutput], map[game.Result]byte{game.Win: 1, game.Loss: 2, game.Draw: 3}[board.Result(pos[i])])
		out[sourceOutput] = appendBytes(out[sourceOutput], b.Source[i].String())
	}
	return out
}

func raws(r *kserve.ModelInferResponse) map[string][]byte {
	out := map[string][]byte{}
	for i, o := range r.Outputs {
		out[o.Name] = r.RawOutputContents[i]
	}
	return out
}

var boardsUnderTest = []string{"7x6x4", "9x5x4", "3x3x3free", "12x9x5"}

// Every input on every board gives, over gRPC, what the evaluator says.
func TestInputs(t *testing.T) {
	stub := &evaltest.Stub{Source: eval.CPU}
	s := serve(t, testConfig(stub))
	api := s.dial(t)
	for _, name := range boardsUnderTest {
		rules, err := game.ParseRules(name)
		if err != nil {
			t.Fatal(err)
		}
		board := game.MustBoard(rules)
		r := gametest.Rand(7)
		var pos []game.Position
		var lines []byte
		for len(pos) < 40 {
			p, actions := playout(r, board)
			pos = append(pos, p)
			lines = appendBytes(lines, game.FormatNotation(rules, actions))
		}
		planes := make([]float32, nets.PlanesSize(board, len(pos)))
		nets.Planes(board, pos, planes)
		n, h, w := int64(len(pos)), int64(rules.Rows), int64(rules.Columns)
		var two []float32 // the stones alone
		for i := range pos {
			size := int(nets.PlaneCount * h * w)
			two = append(two, planes[i*size:][:2*h*w]...)
		}
		words64 := client.Bitboards(board, pos)
		want := expected(t, stub, board, pos)
		contents := request(bitboardsInput, uint64Type, nil, n, int64(len(words64)/8)/n)
		contents.RawInputContents = nil
		contents.Inputs[0].Contents = &kserve.InferTensorContents{}
		for k := 0; k < len(words64); k += 8 {
			contents.Inputs[0].Contents.Uint64Contents = append(contents.Inputs[0].Contents.Uint64Contents, binary.LittleEndian.Uint64(words64[k:]))
		}
		for input, ask := range map[string]*kserve.ModelInferRequest{
			"bitboards":       bitboardRequest(board, pos...),
			"typed bitboards": contents,
			"planes":          request(planesInput, floatType, appendFloats(nil, planes), n, 5, h, w),
			"two planes":      request(planesInput, floatType, appendFloats(nil, two), n, 2, h, w),
			"moves":           request(movesInput, bytesType, lines, n),
			"moves in a row":  request(movesInput, bytesType, lines, n, 1),
		} {
			if !strings.HasPrefix(input, "moves") { // which name their board
				setParameter(ask, "board", name)
			}
			ask.Id = "id of " + input
			got, err := api.ModelInfer(t.Context(), ask)
			if err != nil {
				t.Errorf("%s, %s: %v", name, input, err)
				continue
			}
			if diff := cmp.Diff(want, raws(got)); diff != "" {
				t.Errorf("%s, %s (-want +got):\n%s", name, input, diff)
			}
			if got.Id != ask.Id || got.ModelName != "stub" || got.ModelVersion != "1" {
				t.Errorf("%s, %s: id %q, model %q, version %q", name, input, got.Id, got.ModelName, got.ModelVersion)
			}
		}
	}
}

// playout is a random game up to some move, perhaps its last.
func playout(r *rand.Rand, b *game.Board) (p game.Position, actions []int) {
	for plies := r.IntN(b.Cells()); len(actions) < plies && b.Result(p) == game.Ongoing; {
		if a := r.IntN(b.Actions()); b.CanPlay(p, a) {
			p = b.Play(p, a)
			actions = append(actions, a)
		}
	}
	return p, actions
}

// The Go client is an evaluator like any other.
func TestClientConformance(t *testing.T) {
	s := serve(t, testConfig(&evaltest.Stub{Source: eval.CPU}))
	evaltest.Run(t, evaltest.Config{Sources: []eval.Source{eval.CPU}, New: func(t testing.TB) eval.Evaluator {
		c, err := client.Dial(s.grpc, "stub", grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}})
}

// post sends a body to the model's infer call and reads the reply.
func (s *serving) post(t testing.TB, path string, header map[string]string, body []byte) (*http.Response, []byte) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.rest+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range header {
		r.Header.Set(k, v)
	}
	reply, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply, text
}

const inferPath = "/v2/models/stub/infer"

// REST gives the same values, as JSON and as binary tensors, mixed as they were asked for.
func TestREST(t *testing.T) {
	stub := &evaltest.Stub{Source: eval.CPU}
	s := serve(t, testConfig(stub))
	pos := append(gametest.Positions(gametest.Rand(1), connect4, 20, true), game.Position{})
	want := expected(t, stub, connect4, pos)
	raw := client.Bitboards(connect4, pos)
	var flat []uint64
	var rows [][]uint64
	for i := 0; i < len(raw); i += 8 {
		flat = append(flat, binary.LittleEndian.Uint64(raw[i:]))
	}
	for i := range pos {
		rows = append(rows, flat[2*i:2*i+2])
	}
	for name, data := range map[string]any{"flat": flat, "nested": rows, "binary": nil} {
		input := map[string]any{"name": "bitboards", "datatype": "UINT64", "shape": []int{len(pos), 2}}
		if data != nil {
			input["data"] = data
		} else {
			input["parameters"] = map[string]any{"binary_data_size": len(raw)}
		}
		head, err := json.Marshal(map[string]any{
			"id": "7", "inputs": []any{input}, "parameters": map[string]any{"binary_data_output": true},
			"outputs": []any{
				map[string]any{"name": "policy"},
				map[string]any{"name": "wdl", "parameters": map[string]any{"binary_data": false}},
				map[string]any{"name": "source"},
				map[string]any{"name": "gameover", "parameters": map[string]any{"binary_data": false}},
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		header, body := map[string]string{}, head
		if data == nil {
			header[jsonLength] = strconv.Itoa(len(head))
			body = append(slices.Clone(head), raw...)
		}
		reply, text := s.post(t, inferPath, header, body)
		n, err := strconv.Atoi(reply.Header.Get(jsonLength))
		if reply.StatusCode != http.StatusOK || err != nil {
			t.Fatalf("%s: status %d: %s", name, reply.StatusCode, text)
		}
		var got struct {
			ID      string
			Outputs []struct {
				Name  string
				Shape []int
				Data  []float32
			}
		}
		if err := json.Unmarshal(text[:n], &got); err != nil {
			t.Fatal(err)
		}
		tail := append(slices.Clone(want["policy"]), want["source"]...)
		if !bytes.Equal(text[n:], tail) || got.ID != "7" || got.Outputs[0].Shape[1] != 7 {
			t.Errorf("%s: %s and %d bytes", name, text[:n], len(text)-n)
		}
		if wdl := appendFloats(nil, got.Outputs[1].Data); !bytes.Equal(wdl, want["wdl"]) {
			t.Errorf("%s: wdl %v", name, got.Outputs[1].Data)
		}
		for i, x := range got.Outputs[3].Data {
			if byte(x) != want["gameover"][i] {
				t.Errorf("%s: gameover %v", name, got.Outputs[3].Data)
			}
		}
	}
}

// Wrong requests are refused with the right code, and the error names what is wrong.
func TestRefusals(t *testing.T) {
	s := serve(t, testConfig(&evaltest.Stub{Source: eval.CPU}))
	api := s.dial(t)
	word := func(values ...uint64) (raw []byte) {
		for _, v := range values {
			raw = binary.LittleEndian.AppendUint64(raw, v)
		}
		return raw
	}
	with := func(r *kserve.ModelInferRequest, change func(*kserve.ModelInferRequest)) *kserve.ModelInferRequest {
		change(r)
		return r
	}
	planes := make([]float32, 5*42)
	nets.Planes(connect4, make([]game.Position, 1), planes)
	wrongPlane := slices.Clone(planes)
	wrongPlane[2*42+5*7] = 0
	nan := slices.Clone(planes)
	nan[3] = float32(0) / float32(len(nan)-5*42)
	for _, c := range []struct {
		name string
		ask  *kserve.ModelInferRequest
		code codes.Code
		says string
	}{
		{"model", with(bitboardRequest(connect4, game.Position{}), func(r *kserve.ModelInferRequest) { r.ModelName = "x" }), codes.NotFound, "[search stub]"},
		{"version", with(bitboardRequest(connect4, game.Position{}), func(r *kserve.ModelInferRequest) { r.ModelVersion = "2" }), codes.NotFound, "version 1"},
		{"no input", with(bitboardRequest(connect4, game.Position{}), func(r *kserve.ModelInferRequest) { r.Inputs = nil }), codes.InvalidArgument, "0 inputs"},
		{"input", request("bits", uint64Type, word(0, 0), 1, 2), codes.InvalidArgument, "bitboards, planes or moves"},
		{"datatype", request(bitboardsInput, "INT64", word(0, 0), 1, 2), codes.InvalidArgument, "must be UINT64"},
		{"shape", request(bitboardsInput, uint64Type, word(0, 0), 1, 3), codes.InvalidArgument, "[N,2]"},
		{"no shape", request(bitboardsInput, uint64Type, word(0, 0)), codes.InvalidArgument, "no row"},
		{"negative shape", request(bitboardsInput, uint64Type, word(0, 0), -1, 2), codes.InvalidArgument, "-1 positions"},
		{"huge shape", request(bitboardsInput, uint64Type, word(0, 0), 1<<60, 2), codes.InvalidArgument, "must be 1 to 4096"},
		{"too short", request(bitboardsInput, uint64Type, word(0), 1, 2), codes.InvalidArgument, "8 bytes"},
		{"no contents", with(request(bitboardsInput, uint64Type, nil, 1, 2), func(r *kserve.ModelInferRequest) { r.RawInputContents = nil }), codes.InvalidArgument, "neither contents"},
		{"own without all", request(bitboardsInput, uint64Type, word(1, 0), 1, 2), codes.InvalidArgument, "row 0"},
		{"off the board", request(bitboardsInput, uint64Type, word(0, 0, 0, 1<<63), 2, 2), codes.InvalidArgument, "row 1"},
		{"guard bit", request(bitboardsInput, uint64Type, word(0, 1<<6), 1, 2), codes.InvalidArgument, "off the board"},
		{"floating", request(bitboardsInput, uint64Type, word(0, 2), 1, 2), codes.InvalidArgument, "nothing below"},
		{"plane's value", request(planesInput, floatType, appendFloats(nil, nan), 1, 5, 6, 7), codes.InvalidArgument, "cell 3 of plane 0"},
		{"plane against stones", request(planesInput, floatType, appendFloats(nil, wrongPlane), 1, 5, 6, 7), codes.InvalidArgument, "cell 35 of plane 2"},
		{"planes of another board", request(planesInput, floatType, appendFloats(nil, planes), 1, 5, 7, 6), codes.InvalidArgument, `parameter "board"`},
		{"moves", request(movesInput, bytesType, appendBytes(nil, "448"), 1), codes.InvalidArgument, "row 0"},
		{"torn moves", request(movesInput, bytesType, appendBytes(nil, "44")[:5], 1), codes.InvalidArgument, "less than its length"},
		{"more moves", request(movesInput, bytesType, appendBytes(appendBytes(nil, "44"), "4"), 1), codes.InvalidArgument, "follow"},
		{"two boards", request(movesInput, bytesType, appendBytes(appendBytes(nil, "44"), "9x5x4:4"), 2), codes.InvalidArgument, "one board"},
		{"output", with(bitboardRequest(connect4, game.Position{}), func(r *kserve.ModelInferRequest) {
			r.Outputs = []*kserve.ModelInferRequest_InferRequestedOutputTensor{{Name: "visits"}}
		}), codes.InvalidArgument, "must be one of [wdl"},
		{"output twice", with(bitboardRequest(connect4, game.Position{}), func(r *kserve.ModelInferRequest) {
			r.Outputs = []*kserve.ModelInferRequest_InferRequestedOutputTensor{{Name: "wdl"}, {Name: "wdl"}}
		}), codes.InvalidArgument, "twice"},
		{"board", with(bitboardRequest(connect4, game.Position{}), func(r *kserve.ModelInferRequest) { setParameter(r, "board", "99x99x4") }), codes.InvalidArgument, "board"},
		{"parameter", with(bitboardRequest(connect4, game.Position{}), func(r *kserve.ModelInferRequest) { setParameter(r, "vists", 5) }), codes.InvalidArgument, "vists"},
		{"visits", with(bitboardRequest(connect4, game.Position{}), func(r *kserve.ModelInferRequest) { setParameter(r, "visits", 1<<40) }), codes.InvalidArgument, "100000"},
		{"priority", with(bitboardRequest(connect4, game.Position{}), func(r *kserve.ModelInferRequest) { setParameter(r, "priority", 4) }), codes.InvalidArgument, "0 to 3"},
		{"sequence", with(bitboardRequest(connect4, game.Position{}), func(r *kserve.ModelInferRequest) { setParameter(r, "sequence_id", 4) }), codes.Unimplemented, "state"},
	} {
		_, err := api.ModelInfer(t.Context(), c.ask)
		if got := status.Convert(err); got.Code() != c.code || !strings.Contains(got.Message(), c.says) {
			t.Errorf("%s: %v %q, want %v with %q", c.name, got.Code(), got.Message(), c.code, c.says)
		}
	}
	_, err := api.RepositoryIndex(t.Context(), &kserve.RepositoryIndexRequest{})
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("index: %v, want Unimplemented", err)
	}
	_, err = api.ModelInfer(t.Context(), request(bitboardsInput, uint64Type, make([]byte, 9<<20), 1, 2))
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("9 MiB: %v, want ResourceExhausted", err)
	}
}

func TestRESTRefusals(t *testing.T) {
	s := serve(t, testConfig(&evaltest.Stub{Source: eval.CPU}))
	ok := `{"inputs":[{"name":"moves","datatype":"BYTES","shape":[1],"data":["44"]}]}`
	for _, c := range []struct {
		name, path, body string
		header           map[string]string
		code             int
		says             string
	}{
		{"good", inferPath, ok, nil, 200, `"model_name":"stub"`},
		{"good, with a version", "/v2/models/stub/versions/1/infer", ok, nil, 200, `"model_version":"1"`},
		{"model", "/v2/models/x/infer", ok, nil, 404, `model \"x\" is not served`},
		{"version", "/v2/models/stub/versions/9/infer", ok, nil, 404, "version 1"},
		{"path", "/v2/model/stub", ok, nil, 404, "no call"},
		{"json", inferPath, `{"inputs":`, nil, 400, "body"},
		{"empty", inferPath, ``, nil, 400, "body"},
		{"no data", inferPath, `{"inputs":[{"name":"moves","datatype":"BYTES","shape":[1]}]}`, nil, 400, "neither data"},
		{"count", inferPath, `{"inputs":[{"name":"moves","datatype":"BYTES","shape":[2],"data":["44"]}]}`, nil, 400, "1 values"},
		{"value", inferPath, `{"inputs":[{"name":"bitboards","datatype":"UINT64","shape":[1,2],"data":[0,-1]}]}`, nil, 400, "-1 is no value of UINT64"},
		{"float", inferPath, `{"inputs":[{"name":"planes","datatype":"FP32","shape":[1],"data":[1e99]}]}`, nil, 400, "no value of FP32"},
		{"shape", inferPath, `{"inputs":[{"name":"moves","datatype":"BYTES","shape":[1000000000000,1000000000000],"data":["44"]}]}`, nil, 400, "shape"},
		{"header length", inferPath, ok, map[string]string{jsonLength: "1000"}, 400, jsonLength},
		{"header sign", inferPath, ok, map[string]string{jsonLength: "-1"}, 400, jsonLength},
		{"trailing", inferPath, ok + "xx", map[string]string{jsonLength: strconv.Itoa(len(ok))}, 400, "2 bytes follow"},
		{"parameter", inferPath, strings.Replace(ok, "{", `{"parameters":{"board":7},`, 1), nil, 400, "must be a string"},
		{"encoding", inferPath, ok, map[string]string{"Content-Encoding": "br"}, 400, "gzip or deflate"},
		{"not gzip", inferPath, ok, map[string]string{"Content-Encoding": "gzip"}, 400, "body"},
		{"too long", inferPath, strings.Repeat(" ", 9<<20), nil, 413, "longer than 8388608 bytes"},
		{"load", "/v2/repository/models/stub/load", "", nil, 501, "--repository"},
	} {
		reply, text := s.post(t, c.path, c.header, []byte(c.body))
		if reply.StatusCode != c.code || !strings.Contains(string(text), c.says) {
			t.Errorf("%s: status %d %s, want %d with %q", c.name, reply.StatusCode, text, c.code, c.says)
		}
		var e errorBody
		if c.code != 200 && (json.Unmarshal(text, &e) != nil || e.Error == "") {
			t.Errorf("%s: %s is no error of the protocol", c.name, text)
		}
	}
}

// A search over the service is the search by the library, whatever other searches it shared batches with.
func TestSearch(t *testing.T) {
	stub := &evaltest.Stub{Source: eval.CPU}
	s := serve(t, testConfig(stub))
	api := s.dial(t)
	var pos []game.Position
	for plies := range 7 {
		pos = append(pos, gametest.Position(gametest.Rand(5), connect4, plies, true))
	}
	pos = append(pos, gametest.Position(gametest.Rand(5), connect4, 42, false))
	config := mcts.DefaultConfig()
	config.Visits = 60
	search, err := mcts.NewEvaluator(stub, config, mcts.Limits{Visits: 60, Batch: 16})
	if err != nil {
		t.Fatal(err)
	}
	want := expected(t, search, connect4, pos)
	for _, from := range []int{0, 3} { // with company and alone
		ask := bitboardRequest(connect4, pos[from:]...)
		ask.ModelName = "search"
		setParameter(ask, "visits", 60)
		got, err := api.ModelInfer(t.Context(), ask)
		if err != nil {
			t.Fatal(err)
		}
		out := raws(got)
		if !bytes.Equal(out["wdl"], want["wdl"][12*from:]) || !bytes.Equal(out["policy"], want["policy"][28*from:]) {
			t.Errorf("from %d: wdl %v, want %v", from, out["wdl"], want["wdl"][12*from:])
		}
		for i := range pos[from:] {
			visits := 0
			for a := range 7 {
				visits += int(binary.LittleEndian.Uint32(out["visits"][28*i+4*a:]))
			}
			over := connect4.Result(pos[from+i]) != game.Ongoing
			if over != (visits == 0) || visits > 60 {
				t.Errorf("row %d: %d visits, game over: %v", i, visits, over)
			}
		}
		if len(out["q"]) != 28*len(pos[from:]) {
			t.Errorf("q has %d bytes", len(out["q"]))
		}
	}
	ask := bitboardRequest(connect4, append(pos, pos...)...)
	ask.ModelName = "search"
	setParameter(ask, "visits", 100_000)
	if _, err := api.ModelInfer(t.Context(), ask); status.Code(err) != codes.InvalidArgument {
		t.Errorf("16 positions of 100000 visits: %v, want InvalidArgument", err)
	}
	ask.Inputs[0].Shape[0], ask.RawInputContents[0] = 1, ask.RawInputContents[0][:16]
	setParameter(ask, "timeout", 30_000)
	start := time.Now()
	if _, err := api.ModelInfer(t.Context(), ask); status.Code(err) != codes.DeadlineExceeded || time.Since(start) > 5*time.Second {
		t.Errorf("30 ms for 100000 visits: %v after %v, want DeadlineExceeded", err, time.Since(start))
	}
}

// Answers that are not finite are refused, and a fault of an evaluator ends its requests alone.
func TestBadEvaluators(t *testing.T) {
	var bad func(b *eval.Batch)
	stub := &evaltest.Stub{Source: eval.CPU, After: func(b *eval.Batch) { bad(b) }}
	s := serve(t, testConfig(stub))
	api := s.dial(t)
	for name, do := range map[string]func(*eval.Batch){
		"not finite": func(b *eval.Batch) { b.WDL[1] /= float32(len(b.Pos) - 1) },
		"fault":      func(b *eval.Batch) { panic("a bug") },
	} {
		bad = do
		_, err := api.ModelInfer(t.Context(), bitboardRequest(connect4, game.Position{}))
		if status.Code(err) != codes.Internal || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	bad = func(*eval.Batch) {}
	if _, err := api.ModelInfer(t.Context(), bitboardRequest(connect4, game.Position{})); err != nil {
		t.Error(err)
	}
}

// The requests of a stream are answered in their order; one that is wrong does not end it.
func TestStream(t *testing.T) {
	stub := &evaltest.Stub{Source: eval.CPU}
	s := serve(t, testConfig(stub))
	stream, err := s.dial(t).ModelStreamInfer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const n = 300
	go func() {
		for i := range n {
			ask := bitboardRequest(connect4, gametest.Positions(gametest.Rand(uint64(i)), connect4, 3, true)...)
			ask.Id = strconv.Itoa(i)
			if i%7 == 3 {
				ask.ModelName = "x"
			}
			if stream.Send(ask) != nil {
				return // Recv has the error
			}
		}
		_ = stream.CloseSend()
	}()
	for i := range n {
		got, err := stream.Recv()
		if err != nil {
			t.Fatalf("answer %d: %v", i, err)
		}
		if got.InferResponse.Id != strconv.Itoa(i) || (got.ErrorMessage != "") != (i%7 == 3) {
			t.Errorf("answer %d: id %s, error %q", i, got.InferResponse.Id, got.ErrorMessage)
		}
		if got.ErrorMessage == "" {
			want := expected(t, stub, connect4, gametest.Positions(gametest.Rand(uint64(i)), connect4, 3, true))
			if diff := cmp.Diff(want, raws(got.InferResponse)); diff != "" {
				t.Errorf("answer %d (-want +got):\n%s", i, diff)
			}
		}
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("after the last: %v, want EOF", err)
	}
}

// What the server says of itself is the same over both transports, and counts what it did.
func TestDescriptions(t *testing.T) {
	c := testConfig(&evaltest.Stub{Source: eval.CPU})
	c.Repository, c.Cache = true, 1<<10
	s := serve(t, c)
	api := s.dial(t)
	for range 3 {
		if _, err := api.ModelInfer(t.Context(), bitboardRequest(connect4, make([]game.Position, 5)...)); err != nil {
			t.Fatal(err)
		}
	}
	get := func(path string) string {
		reply, err := http.Get(s.rest + path)
		if err != nil {
			t.Fatal(err)
		}
		defer reply.Body.Close()
		text, err := io.ReadAll(reply.Body)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%d %s", reply.StatusCode, text)
	}
	for path, want := range map[string][]string{
		"/v2":                        {`200`, `"name":"evald"`, `"model_repository"`, `"statistics"`},
		"/v2/health/live":            {`200`},
		"/v2/health/ready":           {`200`},
		"/v2/models/stub/ready":      {`200`},
		"/v2/models/x/ready":         {`400`},
		"/v2/models/stub":            {`{"datatype":"FP32","name":"planes","shape":[-1,5,6,7]}`, `"versions":["1"]`},
		"/v2/models/search":          {`{"datatype":"INT32","name":"visits","shape":[-1,7]}`},
		"/v2/models/stub/config":     {`"max_batch_size":4096`, `"max_queue_delay_microseconds":1000`, `"dims":[5,6,7]`, `"response_cache":{"enable":true}`},
		"/v2/models/stub/stats":      {`"inference_count":15`, `"execution_count":3`, `"batch_size":5`, `"cache_hit":{"count":10`},
		"/v2/models/stats":           {`"name":"search"`, `"name":"stub"`},
		"/v2/models/x/stats":         {`404`},
		"/v2/models/stub/versions/1": {`200`},
		"/v2/models/stub/versions/3": {`404`},
	} {
		got := get(path)
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("%s: %s, want %s", path, got, w)
			}
		}
	}
	if _, text := s.post(t, "/v2/repository/index", nil, nil); string(text) != `[{"name":"other","reason":"not loaded","state":"UNAVAILABLE","version":""},{"name":"search","reason":"","state":"READY","version":"1"},{"name":"stub","reason":"","state":"READY","version":"1"}]`+"\n" {
		t.Errorf("index: %s", text)
	}
	if reply, text := s.post(t, "/v2/repository/models/other/load", nil, nil); reply.StatusCode != 400 || !strings.Contains(string(text), "no such file") {
		t.Errorf("load: %d %s", reply.StatusCode, text)
	}
	recorder := &recorder{header: http.Header{}}
	s.Metrics().ServeHTTP(recorder, &http.Request{Method: http.MethodGet, Header: http.Header{}})
	for _, want := range []string{
		`nv_inference_request_success{model="stub",version="1"} 3`,
		`nv_inference_count{model="stub",version="1"} 15`,
		`nv_inference_exec_count{model="stub",version="1"} 3`,
		`nv_inference_request_failure{model="stub",reason="REJECTED",version="1"} 0`,
		`nv_inference_pending_request_count{model="stub",version="1"} 0`,
		`evald_batches_total{model="stub",reason="idle",version="1"} 3`,
		`evald_rows_total{model="stub",source="cpu",version="1"} 5`,
		`evald_rows_total{model="stub",source="cache",version="1"} 10`,
		`evald_batch_rows_bucket{model="stub",version="1",le="4"} 0`,
		`evald_batch_rows_bucket{model="stub",version="1",le="8"} 3`,
		`evald_batch_rows_sum{model="stub",version="1"} 15`,
		`evald_ready 1`,
	} {
		if !strings.Contains(recorder.body.String(), want+"\n") {
			t.Errorf("metrics have no %s", want)
		}
	}
	if t.Failed() {
		t.Log(recorder.body.String())
	}
}

// recorder keeps a reply.
type recorder struct {
	header http.Header
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) Write(b []byte) (int, error) { return r.body.Write(b) }
func (r *recorder) WriteHeader(int)             {}

// BenchmarkInfer is one request of 256 bitboards, server and client on the same cores.
func BenchmarkInfer(b *testing.B) {
	e, err := heuristic.New(eval.Bitsquares)
	if err != nil {
		b.Fatal(err)
	}
	s := serve(b, testConfig(e))
	api := s.dial(b)
	ask := bitboardRequest(connect4, gametest.Positions(gametest.Rand(1), connect4, 256, true)...)
	ask.Outputs = []*kserve.ModelInferRequest_InferRequestedOutputTensor{{Name: wdlOutput}, {Name: policyOutput}}
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			if _, err := api.ModelInfer(context.Background(), ask); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)*256/b.Elapsed().Seconds(), "positions/s")
}
