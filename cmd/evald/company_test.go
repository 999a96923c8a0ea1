package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evald/evald/cmd/evald/internal/analyze"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/mcts"
	"github.com/evald/evald/engine/solver"
)

// A search's answer depends only on its position and its own flags: not on the other positions, their order, their
// distribution over commands, batches and processors, nor on the command.
func TestCompany(t *testing.T) {
	for _, c := range []struct {
		backend                   string
		positions, rounds, visits int
	}{{"bitsquares", 120, 4, 12}, {"cpu", 12, 4, 24}} {
		t.Run(c.backend, func(t *testing.T) {
			if gametest.Soak() {
				c.positions, c.rounds = 8*c.positions, 5*c.rounds
			}
			random := gametest.Rand(1)
			positions := someLines(random, c.positions)
			type form struct {
				leaves int
				exact  solver.Nodes
			}
			forms, want := []form{{1, solver.NoProbes}, {5, 300}}, map[form][]string{}
			for _, f := range forms {
				want[f] = alone(t, c.backend, positions, c.visits, f.leaves, f.exact)
			}
			for round := range c.rounds {
				f, command := forms[round%2], []string{"search", "analyze"}[round/2%2]
				for order := random.Perm(len(positions)); len(order) > 0; {
					some := order[:1+random.IntN(len(order))]
					order = order[len(some):]
					flags := []string{
						command, "--backend", c.backend, "--visits", strconv.Itoa(c.visits), "--leaves", strconv.Itoa(f.leaves), fmt.Sprintf("--exact=%v", f.exact),
						"--batch", strconv.Itoa(1 + random.IntN(100)), "--threads", strconv.Itoa(1 + random.IntN(4)),
					}
					var got []string
					if command == "search" {
						got = searchSome(t, positions, some, flags)
					} else {
						got = analyzeSome(t, positions, some, append(flags, "--at-once", strconv.Itoa(1+random.IntN(100))), random)
					}
					for i, k := range some {
						if got[i] != want[f][k] {
							t.Fatalf("%v, %d positions: %s in company\n%s, alone\n%s", flags, len(some), positions[k], got[i], want[f][k])
						}
					}
				}
			}
			_, one, _ := evald(t, positions[0], "search", "--backend", c.backend, "--visits", strconv.Itoa(c.visits))
			if got := answerOf(t, one); got != want[forms[0]][0] {
				t.Errorf("%s without flags\n%s, want\n%s", positions[0], got, want[forms[0]][0])
			}
		})
	}
}

// A tree of many visits has room for all of them behind every door, even in forced lines: the
// command line, scripts, the service, and Python with the library and with the program. The first
// search has long forced lines, the second one needs more than two million nodes.
func TestRoom(t *testing.T) {
	searches := []roomy{{"9x9x5free:55", "9x9x5free", 16_000, true}}
	if gametest.Soak() {
		searches = append(searches, roomy{"44", "7x6x4", 400_000, false})
	}
	for _, q := range searches {
		flags := []string{"--backend", "bitsquares", "--visits", strconv.Itoa(q.visits), fmt.Sprintf("--exact=%v", q.exact)}
		_, line, _ := evald(t, q.position, append([]string{"search"}, flags...)...)
		var want searchNumbers
		gametest.OK(t, json.Unmarshal([]byte(line), &want))
		sum := 1 // the root's own visit
		for _, visits := range want.Visits {
			sum += visits
		}
		if sum != q.visits {
			t.Errorf("evald search of %s has %d visits, want %d", q.position, sum, q.visits)
		}
		doors := map[string]func(*testing.T) searchNumbers{
			"analyze": func(t *testing.T) (got searchNumbers) {
				_, line, _ := evald(t, fmt.Sprintf(`{"id": "a", "moves": %q}`, q.position), append([]string{"analyze"}, flags...)...)
				gametest.OK(t, json.Unmarshal([]byte(line), &got))
				return got
			},
			"service": q.byService,
			"Python, library": func(t *testing.T) searchNumbers {
				return q.byPython(t, "EVALD_PROGRAM=", "EVALD_LIBRARY="+os.Getenv("EVALD_LIBRARY"))
			},
			"Python, program": func(t *testing.T) searchNumbers {
				return q.byPython(t, "EVALD_LIBRARY=", "EVALD_PROGRAM="+os.Getenv("EVALD_PROGRAM"))
			},
		}
		for door, answer := range doors {
			t.Run(q.position+", "+door, func(t *testing.T) {
				if diff := cmp.Diff(want, answer(t)); diff != "" {
					t.Errorf("evald search (-) and this door (+):\n%s", diff)
				}
			})
		}
	}
}

// searchNumbers are what every door says of a search, as float32 where answers are.
type searchNumbers struct {
	Visits []int     `json:"visits"`
	Policy []float32 `json:"policy"`
	WDL    []float32 `json:"wdl"`
}

// roomy is a search that a small tree has no room for.
type roomy struct {
	position, rules string
	visits          int
	exact           bool
}

func (q roomy) byService(t *testing.T) (got searchNumbers) {
	address, _, _ := startServe(t, "--backend", "bitsquares", "--max-visits", strconv.Itoa(q.visits))
	_, answer := posted(t, "http://"+address["http"]+"/v2/models/search/infer", fmt.Sprintf(`{"inputs":
		[{"name": "moves", "datatype": "BYTES", "shape": [1], "data": [%q]}], "parameters": {"visits": %d, "exact": %v}}`, q.position, q.visits, q.exact))
	var outputs struct {
		Outputs []struct {
			Name string
			Data json.RawMessage
		}
	}
	gametest.OK(t, json.Unmarshal([]byte(answer), &outputs))
	for _, o := range outputs.Outputs {
		if into := map[string]any{"visits": &got.Visits, "policy": &got.Policy, "wdl": &got.WDL}[o.Name]; into != nil {
			gametest.OK(t, json.Unmarshal(o.Data, into))
		}
	}
	return got
}

func (q roomy) byPython(t *testing.T, env ...string) (got searchNumbers) {
	const script = `import evald, json, sys
position, rules, visits, exact = json.loads(sys.argv[1])
s = evald.search(position, rules, network=evald.Evaluator(backend="bitsquares"), visits=visits, exact=exact)
print(json.dumps(dict(visits=s.visits[0].tolist(), policy=s.policy[0].tolist(), wdl=s.wdl[0].tolist())))`
	gametest.Need(t, os.Getenv("EVALD_LIBRARY") != "" && os.Getenv("EVALD_PROGRAM") != "", "EVALD_LIBRARY and EVALD_PROGRAM name no library and program: make library and make build")
	c := exec.Command(gametest.Python(t, "numpy"), "-c", script, string(gametest.Must(json.Marshal([]any{q.position, q.rules, q.visits, q.exact}))(t)))
	c.Env = append(append(os.Environ(), "PYTHONPATH=client/python"), env...)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	gametest.OK(t, json.Unmarshal(out, &got))
	return got
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

// alone returns the answers of a tree by itself, as JSON.
func alone(t *testing.T, from string, positions []string, visits, leaves int, exact solver.Nodes) (answers []string) {
	t.Helper()
	e, err := backend{Backend: from}.choose(io.Discard)
	gametest.OK(t, err)
	for _, text := range positions {
		state := gametest.Must(new(game.Parser).Parse(text))(t)
		config := mcts.DefaultConfig(mcts.PUCT)
		config.Exact, config.RootNodes = exact, mcts.RootNodesFor(visits)
		tree := gametest.Must(mcts.New(state.Board, config))(t)
		tree.Reset(state.Position)
		gametest.OK(t, mcts.Search(t.Context(), e.Evaluator, []*mcts.Tree{tree}, mcts.Limits{Visits: visits, Batch: 1, Leaves: leaves}))
		answer := gametest.Must(json.Marshal(analyze.Describe(text, e.ModelOn(state.Board.Rules()), state, tree)))(t)
		answers = append(answers, string(answer))
	}
	return answers
}

// answerOf returns the part of a line of output that depends only on the position.
func answerOf(t *testing.T, line string) string {
	t.Helper()
	var a analyze.Answer
	if err := json.Unmarshal([]byte(line), &a); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	text := gametest.Must(json.Marshal(a))(t)
	return string(text)
}

// searchSome returns the answers of evald search to some positions, in the order of some.
func searchSome(t *testing.T, positions []string, some []int, flags []string) (answers []string) {
	t.Helper()
	var in strings.Builder
	for _, k := range some {
		fmt.Fprintln(&in, positions[k])
	}
	status, out, stderr := evald(t, in.String(), flags...)
	for line := range strings.Lines(out) {
		answers = append(answers, answerOf(t, line))
	}
	if status != exitOK || len(answers) != len(some) {
		t.Fatalf("%v: status %d, %d answers to %d positions, errors %q", flags, status, len(answers), len(some), stderr)
	}
	return answers
}

// analyzeSome returns those of evald analyze, asked with random priorities.
func analyzeSome(t *testing.T, positions []string, some []int, flags []string, random *rand.Rand) []string {
	t.Helper()
	var in strings.Builder
	for i, k := range some {
		fmt.Fprintf(&in, "{\"id\":\"%d\",\"moves\":%q,\"priority\":%d}\n", i, positions[k], random.IntN(3))
	}
	status, out, stderr := evald(t, in.String(), flags...)
	if status != exitOK {
		t.Fatalf("%v: status %d, errors %q", flags, status, stderr)
	}
	answers := make([]string, len(some))
	for line := range strings.Lines(out) {
		var reply struct{ ID string }
		if err := json.Unmarshal([]byte(line), &reply); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		i, err := strconv.Atoi(reply.ID)
		if err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		answers[i] = answerOf(t, line)
	}
	return answers
}
