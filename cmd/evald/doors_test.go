package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evald/evald/cmd/evald/internal/searchtree"
	"github.com/evald/evald/cmd/evald/kserve"
	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/ask"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/mcts"
	"github.com/evald/evald/nn/open"
)

// question is a search that a door is asked for: what it chooses, by the names of package ask.
type question struct {
	position string
	chosen   map[string]string
}

// said is what a door says of a search. A door leaves out what it does not say.
type said struct {
	Visits []int     `json:"visits"`
	Policy []float32 `json:"policy"`
	WDL    []float32 `json:"wdl"`
	Q      []float32 `json:"q"`
	Best   *int      `json:"best"` // from 0, -1 if the game is over
}

// largest are the visits of the first question. Doors of one engine leave it to one of them.
const largest = "16000"

// questions are thirty: the same on every machine. The first has long forced lines and more than a
// million nodes, for which a tree of fixed size has no room.
func questions(t *testing.T) (all []question) {
	random := gametest.Rand(30)
	all = []question{
		{"9x9x5free:55", map[string]string{"visits": largest, "exact": "true"}},
		{"44", map[string]string{}},
		{"12121", map[string]string{"visits": "300"}}, // 1 wins at once
		{"4x4x4:1122", map[string]string{"visits": "50", "exact": "true"}},
	}
	if gametest.Soak() { // more than two million nodes
		all[1].chosen = map[string]string{"visits": "400000", "exact": "false"}
	}
	positions := someLines(random, 26)
	for i, position := range positions {
		rule := []mcts.Selection{mcts.PUCT, mcts.PUCT, mcts.UCT, mcts.Gumbel, mcts.Flat}[random.IntN(5)]
		q := question{position, map[string]string{"visits": strconv.Itoa(2 + random.IntN(400))}}
		if i%5 == 0 {
			rule = mcts.PUCT
		}
		if rule != mcts.PUCT {
			q.chosen["selection"] = rule.String()
		}
		for _, f := range ask.Fields(ask.Python) { // also those to come
			often := 2
			if !named(f, ask.Service) { // most questions can be asked everywhere
				often = 10
			}
			if i%5 == 0 { // and some by the page, which has visits alone
				break
			}
			if f.Applies(rule) && q.chosen[f.Name] == "" && f.Name != "selection" && random.IntN(often) == 0 {
				q.chosen[f.Name] = someValue(random, f)
			}
		}
		if rule == mcts.PUCT && q.chosen["noise"] == "" {
			delete(q.chosen, "seed") // does nothing, so flags refuse it
		}
		if q.chosen["alpha"] != "" && q.chosen["noise"] == "" {
			q.chosen["noise"] = "0.25"
		}
		if q.chosen["lookahead"] == "false" && q.chosen["exact"] != "" {
			q.chosen["exact"] = "false"
		}
		all = append(all, q)
	}
	return all
}

// someLines returns moves to random positions of unfinished games, most of 7x6x4 and the rest of other boards.
func someLines(random *rand.Rand, n int) (lines []string) {
	boards := gametest.Boards()
	for len(lines) < n {
		b := boards[0]
		if len(lines)%4 == 3 {
			b = boards[random.IntN(len(boards))]
		}
		var moves []int
		var p game.Position
		for range random.IntN(b.Cells() * 3 / 4) {
			next := b.Action(b.Legal(p).Nth(random.IntN(b.Legal(p).OnesCount())).First())
			if b.Result(b.Play(p, next)) != game.Ongoing {
				break
			}
			p, moves = b.Play(p, next), append(moves, next)
		}
		lines = append(lines, game.FormatNotation(b.Rules(), moves))
	}
	return lines
}

// someValue is a value of a parameter that does something in a small search.
func someValue(random *rand.Rand, f ask.Field) string {
	switch f.Kind {
	case ask.Choice:
		return f.Choices[random.IntN(len(f.Choices))]
	case ask.Truth:
		return strconv.FormatBool(random.IntN(2) == 0)
	case ask.Nodes:
		return []string{"true", "false", "300"}[random.IntN(3)]
	case ask.Whole:
		return strconv.Itoa(int(f.Least) + random.IntN(8))
	}
	return strconv.FormatFloat(f.Least+float64(random.IntN(33))/32*min(f.Most-f.Least, 5), 'g', -1, 64)
}

// search is the question as a Search.
func (q question) search(t *testing.T) ask.Search {
	t.Helper()
	s := ask.Usual()
	for name, value := range q.chosen {
		f, ok := ask.Named(name, ask.Python)
		if !ok || !f.SetText(&s, value) {
			t.Fatalf("%s=%s is no parameter", name, value)
		}
	}
	return s
}

// chooses reports whether callers of a door may set all that the question chooses.
func (q question) chooses(d ask.Door) bool {
	for name := range q.chosen {
		if _, ok := ask.Named(name, d); !ok {
			return false
		}
	}
	return true
}

// object is what the question chooses as an object of JSON.
func (q question) object() map[string]any {
	of := map[string]any{}
	for name, value := range q.chosen {
		of[name] = json.RawMessage(value)
		if f, _ := ask.Named(name, ask.Python); f.Kind == ask.Choice {
			of[name] = value
		}
	}
	return of
}

// flags are those of a command.
func (q question) flags() (flags []string) {
	for _, name := range ask.Names(ask.Python) {
		if value, ok := q.chosen[name]; ok {
			flags = append(flags, "--"+strings.ReplaceAll(name, "_", "-")+"="+value)
		}
	}
	return flags
}

// alone answers the question by a tree by itself, from Search.Config on.
func (q question) alone(t *testing.T, e *eval.Evaluator) (said, *mcts.Tree) {
	t.Helper()
	state, s := gametest.Must(new(game.Parser).Parse(q.position))(t), q.search(t)
	tree := gametest.Must(mcts.New(state.Board, s.Config(e.Backend())))(t)
	tree.Reset(state.Position)
	gametest.OK(t, mcts.Search(t.Context(), e, []*mcts.Tree{tree}, mcts.Limits{Visits: s.Visits, Batch: 1, Leaves: s.Leaves}))
	n, best := state.Board.Actions(), tree.Best()
	a := said{make([]int, n), make([]float32, n), make([]float32, 3), make([]float32, n), &best}
	for _, m := range tree.Moves(nil) {
		a.Visits[m.Action], a.Q[m.Action] = m.Visits, float32(m.Q)
	}
	tree.Policy(a.Policy, 1)
	tree.WDL(a.WDL)
	return a, tree
}

// exam is what all doors are asked, and what a tree by itself answers.
type exam struct {
	questions []question
	backend   *open.Opened
	want      []said
	proved    []game.Result
	compared  map[string]int // answers, by door
}

const backendFlag = "--backend=bitsquares"

func newExam(t *testing.T) *exam {
	x := &exam{questions: questions(t), backend: gametest.Must(backend{Backend: "bitsquares"}.choose(io.Discard))(t), compared: map[string]int{}}
	t.Cleanup(func() {
		x.backend.Close()
		t.Logf("questions compared: %v", x.compared)
	})
	for _, q := range x.questions {
		a, tree := q.alone(t, x.backend.Evaluator)
		x.want, x.proved = append(x.want, a), append(x.proved, tree.Result())
		if sum := tree.Visits(); sum != q.search(t).Visits && tree.Result() == game.Ongoing {
			t.Errorf("%v has %d visits", q, sum)
		}
	}
	return x
}

// compare compares a door's answer to question i. What it does not say is not compared.
func (x *exam) compare(t *testing.T, door string, i int, got said) {
	t.Helper()
	wanted := x.want[i]
	if got.Best == nil {
		wanted.Best = nil
	}
	if got.Policy == nil {
		wanted.Policy, wanted.WDL, wanted.Q = nil, nil, nil
	}
	x.compared[door]++
	if diff := cmp.Diff(wanted, got); diff != "" {
		t.Errorf("question %d, %v: a tree by itself (-) and %s (+):\n%s", i, x.questions[i], door, diff)
	}
}

// Every door answers the same thirty questions with the same numbers: as float32, before a door
// rounds for people. Agents and score are compared by the move. TestDoorsPython has the doors that
// need Python.
func TestDoors(t *testing.T) {
	x := newExam(t)
	all, want, proved, compared, compare, e := x.questions, x.want, x.proved, x.compared, x.compare, x.backend
	address, _, _ := startServe(t, backendFlag, "--max-visits=1000000")
	api := kserve.NewGRPCInferenceServiceClient(dialed(t, address["grpc"]))
	for door, asked := range map[string]func(t *testing.T, q question) (got said, can bool){
		"evald search": func(t *testing.T, q question) (got said, can bool) {
			_, line, stderr := evald(t, q.position, append([]string{"search", backendFlag}, q.flags()...)...)
			return fromLine(t, line, stderr), true
		},
		"evald analyze, flags": func(t *testing.T, q question) (got said, can bool) {
			if q.chosen["visits"] == largest {
				return got, false
			}
			query := fmt.Sprintf(`{"id": "a", "moves": %q}`, q.position)
			_, line, stderr := evald(t, query, append([]string{"analyze", backendFlag}, q.flags()...)...)
			return fromLine(t, line, stderr), true
		},
		"REST": func(t *testing.T, q question) (got said, can bool) {
			if !q.chooses(ask.Service) || q.chosen["visits"] == largest {
				return got, false
			}
			body := gametest.Must(json.Marshal(map[string]any{"parameters": q.object(), "inputs": []any{
				map[string]any{"name": "moves", "datatype": "BYTES", "shape": []int{1}, "data": []string{q.position}},
			}}))(t)
			_, text := posted(t, "http://"+address["http"]+"/v2/models/search/infer", string(body))
			var said struct {
				Outputs []struct {
					Name string
					Data json.RawMessage
				}
			}
			gametest.OK(t, json.Unmarshal([]byte(text), &said))
			for _, o := range said.Outputs {
				if into := map[string]any{"visits": &got.Visits, "policy": &got.Policy, "wdl": &got.WDL, "q": &got.Q}[o.Name]; into != nil {
					gametest.OK(t, json.Unmarshal(o.Data, into))
				}
			}
			return got, true
		},
		"gRPC": func(t *testing.T, q question) (got said, can bool) {
			if !q.chooses(ask.Service) {
				return got, false
			}
			return byMessage(t, api, q), true
		},
		"page": func(t *testing.T, q question) (got said, can bool) {
			if len(q.chosen) != 1 || q.chosen["visits"] == "" {
				return got, false
			}
			_, text := posted(t, "http://"+address["http"]+"/ui/tree", fmt.Sprintf(`{"position": %q, "visits": %s, "depth": 1, "least": 1}`, q.position, q.chosen["visits"]))
			var tree searchtree.Tree
			gametest.OK(t, json.Unmarshal([]byte(text), &tree))
			state := gametest.Must(new(game.Parser).Parse(q.position))(t)
			got.Visits = make([]int, state.Board.Actions())
			for _, m := range tree.Moves {
				got.Visits[actionNamed(state.Board, m.Move)] = m.Visits
			}
			return got, true
		},
	} {
		t.Run(door, func(t *testing.T) {
			for i, q := range all {
				if got, can := asked(t, q); can {
					compare(t, door, i, got)
				}
			}
		})
	}
	t.Run("evald analyze, fields", func(t *testing.T) { // all in one company
		queries, given := "", 0
		for i, q := range all {
			if q.chooses(ask.Queries) && q.chosen["visits"] != "" {
				query := q.object()
				query["id"], query["moves"], query["priority"] = strconv.Itoa(i), q.position, i%3
				queries += string(gametest.Must(json.Marshal(query))(t)) + "\n"
				given++
			}
		}
		_, lines, stderr := evald(t, queries, "analyze", backendFlag, "--visits=7", "--batch=13", "--threads=3", "--at-once=9")
		for line := range strings.Lines(lines) {
			var of struct{ ID string }
			gametest.OK(t, json.Unmarshal([]byte(line), &of))
			compare(t, "evald analyze, fields", whole(t, of.ID), fromLine(t, line, stderr))
		}
		if n := compared["evald analyze, fields"]; n != given || n < 20 {
			t.Errorf("%d answers to %d queries", n, given)
		}
	})
	t.Run("agents", func(t *testing.T) {
		shared := shareAgents(processors{}, io.Discard)
		for i, q := range all {
			s := q.search(t)
			if proved[i] == game.Loss { // agents defend, where a tree sees no difference
				continue
			}
			spec := agent.Spec{Name: map[mcts.Selection]string{mcts.PUCT: "mcts", mcts.UCT: "uct-bitsquares"}[s.Selection]}
			if spec.Name == "" {
				continue
			}
			text := spec.Name + ":" + map[bool]string{true: "model=bitsquares,visits", false: "sims"}[spec.Name == "mcts"] + "=" + strconv.Itoa(s.Visits)
			for _, f := range ask.Fields(ask.Agents) {
				if value := f.Text(&s); value != "" && f.Name != "visits" && f.Applies(s.Selection) {
					text += "," + f.Name + "=" + value
				}
			}
			if s.Selection == mcts.UCT && s.Exact == 0 && (s.Lookahead == nil || *s.Lookahead) {
				text += ",exact=true"
				if state := gametest.Must(new(game.Parser).Parse(q.position))(t); !state.Board.Rules().Gravity {
					continue
				}
			}
			player := gametest.Must(agent.New(gametest.Must(agent.Parse(text))(t), shared))(t)
			state := gametest.Must(new(game.Parser).Parse(q.position))(t)
			move := gametest.Must(player.Move(t.Context(), state.Board, state.Position))(t)
			compared["agents"]++
			if move != *want[i].Best {
				t.Errorf("question %d, %v: %s plays %d, want %d", i, q, text, move, *want[i].Best)
			}
		}
	})
	t.Run("score", func(t *testing.T) {
		for i, q := range all {
			s := q.search(t)
			if s.Seed != 0 { // which evald score does not set
				continue
			}
			searches := gametest.Must(ask.Search{How: s.How}.Subjects(e.Evaluator, "bitsquares", []int{s.Visits}, false))(t)
			state := gametest.Must(new(game.Parser).Parse(q.position))(t)
			b := eval.NewBatch(state.Board, 1)
			b.Pos[0] = state.Position
			gametest.OK(t, searches[0].Leaves(t.Context(), b))
			compare(t, "score", i, said{Visits: want[i].Visits, Policy: b.PolicyRow(0), WDL: b.WDLRow(0), Q: want[i].Q})
		}
	})
}

func TestDoorsPython(t *testing.T) {
	gametest.Need(t, os.Getenv("EVALD_LIBRARY") != "" && os.Getenv("EVALD_PROGRAM") != "", "EVALD_LIBRARY and EVALD_PROGRAM name no library and program: make library and make build")
	python := gametest.Python(t, "numpy")
	x := newExam(t)
	address, _, _ := startServe(t, backendFlag, "--max-visits=1000000")
	for door, env := range map[string][]string{
		"Python, library": {"EVALD_PROGRAM=", "EVALD_LIBRARY=" + os.Getenv("EVALD_LIBRARY")},
		"Python, program": {"EVALD_LIBRARY=", "EVALD_PROGRAM=" + os.Getenv("EVALD_PROGRAM")},
		"Python, service": {"EVALD_PROGRAM=", "EVALD_LIBRARY=" + os.Getenv("EVALD_LIBRARY"), "URL=http://" + address["http"]},
	} {
		for i, got := range answersOfPython(t, python, x.questions, env) {
			if got.Visits != nil {
				if door == "Python, service" { // which does not say what is best; ties of visits go to the highest value
					got.Best = nil
				}
				x.compare(t, door, i, got)
			}
		}
	}
}

// fromLine reads a line of evald search or analyze, which count columns from 1.
func fromLine(t *testing.T, line, stderr string) (a said) {
	t.Helper()
	var written struct{ Q []float64 } // rounded once, as behind other doors
	err := errors.Join(json.Unmarshal([]byte(line), &a), json.Unmarshal([]byte(line), &written))
	if err != nil || a.Best == nil {
		t.Fatalf("%v: %s%s", err, line, stderr)
	}
	*a.Best--
	for i, q := range written.Q {
		a.Q[i] = float32(q)
	}
	return a
}

// actionNamed is the action that a text of one move names.
func actionNamed(b *game.Board, move string) int {
	for a := range b.Actions() {
		if game.FormatMoves(b.Rules(), []int{a}) == move {
			return a
		}
	}
	return -1
}

func byMessage(t *testing.T, api kserve.GRPCInferenceServiceClient, q question) (got said) {
	t.Helper()
	r := &kserve.ModelInferRequest{
		ModelName: "search", Parameters: map[string]*kserve.InferParameter{},
		Inputs: []*kserve.ModelInferRequest_InferInputTensor{{
			Name: "moves", Datatype: "BYTES", Shape: []int64{1}, Contents: &kserve.InferTensorContents{BytesContents: [][]byte{[]byte(q.position)}},
		}},
	}
	for name, value := range q.chosen {
		p := &kserve.InferParameter{}
		if number, err := strconv.ParseInt(value, 10, 64); err == nil {
			p.ParameterChoice = &kserve.InferParameter_Int64Param{Int64Param: number}
		} else if number, err := strconv.ParseFloat(value, 64); err == nil {
			p.ParameterChoice = &kserve.InferParameter_DoubleParam{DoubleParam: number}
		} else if on, err := strconv.ParseBool(value); err == nil {
			p.ParameterChoice = &kserve.InferParameter_BoolParam{BoolParam: on}
		} else {
			p.ParameterChoice = &kserve.InferParameter_StringParam{StringParam: value}
		}
		r.Parameters[name] = p
	}
	said := gametest.Must(api.ModelInfer(t.Context(), r))(t)
	for i, o := range said.Outputs {
		raw := said.RawOutputContents[i]
		switch o.Name {
		case "visits":
			for _, n := range numbersIn[int32](t, raw) {
				got.Visits = append(got.Visits, int(n))
			}
		case "policy":
			got.Policy = numbersIn[float32](t, raw)
		case "wdl":
			got.WDL = numbersIn[float32](t, raw)
		case "q":
			got.Q = numbersIn[float32](t, raw)
		}
	}
	return got
}

// answersOfPython asks all questions in one process. Those that a service does not accept have no answer.
func answersOfPython(t *testing.T, python string, all []question, env []string) (got []said) {
	t.Helper()
	const script = `import evald, json, os, sys
from evald._search import SEARCHING
url = os.environ.get("URL")
network = evald.Evaluator(url=url) if url else evald.Evaluator(backend="bitsquares")
said = []
for position, chosen in json.load(sys.stdin):
    rules, _, moves = position.rpartition(":")
    if url and not all(SEARCHING[name][1] for name in chosen):
        said.append(None)
        continue
    s = evald.search(moves, rules or "7x6x4", network=network, **chosen)
    said.append(dict(visits=s.visits[0].tolist(), policy=s.policy[0].tolist(), wdl=s.wdl[0].tolist(), q=s.q[0].tolist(), best=int(s.best[0])))
print(json.dumps(said))`
	var asked [][2]any
	for _, q := range all {
		asked = append(asked, [2]any{q.position, q.object()})
	}
	c := exec.Command(python, "-c", script)
	c.Stdin = strings.NewReader(string(gametest.Must(json.Marshal(asked))(t)))
	c.Env = slices.Concat(os.Environ(), []string{"PYTHONPATH=client/python"}, env)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", env, err, out)
	}
	gametest.OK(t, json.Unmarshal(out, &got))
	return got
}

// numbersIn are the numbers of a raw output.
func numbersIn[T int32 | float32](t *testing.T, raw []byte) []T {
	t.Helper()
	all := make([]T, len(raw)/4)
	gametest.Must(binary.Decode(raw, binary.LittleEndian, all))(t)
	return all
}
