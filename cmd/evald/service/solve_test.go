package service

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/evald/evald/cmd/evald/kserve"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/solver"
)

// solverConfig serves the solver behind a stub, with one position at once.
func solverConfig() Config {
	c := testConfig(&evaltest.Stub{Source: eval.CPU})
	c.Models = append(c.Models, Model{Name: "solver"})
	load := c.Load
	c.Load = func(m Model) (Loaded, error) {
		if m.Name == "solver" {
			return NewSolver(nil, 1), nil
		}
		return load(m)
	}
	return c
}

// solverRequest asks the solver for lines, over REST.
func solverRequest(nodes int, lines ...string) []byte {
	text, err := json.Marshal(map[string]any{
		"inputs":     []any{map[string]any{"name": "moves", "datatype": "BYTES", "shape": []int{len(lines)}, "data": lines}},
		"parameters": map[string]any{"nodes": nodes},
	})
	if err != nil {
		panic(err)
	}
	return text
}

type solverAnswer struct {
	low, high     [][]int // [N][A]
	solved, nodes []int
	wdl, policy   [][]float64
}

func (s *serving) solves(t *testing.T, nodes int, lines ...string) solverAnswer {
	t.Helper()
	reply, text := s.post(t, "/v2/models/solver/infer", nil, solverRequest(nodes, lines...))
	if reply.StatusCode != 200 {
		t.Fatalf("%d %s", reply.StatusCode, text)
	}
	var got struct {
		Outputs []struct {
			Name  string
			Shape []int
			Data  json.RawMessage
		}
	}
	gametest.OK(t, json.Unmarshal(text, &got))
	var a solverAnswer
	for _, o := range got.Outputs {
		var ints []int
		var floats []float64
		switch o.Name {
		case lowOutput, highOutput, solvedOutput, nodesOutput:
			gametest.OK(t, json.Unmarshal(o.Data, &ints))
		case wdlOutput, policyOutput:
			gametest.OK(t, json.Unmarshal(o.Data, &floats))
		}
		switch o.Name {
		case lowOutput:
			a.low = slices.Collect(slices.Chunk(ints, o.Shape[1]))
		case highOutput:
			a.high = slices.Collect(slices.Chunk(ints, o.Shape[1]))
		case solvedOutput:
			a.solved = ints
		case nodesOutput:
			a.nodes = ints
		case wdlOutput:
			a.wdl = slices.Collect(slices.Chunk(floats, 3))
		case policyOutput:
			a.policy = slices.Collect(slices.Chunk(floats, o.Shape[1]))
		}
	}
	return a
}

// The solver's scores are exact where it says so, and its bounds hold where it does not. An answer does not depend on the other rows.
func TestSolver(t *testing.T) {
	s := serve(t, solverConfig())
	one := gametest.Must(solver.New(connect4, solver.Options{}))(t)
	var lines []string
	n := 10
	if testing.Short() { // the race detector finds nothing more in others
		n = 1
	}
	for _, file := range []string{"pons/Test_L3_R1", "pons/Test_L2_R2_first500"} {
		lines = append(lines, gametest.DataLines(t, file)[:n]...)
	}
	var moves []string
	for _, line := range lines {
		text, _, _ := strings.Cut(line, " ")
		moves = append(moves, text)
	}
	few, all := s.solves(t, 3000, moves...), s.solves(t, 10_000_000, moves...)
	if slices.Equal(few.solved, all.solved) || slices.Contains(all.solved, 0) {
		t.Errorf("solved by 3,000 nodes %v, by 10 million %v", few.solved, all.solved)
	}
	for i, line := range lines {
		_, text, _ := strings.Cut(line, " ")
		best := gametest.Must(strconv.Atoi(text))(t)
		want, _, err := one.Scores(t.Context(), after(t, moves[i]))
		gametest.OK(t, err)
		if !slices.Equal(all.low[i], want) || !slices.Equal(all.high[i], want) || slices.Max(want) != best {
			t.Errorf("%s: %v to %v, want %v", line, all.low[i], all.high[i], want)
		}
		for a := range want {
			if few.low[i][a] > want[a] || few.high[i][a] < want[a] {
				t.Errorf("%s with few nodes: move %d has %d to %d, is %d", line, a, few.low[i][a], few.high[i][a], want[a])
			}
			if (all.policy[i][a] > 0) != (want[a] == best) || few.policy[i][a] == 0 && want[a] == best {
				t.Errorf("%s: move %d has policy %v, with few nodes %v", line, a, all.policy[i][a], few.policy[i][a])
			}
		}
		if result := 1 - min(max(best, -1), 1); all.wdl[i][result] != 1 || few.wdl[i][result] == 0 {
			t.Errorf("%s: wdl %v, with few nodes %v", line, all.wdl[i], few.wdl[i])
		}
		if few.nodes[i] > 3000+7*1024 || (few.solved[i] == 1) != slices.Equal(few.low[i], few.high[i]) {
			t.Errorf("%s: %d nodes, solved %d: %v to %v", line, few.nodes[i], few.solved[i], few.low[i], few.high[i])
		}
	}
	last := len(moves) - 1
	alone := s.solves(t, 3000, moves[last])
	if fmt.Sprint(alone.low, alone.high, alone.nodes) != fmt.Sprint(few.low[last:], few.high[last:], few.nodes[last:]) {
		t.Errorf("alone %v, in company %v to %v by %d nodes", alone, few.low[last], few.high[last], few.nodes[last])
	}
	over := s.solves(t, 0, "4x4x3:12121", "4x4x3:11")
	if over.solved[0] != 1 || over.nodes[0] != 0 || slices.Max(over.high[0]) != solver.NoMove || over.wdl[0][2] != 1 || slices.Max(over.high[1]) == solver.NoMove {
		t.Errorf("a finished game: %+v", over)
	}
}

// What the solver cannot do is refused, and a request whose time is over no longer occupies it.
func TestSolverLimits(t *testing.T) {
	c := solverConfig()
	c.Settings.MaxNodes = 1 << 40
	s := serve(t, c)
	empty := bitboardRequest(connect4, game.Position{})
	empty.ModelName = "solver"
	setParameter(empty, "nodes", 1<<40)
	setParameter(empty, "timeout", 100_000)
	for range 2 {
		if _, err := s.api.ModelInfer(t.Context(), empty); status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("a position that takes too long: %v", err)
		}
	}
	start := time.Now()
	if got := s.solves(t, 1000, "4455"); got.solved[0] != 0 {
		t.Errorf("solved by 1,000 nodes: %v to %v", got.low, got.high)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("the next request took %v", took)
	}
	for body, want := range map[string]string{
		string(solverRequest(2<<40, "44")):                                    "must be a whole number from 0 to 1099511627776",
		string(solverRequest(-1, "44")):                                       "must be a whole number",
		strings.Replace(string(solverRequest(1, "44")), "nodes", "visits", 1): "does not search",
	} {
		if reply, text := s.post(t, "/v2/models/solver/infer", nil, []byte(body)); reply.StatusCode != 400 || !strings.Contains(string(text), want) {
			t.Errorf("%s: %d %s, want %s", body, reply.StatusCode, text, want)
		}
	}
	if reply, text := s.post(t, inferPath, nil, solverRequest(1, "44")); reply.StatusCode != 400 || !strings.Contains(string(text), "model stub does not solve") {
		t.Errorf("%d %s", reply.StatusCode, text)
	}
	config := gametest.Must(s.api.ModelConfig(t.Context(), &kserve.ModelConfigRequest{Name: "solver"}))(t).Config
	if p := config.Parameters; config.Platform != SolverPlatform || p["nodes"].StringValue != "1000000" || p["max-nodes"].StringValue != "1099511627776" || config.ResponseCache.Enable {
		t.Errorf("%v", config)
	}
	// The solver cannot be what is searched with, neither at the start nor after a reload.
	c = solverConfig()
	slices.Reverse(c.Models)
	if _, err := New(c); err == nil || !strings.Contains(err.Error(), "the model search cannot search with it") {
		t.Errorf("the solver as the first model: %v", err)
	}
	wrong := slices.Clone(c.Models)
	c = solverConfig()
	c.Reread = func() ([]Model, error) { return wrong, nil }
	s = serve(t, c)
	s.loading.Lock()
	s.reread(false)
	s.loading.Unlock()
	if s.configured[0].Name != "stub" || s.models.failure("stub") == "" {
		t.Errorf("after a reload with the solver first: %v is first", s.configured[0].Name)
	}
	s.answer(t, searchRequest(5, game.Position{}))
}
