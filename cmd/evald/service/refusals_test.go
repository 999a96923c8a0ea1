package service

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/evald/evald/cmd/evald/kserve"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	nets "github.com/evald/evald/nn/net"
)

// Wrong requests are refused with the right code, and the error names what is wrong.
func TestRefusals(t *testing.T) {
	s := serve(t, testConfig(&evaltest.Stub{Source: eval.CPU}))
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
	asking := func(outputs ...string) *kserve.ModelInferRequest {
		r := bitboardRequest(connect4, game.Position{})
		for _, name := range outputs {
			r.Outputs = append(r.Outputs, &kserve.ModelInferRequest_InferRequestedOutputTensor{Name: name})
		}
		return r
	}
	planes := make([]float32, 5*42)
	nets.Planes(connect4, make([]game.Position, 1), planes)
	wrongPlane := slices.Clone(planes)
	wrongPlane[2*42+5*7] = 0
	nan := slices.Clone(planes)
	nan[3] = float32(0) / float32(len(nan)-5*42)
	won := after(t, "1122334")
	for _, c := range []struct {
		name string
		ask  *kserve.ModelInferRequest
		code codes.Code
		says string
	}{
		{"model", with(bitboardRequest(connect4, game.Position{}), func(r *kserve.ModelInferRequest) { r.ModelName = "x" }), codes.NotFound, "[search stub]"},
		{"version", with(bitboardRequest(connect4, game.Position{}), func(r *kserve.ModelInferRequest) { r.ModelVersion = "2" }), codes.NotFound, "version 1"},
		{"id", with(bitboardRequest(connect4, game.Position{}), func(r *kserve.ModelInferRequest) { r.Id = strings.Repeat("x", 9000) }), codes.InvalidArgument, "id has 9000 bytes"},
		{"600 inputs", with(bitboardRequest(connect4, game.Position{}), func(r *kserve.ModelInferRequest) { r.Inputs = manyInputs(5000) }), codes.InvalidArgument, "more than 4608 parts"},
		{"33 outputs", asking(slices.Repeat([]string{"wdl"}, 33)...), codes.InvalidArgument, "twice"},
		{"no input", with(bitboardRequest(connect4, game.Position{}), func(r *kserve.ModelInferRequest) { r.Inputs = nil }), codes.InvalidArgument, "0 inputs"},
		{"input", rawRequest("bits", uint64Type, word(0, 0), 1, 2), codes.InvalidArgument, "bitboards, planes or moves"},
		{"datatype", rawRequest(bitboardsInput, "INT64", word(0, 0), 1, 2), codes.InvalidArgument, "must be UINT64"},
		{"shape", rawRequest(bitboardsInput, uint64Type, word(0, 0), 1, 3), codes.InvalidArgument, "[N,2]"},
		{"no shape", rawRequest(bitboardsInput, uint64Type, word(0, 0)), codes.InvalidArgument, "no row"},
		{"huge shape", rawRequest(bitboardsInput, uint64Type, word(0, 0), 1<<60, 2), codes.InvalidArgument, "must be 1 to 4096"},
		{"too short", rawRequest(bitboardsInput, uint64Type, word(0), 1, 2), codes.InvalidArgument, "8 bytes"},
		{"no contents", with(rawRequest(bitboardsInput, uint64Type, nil, 1, 2), func(r *kserve.ModelInferRequest) { r.RawInputContents = nil }), codes.InvalidArgument, "neither contents"},
		{"off the board", rawRequest(bitboardsInput, uint64Type, word(0, 0, 0, 1<<63), 2, 2), codes.InvalidArgument, "row 1"},
		{"plane's value", rawRequest(planesInput, floatType, appendNumbers(nil, nan), 1, 5, 6, 7), codes.InvalidArgument, "cell 3 of plane 0"},
		{"plane against stones", rawRequest(planesInput, floatType, appendNumbers(nil, wrongPlane), 1, 5, 6, 7), codes.InvalidArgument, "cell 35 of plane 2"},
		{"planes of another board", rawRequest(planesInput, floatType, appendNumbers(nil, planes), 1, 5, 7, 6), codes.InvalidArgument, `parameter "board"`},
		{"moves", rawRequest(movesInput, bytesType, appendBytes(nil, "448"), 1), codes.InvalidArgument, "row 0"},
		{"torn moves", rawRequest(movesInput, bytesType, appendBytes(nil, "44")[:5], 1), codes.InvalidArgument, "less than its length"},
		{"more moves", rawRequest(movesInput, bytesType, appendBytes(appendBytes(nil, "44"), "4"), 1), codes.InvalidArgument, "follow"},
		{"a board not inherited", rawRequest(movesInput, bytesType, appendBytes(appendBytes(nil, "9x5x4:4"), "44"), 2), codes.InvalidArgument, "row 1 is on board 7x6x4, those before it on 9x5x4: a request has one board"},
		{"two boards", rawRequest(movesInput, bytesType, appendBytes(appendBytes(nil, "44"), "9x5x4:4"), 2), codes.InvalidArgument, "one board"},
		{"output", asking("visits"), codes.InvalidArgument, "must be one of [wdl"},
		{"output twice", asking("wdl", "wdl"), codes.InvalidArgument, "twice"},
		{"board", with(bitboardRequest(connect4, game.Position{}), func(r *kserve.ModelInferRequest) { setParameter(r, "board", "99x99x4") }), codes.InvalidArgument, "board"},
		{"parameter", with(bitboardRequest(connect4, game.Position{}), func(r *kserve.ModelInferRequest) { setParameter(r, "vists", 5) }), codes.InvalidArgument, "vists"},
		{"visits", with(bitboardRequest(connect4, game.Position{}), func(r *kserve.ModelInferRequest) { setParameter(r, "visits", 1<<40) }), codes.InvalidArgument, "100000"},
		{"exact", with(searchRequest(5, game.Position{}), func(r *kserve.ModelInferRequest) { setParameter(r, "exact", 100_001) }), codes.InvalidArgument, "from 0 to 100000"},
		{"exact in text", with(searchRequest(5, game.Position{}), func(r *kserve.ModelInferRequest) { setParameter(r, "exact", "yes") }), codes.InvalidArgument, "must be true ("},
		{"visits without a search", with(bitboardRequest(connect4, game.Position{}), func(r *kserve.ModelInferRequest) { setParameter(r, "visits", 5) }), codes.InvalidArgument, "does not search"},
		{"priority", with(bitboardRequest(connect4, game.Position{}), func(r *kserve.ModelInferRequest) { setParameter(r, "priority", 4) }), codes.InvalidArgument, "0 to 3"},
		{"exact, a text", with(bitboardRequest(connect4, game.Position{}), func(r *kserve.ModelInferRequest) { setParameter(r, "exact", "1000") }), codes.InvalidArgument, `parameter "exact": 1000, must be true (1000 nodes a position), false or a number of nodes from 0 to 100000`},
		{"exact, too many", with(bitboardRequest(connect4, game.Position{}), func(r *kserve.ModelInferRequest) { setParameter(r, "exact", 100_001) }), codes.InvalidArgument, "from 0 to 100000"},
		{"exact, too few", with(bitboardRequest(connect4, game.Position{}), func(r *kserve.ModelInferRequest) { setParameter(r, "exact", -1) }), codes.InvalidArgument, "from 0 to 100000"},
		{"exact and raw", with(bitboardRequest(connect4, game.Position{}), func(r *kserve.ModelInferRequest) { setParameter(r, "exact", true); setParameter(r, "raw", true) }), codes.InvalidArgument, "leave one out"},
		{"raw", with(bitboardRequest(connect4, game.Position{}), func(r *kserve.ModelInferRequest) { setParameter(r, "raw", 1) }), codes.InvalidArgument, "must be true or false"},
		{"progress, of no search", with(bitboardRequest(connect4, game.Position{}), func(r *kserve.ModelInferRequest) { setParameter(r, "progress", true) }), codes.InvalidArgument, "model stub does not search"},
		{"progress, in one answer", with(searchRequest(9, game.Position{}), func(r *kserve.ModelInferRequest) { setParameter(r, "progress", true) }), codes.InvalidArgument, "needs an answer of several parts"},
		{"raw, a game that is over", with(bitboardRequest(connect4, game.Position{}, won), func(r *kserve.ModelInferRequest) { setParameter(r, "raw", true) }), codes.InvalidArgument, "row 1: the game is over (loss)"},
		{"raw search, a game that is over", with(bitboardRequest(connect4, won), func(r *kserve.ModelInferRequest) { r.ModelName = searchModel; setParameter(r, "raw", true) }), codes.InvalidArgument, "row 0: the game is over (loss)"},
		{"any position", with(bitboardRequest(connect4, game.Position{}), func(r *kserve.ModelInferRequest) { setParameter(r, "any_position", 1) }), codes.InvalidArgument, "must be true or false"},
		{"a position that no game reaches", bitboardRequest(connect4, game.Position{}, game.Position{Own: won.All, All: won.All}), codes.InvalidArgument, "row 1: own {0x20c183 0x0}, all {0x20c183 0x0}: 7 stones of the side to move, none of the other side: no game reaches this (any_position accepts it)"},
		{"sequence", with(bitboardRequest(connect4, game.Position{}), func(r *kserve.ModelInferRequest) { setParameter(r, "sequence_id", 4) }), codes.Unimplemented, "state"},
	} {
		_, err := s.api.ModelInfer(t.Context(), c.ask)
		if got := status.Convert(err); got.Code() != c.code || !strings.Contains(got.Message(), c.says) {
			t.Errorf("%s: %v %q, want %v with %q", c.name, got.Code(), got.Message(), c.code, c.says)
		}
	}
	_, err := s.api.RepositoryIndex(t.Context(), &kserve.RepositoryIndexRequest{})
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("index: %v, want Unimplemented", err)
	}
	_, err = s.api.ModelInfer(t.Context(), rawRequest(bitboardsInput, uint64Type, make([]byte, 9<<20), 1, 2))
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("9 MiB: %v, want ResourceExhausted", err)
	}
}

// manyKeys is a text with numbers in it, again and again.
func manyKeys(format string, n int) (text string) {
	for i := range n {
		text += fmt.Sprintf(format, i)
	}
	return text
}

// The members of a request may come in any order.
func TestRESTOrder(t *testing.T) {
	s := serve(t, testConfig(&evaltest.Stub{Source: eval.CPU}))
	r := gametest.Rand(4)
	want := ""
	for range 100 {
		input := []string{`"name":"bitboards"`, `"datatype":"UINT64"`, `"shape":[2,2]`, `"data":[0,[1],[[2,3]]]`, `"parameters":{}`}
		all := []string{`"id":"7"`, `"outputs":[{"name":"policy"},{"parameters":{"binary_data":false},"name":"wdl"}]`, `"parameters":{"board":"7x6x4","priority":1}`, ""}
		r.Shuffle(len(input), func(i, k int) { input[i], input[k] = input[k], input[i] })
		all[3] = `"inputs":[{` + strings.Join(input, ",") + `}]`
		r.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
		body := "{" + strings.Join(all, " , ") + "}\n"
		reply, text := s.post(t, inferPath, nil, []byte(body))
		if want == "" {
			want = string(text)
		}
		if reply.StatusCode != http.StatusOK || string(text) != want {
			t.Fatalf("%s: %s %s, want %s", body, reply.Status, text, want)
		}
	}
}

// Values before their shape take many reads, and their answer is that of values after it.
func TestRESTLateValues(t *testing.T) {
	s := serve(t, testConfig(&evaltest.Stub{Source: eval.CPU}))
	for _, n := range []int{1, 700, 4096} {
		for _, space := range []string{"", " ", "\n" + strings.Repeat(" ", 3000)} {
			data := `"data"` + space + ":" + space + `[["4"` + strings.Repeat(`,`+space[:min(len(space), 20)]+`"4\u0034"`, n-1) + `]` + space + `]`
			shape := fmt.Sprintf(`"name":"moves","datatype":"BYTES","shape":[%d]`, n)
			_, want := s.post(t, inferPath, nil, []byte(`{"inputs":[{`+shape+`,`+data+`}]}`))
			reply, got := s.post(t, inferPath, nil, []byte(`{"inputs":[{`+data+`,`+shape+`}]}`))
			if reply.StatusCode != http.StatusOK || string(got) != string(want) {
				t.Errorf("%d positions, space %.9q: %s %.300s, want %.300s", n, space, reply.Status, got, want)
			}
		}
	}
}

// What is taken for a message before it is decoded is no less than what it takes, whatever its parts are and also if it is damaged.
func TestDecodedCost(t *testing.T) {
	gametest.OneGoroutine(t)
	of := (*kserve.ModelInferRequest)(nil).ProtoReflect().Descriptor()
	for name, change := range map[string]func(r *kserve.ModelInferRequest, in *kserve.ModelInferRequest_InferInputTensor){
		"plain": func(*kserve.ModelInferRequest, *kserve.ModelInferRequest_InferInputTensor) {},
		"inputs": func(r *kserve.ModelInferRequest, in *kserve.ModelInferRequest_InferInputTensor) {
			r.Inputs = manyInputs(500)
		},
		"outputs": func(r *kserve.ModelInferRequest, in *kserve.ModelInferRequest_InferInputTensor) {
			r.Outputs = slices.Repeat([]*kserve.ModelInferRequest_InferRequestedOutputTensor{{}}, 500)
		},
		"parameters": func(r *kserve.ModelInferRequest, in *kserve.ModelInferRequest_InferInputTensor) {
			for i := range 250 {
				setParameter(r, strconv.Itoa(i), 1)
			}
		},
		"raw": func(r *kserve.ModelInferRequest, _ *kserve.ModelInferRequest_InferInputTensor) {
			r.RawInputContents = make([][]byte, 9000)
		},
		"name": func(r *kserve.ModelInferRequest, _ *kserve.ModelInferRequest_InferInputTensor) {
			r.ModelName = strings.Repeat("x", 90_000)
		},
		"shape": func(_ *kserve.ModelInferRequest, in *kserve.ModelInferRequest_InferInputTensor) {
			in.Shape = make([]int64, 9000)
		},
		"values": func(_ *kserve.ModelInferRequest, in *kserve.ModelInferRequest_InferInputTensor) {
			in.Contents = &kserve.InferTensorContents{BytesContents: make([][]byte, 9000), Fp64Contents: make([]float64, 9000), Uint64Contents: make([]uint64, 9000), BoolContents: make([]bool, 9000)}
		},
		"unknown": func(r *kserve.ModelInferRequest, in *kserve.ModelInferRequest_InferInputTensor) {
			in.ProtoReflect().SetUnknown(bytes.Repeat([]byte{0x78, 0x01}, 9000))
		},
	} {
		r := bitboardRequest(connect4, game.Position{})
		change(r, r.Inputs[0])
		text := gametest.Must(proto.Marshal(r))(t)
		cost := gametest.Must(decodedCost(of, text, new(20_000)))(t)
		var decoded *kserve.ModelInferRequest
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		decoded = new(kserve.ModelInferRequest)
		gametest.OK(t, proto.Unmarshal(text, decoded))
		runtime.GC()
		runtime.ReadMemStats(&after)
		if took := int(after.HeapAlloc) - int(before.HeapAlloc); cost < took || cost < proto.Size(decoded) {
			t.Errorf("%s: %d bytes are taken, and %d used", name, cost, took)
		}
		runtime.KeepAlive(decoded)
	}
	for _, torn := range [][]byte{{0x0a}, {0x0a, 0xff}, {0x2a, 0x02, 0x0a}, {0x07}, bytes.Repeat([]byte{0xff}, 20)} {
		if cost, err := decodedCost(of, torn, new(20_000)); err == nil {
			t.Errorf("%x takes %d", torn, cost)
		}
	}
	for name, r := range map[string]*kserve.ModelInferRequest{"inputs": {Inputs: manyInputs(1_000_000)}, "raw": {RawInputContents: make([][]byte, 1_000_000)}} {
		left, text := 100, gametest.Must(proto.Marshal(r))(t)
		if cost, err := decodedCost(of, text, &left); left != -1 || cost > 1<<16 || err != nil {
			t.Errorf("of 1,000,000 %s with 100 allowed %d are left, %d bytes: %v", name, left, cost, err)
		}
	}
}

func manyInputs(n int) []*kserve.ModelInferRequest_InferInputTensor {
	return slices.Repeat([]*kserve.ModelInferRequest_InferInputTensor{{}}, n)
}

func TestRESTRefusals(t *testing.T) {
	s := serve(t, testConfig(&evaltest.Stub{Source: eval.CPU}))
	ok := aMove
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
		{"positions", inferPath, `{"inputs":[{"name":"moves","datatype":"BYTES","shape":[4097],"data":[what comes here is not read`, nil, 400, "4097 positions, must be 1 to 4096"},
		{"an object as data, early", inferPath, `{"inputs":[{"data":[{}],"name":"moves","datatype":"BYTES","shape":[1]}]}`, nil, 400, "must be a list of values"},
		{"a long value, early", inferPath, `{"inputs":[{"data":["` + strings.Repeat("4", 100_000) + `"],"name":"moves","datatype":"BYTES","shape":[1]}]}`, nil, 400, "a value of more than 8192 bytes"},
		{"header length", inferPath, ok, map[string]string{jsonLength: "1000"}, 400, jsonLength},
		{"header sign", inferPath, ok, map[string]string{jsonLength: "-1"}, 400, jsonLength},
		{"trailing", inferPath, ok + "xx", map[string]string{jsonLength: strconv.Itoa(len(ok))}, 400, "bytes follow"},
		{"parameter", inferPath, strings.Replace(ok, "{", `{"parameters":{"board":7},`, 1), nil, 400, "must be a string"},
		{"exact", inferPath, strings.Replace(ok, "{", `{"parameters":{"exact":1.5},`, 1), nil, 400, `exact\": 1.5, must be true (1000 nodes a position)`},
		{"exact, huge", inferPath, strings.Replace(ok, "{", `{"parameters":{"exact":1e300},`, 1), nil, 400, "from 0 to 100000"},
		{"encoding", inferPath, ok, map[string]string{"Content-Encoding": "br"}, 400, "gzip or deflate"},
		{"not gzip", inferPath, ok, map[string]string{"Content-Encoding": "gzip"}, 400, "body"},
		{"too long", inferPath, strings.Repeat(" ", 9<<20), nil, 413, "longer than 8388608 bytes"},
		{"load", "/v2/repository/models/stub/load", "", nil, 501, "--repository"},
		{"a key twice", inferPath, strings.Replace(ok, "{", `{"id":"1","id":"2",`, 1), nil, 400, `duplicate object member name`},
		{"no UTF-8", inferPath, strings.Replace(ok, "44", "4\xff", 1), nil, 400, "UTF-8"},
		{"many inputs", inferPath, `{"inputs":[{}` + strings.Repeat(`,{}`, 100_000) + `]}`, nil, 400, "neither data"},
		{"two inputs", inferPath, `{"inputs":[` + ok[11:len(ok)-2] + "," + ok[11:len(ok)-2] + `]}`, nil, 400, "2 inputs, must be one"},
		{"many outputs", inferPath, strings.Replace(ok, "{", `{"outputs":[{}`+strings.Repeat(`,{}`, 100)+`],`, 1), nil, 400, "outputs: more than 32"},
		{"a list as a parameter", inferPath, strings.Replace(ok, "{", `{"parameters":{"a":[[],[]]},`, 1), nil, 400, "must be a number, a text, true or false"},
		{"many dimensions", inferPath, strings.Replace(ok, "[1]", "[1"+strings.Repeat(",1", 50)+"]", 1), nil, 400, "shape: more than 8"},
		{"nested lists", inferPath, strings.Replace(ok, `["44"]`, strings.Repeat("[", 50)+`"44"`+strings.Repeat("]", 50), 1), nil, 400, "lists in lists"},
		{"more values than the shape", inferPath, strings.Replace(ok, `"44"`, `"44","44"`, 1), nil, 400, "more values than the 1"},
		{"an object as a value", inferPath, strings.Replace(ok, `"44"`, `{}`, 1), nil, 400, "no value of BYTES"},
		{"a long value", inferPath, strings.Replace(ok, `"44"`, `"`+strings.Repeat("4", 100_000)+`"`, 1), nil, 400, "a value of more than 8192 bytes"},
		{"many unknown members", inferPath, strings.Replace(ok, "{", `{`+manyKeys(`"x%d":1,`, 100), 1), nil, 400, "more than 32 members"},
		{"a long unknown member", inferPath, strings.Replace(ok, "{", `{"x":[`+strings.Repeat("0,", 5000)+`0],`, 1), nil, 400, "is not of the protocol, and long"},
		{"an unknown member", inferPath, strings.Replace(ok, "{", `{"x":{"y":[1,{"z":null}]},`, 1), nil, 200, `"model_name":"stub"`},
		{"nulls", inferPath, strings.Replace(ok, "{", `{"id":null,"parameters":null,"outputs":null,`, 1), nil, 200, `"model_name":"stub"`},
		{"JSON twice", inferPath, ok + ok, nil, 400, "more follows"},
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

// Answers that are not finite are refused, and a fault of an evaluator ends its requests alone.
func TestBadEvaluators(t *testing.T) {
	var bad func(b *eval.Batch)
	stub := &evaltest.Stub{Source: eval.CPU, After: func(b *eval.Batch) { bad(b) }}
	s := serve(t, testConfig(stub))
	for name, do := range map[string]func(*eval.Batch){
		"not finite": func(b *eval.Batch) { b.WDL[1] /= float32(len(b.Pos) - 1) },
		"fault":      func(b *eval.Batch) { panic("a bug") },
	} {
		bad = do
		_, err := s.api.ModelInfer(t.Context(), bitboardRequest(connect4, game.Position{}))
		if status.Code(err) != codes.Internal || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	bad = func(*eval.Batch) {}
	s.answer(t, bitboardRequest(connect4, game.Position{}))
}

// A call with another method than its own is told which one that is.
func TestMethods(t *testing.T) {
	s := serve(t, testConfig(&evaltest.Stub{Source: eval.CPU}))
	for _, c := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{http.MethodGet, inferPath, http.StatusMethodNotAllowed, http.MethodPost},
		{http.MethodHead, inferPath, http.StatusMethodNotAllowed, http.MethodPost},
		{http.MethodPut, "/v2/models/stub/versions/1/infer", http.StatusMethodNotAllowed, http.MethodPost},
		{http.MethodGet, "/v2/repository/index", http.StatusMethodNotAllowed, http.MethodPost},
		{http.MethodPost, "/v2/models/stub", http.StatusMethodNotAllowed, http.MethodGet},
		{http.MethodDelete, "/v2/health/ready", http.StatusMethodNotAllowed, http.MethodGet},
		{http.MethodGet, "/v2/models/stub/infers", http.StatusNotFound, ""},
		{http.MethodPost, "/v2/x", http.StatusNotFound, ""},
	} {
		reply, text := s.ask(t, c.method, c.path, nil, nil)
		if reply.StatusCode != c.status || reply.Header.Get("Allow") != c.allow || c.method != http.MethodHead && !strings.Contains(string(text), c.method+" "+c.path) {
			t.Errorf("%s %s: %s, Allow %q, %s; want %d and %q", c.method, c.path, reply.Status, reply.Header.Get("Allow"), text, c.status, c.allow)
		}
	}
}
