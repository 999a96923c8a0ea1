package service

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
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
)

// fuzzServer is a server without ports, with small limits. Its handler is that of a connection.
func fuzzServer(t testing.TB) (*Server, http.Handler) {
	c := testConfig(&evaltest.Stub{Source: eval.CPU})
	c.Limits.Body, c.Limits.Batch, c.Settings.MaxVisits, c.Settings.Visits, c.Repository = 1<<16, 64, 50, 10, true
	s := gametest.Must(New(c))(t)
	s.enterState(ready)
	conn := connectionFrom("10.0.0.1", s.memory)
	h := s.receiveHTTP(s.handler())
	return s, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), connectionKey{}, conn)))
	})
}

// restSeed is a body with the length of its JSON, or -1.
type restSeed struct {
	body   []byte
	length int
}

func restSeeds() (seeds []restSeed) {
	for _, text := range []string{
		`{"id":"1","inputs":[{"name":"moves","datatype":"BYTES","shape":[2],"data":["44","9x5x4:"]}]}`,
		`{"inputs":[{"name":"moves","datatype":"BYTES","shape":[1,1],"data":[["{\"board\":[0,0,0],\"mark\":1}"]]}],"outputs":[{"name":"wdl"}]}`,
		`{"parameters":{"board":"3x3x3free","priority":1,"timeout":1000,"binary_data_output":true},"inputs":[{"name":"bitboards","datatype":"UINT64","shape":[1,2],"data":[1,3]}]}`,
		`{"parameters":{"partial":true},"inputs":[{"name":"moves","datatype":"BYTES","shape":[3],"data":["8","9x5x4:1","z"]}]}`,
		`{"inputs":[{"name":"planes","datatype":"FP32","shape":[1,2,1,1],"data":[0,1.5e0]}],"parameters":{"board":"1x1x1"}}`,
	} {
		seeds = append(seeds, restSeed{[]byte(text), -1})
	}
	head := `{"inputs":[{"name":"bitboards","datatype":"UINT64","shape":[2,2],"parameters":{"binary_data_size":32}}],"outputs":[{"name":"policy","parameters":{"binary_data":true}}]}`
	return append(seeds, restSeed{append([]byte(head), make([]byte, 32)...), len(head)})
}

// restHolds sends one body to the models and checks that the reply is one of the protocol's.
func restHolds(t testing.TB, h http.Handler, model string, seed restSeed) {
	r := httptest.NewRequest(http.MethodPost, "/v2/models/"+model+"/infer", bytes.NewReader(seed.body))
	if seed.length >= 0 {
		r.Header.Set(jsonLength, strconv.Itoa(seed.length))
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	switch w.Code {
	case http.StatusOK, http.StatusBadRequest, http.StatusNotFound, http.StatusNotImplemented, http.StatusRequestEntityTooLarge, http.StatusGatewayTimeout:
	default:
		t.Errorf("status %d for %q with length %d: %s", w.Code, seed.body, seed.length, w.Body)
	}
	if isError := strings.HasPrefix(w.Body.String(), `{"error":`); isError == (w.Code == http.StatusOK) {
		t.Errorf("status %d with %s", w.Code, w.Body)
	}
}

func grpcSeeds(t testing.TB) (seeds [][]byte) {
	planes := rawRequest(planesInput, floatType, make([]byte, 4*2*42), 1, 2, 6, 7)
	moves := rawRequest(movesInput, bytesType, appendBytes(appendBytes(nil, "44"), "7x6x4:1"), 2)
	typed := rawRequest(bitboardsInput, uint64Type, nil, 1, 2)
	typed.RawInputContents = nil
	typed.Inputs[0].Contents = &kserve.InferTensorContents{Uint64Contents: []uint64{0, 0}}
	partial := bitboardRequest(connect4, game.Position{}, game.Position{Own: game.Bits{Lo: 1 << 63}}, game.Position{})
	setParameter(partial, "partial", true)
	for _, r := range []*kserve.ModelInferRequest{planes, moves, typed, partial, searchRequest(20, game.Position{}), bitboardRequest(connect4, gametest.Open(gametest.Rand(1), connect4, 3)...)} {
		r.Outputs = append(r.Outputs, &kserve.ModelInferRequest_InferRequestedOutputTensor{Name: "policy"})
		b := gametest.Must(proto.Marshal(r))(t)
		seeds = append(seeds, b)
	}
	return seeds
}

// grpcHolds answers one message and checks that the reply is sound, or refused as the client's mistake.
func grpcHolds(t testing.TB, s *Server, message []byte) {
	var r kserve.ModelInferRequest
	if proto.Unmarshal(message, &r) != nil {
		return // the transport refuses it
	}
	call := &request{conn: connectionFrom("10.0.0.1", s.memory)}
	defer call.end()
	got, err := grpcService{Server: s}.ModelInfer(call.context(t.Context()), &r)
	switch status.Code(err) {
	case codes.OK:
		if _, err := proto.Marshal(got); err != nil { // text that is not UTF-8
			t.Errorf("the reply cannot be written: %v", err)
		}
	case codes.InvalidArgument, codes.NotFound, codes.Unimplemented, codes.DeadlineExceeded:
	default:
		t.Errorf("%v for %v", err, &r)
	}
}

func FuzzREST(f *testing.F) {
	for _, seed := range restSeeds() {
		f.Add(seed.body, seed.length)
	}
	_, h := fuzzServer(f)
	f.Fuzz(func(t *testing.T, body []byte, length int) { restHolds(t, h, "stub", restSeed{body, length}) })
}

func FuzzGRPC(f *testing.F) {
	for _, seed := range grpcSeeds(f) {
		f.Add(seed)
	}
	s, _ := fuzzServer(f)
	f.Fuzz(func(t *testing.T, message []byte) { grpcHolds(t, s, message) })
}

// mutate changes a few bytes: flips, cuts, doubles, and exchanges for what is likely to hurt.
func mutate(r *rand.Rand, b []byte) []byte {
	b = slices.Clone(b)
	for range 1 + r.IntN(4) {
		if len(b) == 0 {
			return b
		}
		i := r.IntN(len(b))
		switch r.IntN(6) {
		case 0:
			b[i] ^= 1 << r.IntN(8)
		case 1:
			b = b[:i]
		case 2:
			b = slices.Insert(b, i, b[i:min(len(b), i+1+r.IntN(20))]...)
		case 3:
			b = slices.Delete(b, i, min(len(b), i+1+r.IntN(8)))
		case 4:
			b[i] = []byte{0, 0xff, '"', '[', '{', '9', '-', 0x7f}[r.IntN(8)]
		case 5:
			b = slices.Insert(b, i, []byte([]string{"99999999999", "-1", "null", "1e400", "[[", "\\u0000", "\xff\xff\xff\xff\x0f"}[r.IntN(7)])...)
		}
	}
	return b
}

// Thousands of damaged bodies: none may end the server, and it answers as before after them.
func TestDamagedBodies(t *testing.T) {
	s, h := fuzzServer(t)
	r := gametest.Rand(11)
	rest, rpc := restSeeds(), grpcSeeds(t)
	for i := range 4000 {
		seed := rest[r.IntN(len(rest))]
		seed.body = mutate(r, seed.body)
		if seed.length >= 0 && r.IntN(4) == 0 {
			seed.length = r.IntN(len(seed.body) + 10)
		}
		restHolds(t, h, []string{"stub", "search"}[i%2], seed)
		grpcHolds(t, s, mutate(r, rpc[r.IntN(len(rpc))]))
	}
	restHolds(t, h, "stub", restSeed{bytes.Repeat([]byte("["), 1<<16), -1})
	restHolds(t, h, "stub", restSeed{fmt.Appendf(nil, `{"inputs":[{"name":"moves","datatype":"BYTES","shape":[1],"data":%s1%s}]}`, strings.Repeat("[", 5000), strings.Repeat("]", 5000)), -1})
	if s.requests != 0 || s.memory.inUse() != 0 {
		t.Errorf("%d requests and %d bytes are left over", s.requests, s.memory.inUse())
	}
}
