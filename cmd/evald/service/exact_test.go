package service

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/metadata"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/queue"
	"github.com/evald/evald/engine/solver"
)

// The answers of the exact step are those of the library, by gRPC and REST, as the parameter or else the model's settings say.
func TestExact(t *testing.T) {
	stub := &evaltest.Stub{Source: eval.CPU}
	c := testConfig(stub)
	c.Models = append(c.Models, Model{Name: "exact", Settings: DefaultSettings})
	c.Models[1].Exact = 2000
	load := c.Load
	c.Load = func(Model) (Loaded, error) { return load(c.Models[0]) }
	s := serve(t, c)
	pos := []game.Position{after(t, "1122334"), after(t, "112233"), after(t, "11223"), after(t, "44464666446333323")} // over, won, forced, lost
	pos = append(pos, gametest.Positions(gametest.Rand(3), connect4, 100, true)...)
	plain := eval.New(stub, eval.Options{})
	for _, test := range []struct {
		model string
		exact any // nil: not given
		nodes solver.Nodes
	}{
		{"stub", nil, 0}, {"stub", true, solver.ProbeNodes}, {"stub", 300, 300}, {"stub", false, 0}, {"stub", 0, 0}, {"exact", nil, 2000}, {"exact", 300, 300}, {"exact", false, 0},
	} {
		e := plain
		if test.nodes > 0 {
			e = plain.WithExact(eval.NewExact(test.nodes))
		}
		want, ask := expected(t, e, connect4, pos), bitboardRequest(connect4, pos...)
		if ask.ModelName = test.model; test.exact != nil {
			setParameter(ask, "exact", test.exact)
		}
		if diff := cmp.Diff(want, s.answer(t, ask)); diff != "" || strings.Contains(string(want[sourceOutput]), "solver") != (test.nodes > 0) {
			t.Errorf("%+v (-want +got):\n%s", test, diff)
		}
		body := map[string]any{"inputs": []any{map[string]any{"name": "moves", "datatype": "BYTES", "shape": []int{1}, "data": []string{"44464666446333323"}}}}
		if test.exact != nil {
			body["parameters"] = map[string]any{"exact": test.exact}
		}
		source := map[bool]string{true: `["solver"]`, false: `["cpu"]`}[test.nodes > 0]
		text := gametest.Must(json.Marshal(body))(t)
		if _, got := s.post(t, "/v2/models/"+test.model+"/infer", nil, text); !strings.Contains(string(got), source) {
			t.Errorf("%+v: %s, want source %s", test, got, source)
		}
	}
	raw := bitboardRequest(connect4, pos[3])
	raw.ModelName = "exact"
	setParameter(raw, "raw", true)
	if got := s.answer(t, raw); !strings.Contains(string(got[sourceOutput]), "cpu") {
		t.Errorf("a raw row is answered by %q", got[sourceOutput])
	}
	partial := rawRequest(movesInput, bytesType, appendBytes(appendBytes(nil, "9"), "44464666446333323"), 2)
	setParameter(partial, "partial", true)
	setParameter(partial, "exact", true)
	if got := s.answer(t, partial); !strings.Contains(string(got[sourceOutput]), "refused") || !strings.Contains(string(got[sourceOutput]), "solver") {
		t.Errorf("a partial request is answered by %q", got[sourceOutput])
	}
}

// proofs replaces a server's queue by one that has one row under way, proves nothing, and notes the rows. Rows wait until open is
// called.
func proofs(s *serving) (open func(), rows func() []int) {
	gate, mu, plies := make(chan struct{}), sync.Mutex{}, []int(nil)
	s.prover = queue.New(&evaltest.Stub{Before: func(_ context.Context, b *eval.Batch) error {
		<-gate
		mu.Lock()
		defer mu.Unlock()
		plies = append(plies, b.Pos[0].Plies())
		return nil
	}}, queue.Config{MaxRows: 1, InFlight: 1})
	return sync.OnceFunc(func() { close(gate) }), func() []int {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(plies)
	}
}

// A client that asks for many nodes of many rows pays for them: another one has all of its few nodes before a few of these rows. A
// request that its client has given up is no longer probed.
func TestExactShares(t *testing.T) {
	c := testConfig(&evaltest.Stub{Source: eval.CPU})
	c.Tokens = tokens(t, "health -\ninference greedy\ninference modest\n")
	s := serve(t, c)
	open, rows := proofs(s)
	defer open()
	random, prober, worth := gametest.Rand(1), gametest.Must(solver.NewProber(connect4, 1000))(t), map[int]game.Position{}
	for len(worth) < 3 {
		if p := gametest.Open(random, connect4, 1)[0]; p.Plies() > 23 && p.Plies() < 27 && prober.Worth(p) {
			worth[p.Plies()] = p
		}
	}
	var wait sync.WaitGroup
	waiting := 0
	ask := func(ctx context.Context, token string, exact, rows, plies int) {
		r := bitboardRequest(connect4, slices.Repeat([]game.Position{worth[plies]}, rows)...)
		setParameter(r, "exact", exact)
		waiting += rows
		wait.Go(func() {
			if _, err := s.api.ModelInfer(metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token), r); (err == nil) != (ctx.Err() == nil) {
				t.Errorf("%s: %v", token, err)
			}
		})
		waitFor(t, fmt.Sprint(waiting, " rows waiting"), func() bool { return s.prover.Stats().Queued == waiting-1 }) // one is under way
	}
	gone, leave := context.WithCancel(t.Context())
	ask(t.Context(), "greedy", solver.MostNodes, 1, 24)
	for range 5 {
		ask(t.Context(), "greedy", solver.MostNodes, 100, 24)
	}
	ask(gone, "greedy", solver.MostNodes, 100, 26)
	ask(t.Context(), "modest", 1000, 90, 25)
	leave()
	waitFor(t, "the rows of the client that left to be dropped", func() bool { return s.prover.Stats().Queued == 590 })
	open()
	wait.Wait()
	order := rows()
	last := 0
	for i, plies := range order {
		if plies == 25 {
			last = i
		}
	}
	if len(order) != 591 || last > 93 || slices.Contains(order, 26) {
		t.Errorf("%d rows were probed, the last modest one after %d; want 591 and at most 93, and none of the client that left: %v", len(order), last, order)
	}
}
