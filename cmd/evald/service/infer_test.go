package service

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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
	"github.com/evald/evald/engine/solver"
	nets "github.com/evald/evald/nn/net"
)

var boardsUnderTest = []string{"7x6x4", "9x5x4", "3x3x3free", "12x9x5"}

// Every input on every board gives, over gRPC, what the evaluator says.
func TestInputs(t *testing.T) {
	stub := &evaltest.Stub{Source: eval.CPU}
	s := serve(t, testConfig(stub))
	for _, name := range boardsUnderTest {
		rules, err := game.ParseRules(name)
		gametest.OK(t, err)
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
		want := expected(t, eval.New(stub, eval.Options{}), board, pos)
		contents := rawRequest(bitboardsInput, uint64Type, nil, n, int64(len(words64)/8)/n)
		contents.RawInputContents = nil
		contents.Inputs[0].Contents = &kserve.InferTensorContents{Uint64Contents: make([]uint64, len(words64)/8)}
		gametest.Must(binary.Decode(words64, binary.LittleEndian, contents.Inputs[0].Contents.Uint64Contents))(t)
		for input, ask := range map[string]*kserve.ModelInferRequest{
			"bitboards":       bitboardRequest(board, pos...),
			"typed bitboards": contents,
			"planes":          rawRequest(planesInput, floatType, appendNumbers(nil, planes), n, 5, h, w),
			"two planes":      rawRequest(planesInput, floatType, appendNumbers(nil, two), n, 2, h, w),
			"moves":           rawRequest(movesInput, bytesType, lines, n),
			"moves in a row":  rawRequest(movesInput, bytesType, lines, n, 1),
		} {
			if !strings.HasPrefix(input, "moves") { // which name their board
				setParameter(ask, "board", name)
			}
			ask.Id = "id of " + input
			got, err := s.api.ModelInfer(t.Context(), ask)
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
	evaltest.Run(t, evaltest.Config{Sources: []eval.Source{eval.CPU}, New: func(t testing.TB) *eval.Evaluator {
		c := gametest.Must(client.Dial(s.grpc, "stub", grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
		t.Cleanup(func() { c.Close() })
		return evaltest.Raw(c)
	}})
}

// REST gives the same values, as JSON and as binary tensors, mixed as they were asked for.
func TestREST(t *testing.T) {
	stub := &evaltest.Stub{Source: eval.CPU}
	s := serve(t, testConfig(stub))
	pos := append(gametest.Positions(gametest.Rand(1), connect4, 20, true), game.Position{})
	want := expected(t, eval.New(stub, eval.Options{}), connect4, pos)
	for _, name := range []string{wdlOutput, gameoverOutput} {
		want[name+" as JSON"] = want[name]
		delete(want, name)
	}
	delete(want, valueOutput)
	want["id"] = []byte("7")
	raw := client.Bitboards(connect4, pos)
	var rows [][]uint64
	for _, p := range pos {
		rows = append(rows, []uint64{p.Own.Lo, p.All.Lo})
	}
	data := func(x any) string { return `"data":` + strings.ReplaceAll(fmt.Sprint(x), " ", ",") }
	for name, values := range map[string]string{
		"flat": data(slices.Concat(rows...)), "nested": data(rows), "binary": fmt.Sprintf(`"parameters":{"binary_data_size":%d}`, len(raw)),
	} {
		body := fmt.Appendf(nil, `{"id":"7","inputs":[{"name":"bitboards","datatype":"UINT64","shape":[%d,2],%s}],
			"parameters":{"binary_data_output":true},"outputs":[{"name":"policy"},{"name":"wdl","parameters":{"binary_data":false}},
			{"name":"source"},{"name":"gameover","parameters":{"binary_data":false}}]}`, len(pos), values)
		header := map[string]string{}
		if name == "binary" {
			header[jsonLength] = strconv.Itoa(len(body))
			body = append(body, raw...)
		}
		if diff := cmp.Diff(want, s.outputs(t, inferPath, header, body)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Raw rows are the model's own answers, over both transports, also where the next stones decide.
func TestRaw(t *testing.T) {
	stub := &evaltest.Stub{Source: eval.CPU}
	s := serve(t, testConfig(stub))
	pos := gametest.Open(gametest.Rand(3), connect4, 20)
	for _, moves := range []string{"112233", "11223", "22334"} { // won, forced, lost
		pos = append(pos, after(t, moves))
	}
	want := expected(t, evaltest.Raw(stub), connect4, pos)
	ask := bitboardRequest(connect4, pos...)
	setParameter(ask, "raw", true)
	if diff := cmp.Diff(want, s.answer(t, ask)); diff != "" {
		t.Errorf("gRPC (-want +got):\n%s", diff)
	}
	body := `{"parameters":{"raw":true},"inputs":[{"name":"moves","datatype":"BYTES","shape":[1],"data":["11223"]}],"outputs":[{"name":"source"}]}`
	if reply, text := s.post(t, inferPath, nil, []byte(body)); reply.StatusCode != http.StatusOK || !strings.Contains(string(text), `"data":["cpu"]`) {
		t.Errorf("REST: %s", text)
	}
}

// A search over the service is the search by the library, whatever other searches it shared batches with.
func TestSearch(t *testing.T) {
	stub := &evaltest.Stub{Source: eval.CPU}
	s := serve(t, testConfig(stub))
	var pos []game.Position
	for plies := range 7 {
		pos = append(pos, gametest.Position(gametest.Rand(5), connect4, plies, true))
	}
	pos = append(pos, gametest.Position(gametest.Rand(5), connect4, 42, false))
	config := mcts.DefaultConfig(mcts.PUCT)
	config.Visits, config.Exact, config.RootNodes = 60, solver.ByBoard, mcts.RootNodesFor(60)
	search, err := mcts.NewEvaluator(evaltest.Raw(stub), config, mcts.Limits{Visits: 60, Batch: 16})
	gametest.OK(t, err)
	want := expected(t, search, connect4, pos)
	for _, from := range []int{0, 3, 6} { // with company and, beside a finished game, alone
		out := s.answer(t, searchRequest(60, pos[from:]...))
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
	rows := uint64(0)
	for i, n := range s.BatchSizes("search") {
		rows += n << i
	}
	if own := s.BatchSizes("stub"); rows == 0 || slices.Max(own) > 0 {
		t.Errorf("batches of leaves: %v, of requests: %v; want some, and none", s.BatchSizes("search"), own)
	}
	ask := searchRequest(100_000, append(pos, pos...)...)
	if _, err := s.api.ModelInfer(t.Context(), ask); status.Code(err) != codes.InvalidArgument {
		t.Errorf("16 positions of 100000 visits: %v, want InvalidArgument", err)
	}
	ask.Inputs[0].Shape[0], ask.RawInputContents[0] = 1, ask.RawInputContents[0][:16]
	setParameter(ask, "timeout", 30_000)
	start := time.Now()
	if _, err := s.api.ModelInfer(t.Context(), ask); status.Code(err) != codes.DeadlineExceeded || time.Since(start) > 5*time.Second {
		t.Errorf("30 ms for 100000 visits: %v after %v, want DeadlineExceeded", err, time.Since(start))
	}
}

// One search of many positions runs for each processor; another waits, at most until its timeout. A search of
// fewer positions does not wait, unless its probes may take more nodes than by default.
func TestLargeSearchesTakeTurns(t *testing.T) {
	s := serve(t, testConfig(&evaltest.Stub{Source: eval.CPU}))
	exact := 0
	ask := func(n int) error {
		ask := searchRequest(1, make([]game.Position, n)...)
		setParameter(ask, "timeout", 200_000)
		setParameter(ask, "exact", exact)
		_, err := s.api.ModelInfer(t.Context(), ask)
		return err
	}
	for range runtime.GOMAXPROCS(0) {
		gametest.OK(t, s.large.Take(t.Context()))
	}
	if err := ask(largeSearch - 1); err != nil {
		t.Errorf("a search of few positions: %v", err)
	}
	if err := ask(largeSearch); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("a search of many positions while others are under way: %v, want DeadlineExceeded", err)
	}
	exact = 2000
	if err := ask(1); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("a search with long probes while others are under way: %v, want DeadlineExceeded", err)
	}
	for range runtime.GOMAXPROCS(0) {
		s.large.Leave()
	}
	if err := ask(largeSearch); err != nil || s.large.Taken() > 0 {
		t.Errorf("a search of many positions: %v; %d are under way after it", err, s.large.Taken())
	}
}

// A search has room for all that its visits find, forced lines too: it finds what a tree of any size does.
func TestSearchRoom(t *testing.T) {
	e, err := heuristic.New(eval.Bitsquares)
	gametest.OK(t, err)
	s := serve(t, testConfig(e.Backend()))
	roomy := mcts.DefaultConfig(mcts.PUCT)
	roomy.Visits, roomy.MaxNodes, roomy.Exact, roomy.RootNodes = 2000, 1<<22, solver.ByBoard, mcts.RootNodesFor(2000)
	all := []string{"44", "334", "4455", "2252576253462244"}
	if testing.Short() {
		all = all[3:]
	}
	for _, moves := range all {
		p := after(t, moves)
		tree := gametest.Must(mcts.New(connect4, roomy))(t)
		tree.Reset(p)
		gametest.OK(t, mcts.Search(t.Context(), e, []*mcts.Tree{tree}, mcts.Limits{Visits: 2000, Batch: 1}))
		q := s.answer(t, searchRequest(2000, p))["q"]
		for _, m := range tree.Moves(nil) {
			if found := floatAt(q[4*m.Action:]); found != float32(m.Q) {
				t.Errorf("%s, move %d: value %v, and %v in a tree of any size with %d nodes", moves, m.Action, found, m.Q, tree.Nodes())
			}
		}
	}
}

// The requests of a stream are answered each when it ends; one that is wrong does not end it.
func TestStream(t *testing.T) {
	held, entered := make(chan struct{}), make(chan struct{})
	var first atomic.Bool
	stub := &evaltest.Stub{Source: eval.CPU, Before: func(_ context.Context, b *eval.Batch) error {
		if len(b.Pos) == 200 && !first.Swap(true) { // the first request; later ones may be merged into a batch of the same size
			close(entered)
			<-held
		}
		return nil
	}}
	c := testConfig(stub)
	c.Settings.MaxRows = 200
	s := serve(t, c)
	stream, err := s.api.ModelStreamInfer(t.Context())
	gametest.OK(t, err)
	const n = 300
	rows := func(i int) []game.Position {
		return gametest.Open(gametest.Rand(uint64(i)), connect4, 200-min(i, 1)*197)
	}
	go func() {
		for i := range n {
			ask := bitboardRequest(connect4, rows(i)...)
			ask.Id = strconv.Itoa(i)
			if i%7 == 3 {
				ask.ModelName = "x"
			}
			if stream.Send(ask) != nil {
				return // Recv has the error
			}
			if i == 0 {
				<-entered // or else others could share its batch
			}
		}
		_ = stream.CloseSend()
	}()
	seen := map[int]bool{}
	for len(seen) < n {
		got, err := stream.Recv()
		if err != nil {
			t.Fatalf("after %d answers: %v", len(seen), err)
		}
		i := gametest.Must(strconv.Atoi(got.InferResponse.Id))(t)
		if seen[i] || (got.ErrorMessage != "") != (i%7 == 3) || i == 0 && len(seen) < n-1 {
			t.Errorf("id %d after %d answers, error %q", i, len(seen), got.ErrorMessage)
		}
		if got.ErrorMessage == "" {
			want := expected(t, eval.New(stub, eval.Options{}), connect4, rows(i))
			if diff := cmp.Diff(want, raws(got.InferResponse)); diff != "" {
				t.Errorf("answer %d (-want +got):\n%s", i, diff)
			}
		}
		if seen[i] = true; len(seen) == n-1 {
			close(held)
		}
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("after the last: %v, want EOF", err)
	}
}

// A search that reports its progress has the same last answer as one that does not, over both transports, and ever more visits.
func TestProgress(t *testing.T) {
	s := serve(t, testConfig(&evaltest.Stub{Source: eval.CPU}))
	ask := searchRequest(1000, gametest.Open(gametest.Rand(1), connect4, 3)...)
	setParameter(ask, "exact", false) // so that no proof ends it early
	want, err := s.api.ModelInfer(t.Context(), ask)
	gametest.OK(t, err)
	setParameter(ask, "progress", true)
	total := func(visits []byte) (n int) {
		for ; len(visits) > 0; visits = visits[4:] {
			n += int(binary.LittleEndian.Uint32(visits))
		}
		return n
	}
	stream, err := s.api.ModelStreamInfer(t.Context())
	gametest.OK(t, err)
	gametest.OK(t, stream.Send(ask))
	parts, visits := 0, 0
	for last := false; !last; parts++ {
		got, err := stream.Recv()
		if err != nil || got.ErrorMessage != "" {
			t.Fatal(got.GetErrorMessage(), err)
		}
		last = got.InferResponse.Parameters[finalParameter].GetBoolParam()
		n := total(got.InferResponse.RawOutputContents[5])
		if n <= visits && !last {
			t.Errorf("part %d has %d visits, the one before %d", parts, n, visits)
		}
		if visits = n; last {
			if rule := got.InferResponse.Parameters[ruleParameter].GetStringParam(); !strings.HasPrefix(rule, "puct of 1000 visits") || rule != want.Parameters[ruleParameter].GetStringParam() {
				t.Errorf("the last part is searched by %q", rule)
			}
			if diff := cmp.Diff(raws(want), raws(got.InferResponse)); diff != "" {
				t.Errorf("the last part (-without progress +with):\n%s", diff)
			}
		}
	}
	if parts < 5 || parts > 8 {
		t.Errorf("%d parts up to %d visits", parts, visits)
	}

	body := []byte(`{"parameters":{"visits":1000,"progress":true},"inputs":[{"name":"moves","datatype":"BYTES","shape":[1],"data":["44"]}],"outputs":[{"name":"visits"},{"name":"value"}]}`)
	path := strings.Replace(inferPath, "stub", searchModel, 1)
	reply, text := s.post(t, path, map[string]string{"Accept": eventStream}, body)
	events := strings.Split(strings.TrimSuffix(string(text), "\n\n"), "\n\n")
	if reply.StatusCode != http.StatusOK || reply.Header.Get("Content-Type") != eventStream || len(events) < 4 {
		t.Fatalf("%d %v %s", reply.StatusCode, reply.Header, text)
	}
	const rule = `"parameters":{"rule":"puct of 1000 visits, lookahead, exact 1000, flat priors, transpositions"`
	_, single := s.post(t, path, nil, bytes.Replace(body, []byte(`,"progress":true`), nil, 1))
	for i, e := range events {
		last := fmt.Sprintf(`,%q:%v}`, finalParameter, i == len(events)-1)
		if !strings.HasPrefix(e, "data: {") || !strings.Contains(e, rule+last) {
			t.Errorf("event %d: %s", i, e)
		}
		if i == len(events)-1 && strings.Replace(e[len("data: "):], last, "}", 1) != string(single) {
			t.Errorf("the last event is %s, without progress %s", e, single)
		}
	}
}

// A search ends when its client leaves, over both transports.
func TestProgressWithoutClient(t *testing.T) {
	var under atomic.Int64
	s := serve(t, testConfig(&evaltest.Stub{Source: eval.CPU, Before: func(context.Context, *eval.Batch) error {
		under.Add(1)
		return nil
	}}))
	ask := searchRequest(100_000, game.Position{})
	setParameter(ask, "progress", true)
	for range 2 {
		ctx, leave := context.WithCancel(t.Context())
		stream, err := s.api.ModelStreamInfer(ctx)
		gametest.OK(t, err)
		gametest.OK(t, stream.Send(ask))
		gametest.Must(stream.Recv())(t)
		leave()
		s.underWay(t, 0)
	}
	body := `{"parameters":{"visits":100000,"progress":true},"inputs":[{"name":"moves","datatype":"BYTES","shape":[1],"data":[""]}]}`
	req := gametest.Must(http.NewRequest(http.MethodPost, s.rest+strings.Replace(inferPath, "stub", searchModel, 1), strings.NewReader(body)))(t)
	req.Header.Set("Accept", eventStream)
	reply := gametest.Must(http.DefaultClient.Do(req))(t)
	reply.Body.Close()
	s.underWay(t, 0)
	if n := under.Load(); n > 150_000 {
		t.Errorf("%d leaves were evaluated: the searches continued", n)
	}
}
