package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/ask"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/heuristic"
	"github.com/evald/evald/engine/mcts"
	"github.com/evald/evald/engine/solver"
)

func stubModels(name string) (*eval.Evaluator, error) {
	switch name {
	case "stub":
		return evaltest.Raw(&evaltest.Stub{Source: eval.CPU}), nil
	case "": // the default
		return heuristic.New(eval.Bitsquares)
	}
	return nil, errors.New("no such model")
}

var stub = agent.Shared{Models: stubModels}

func newAgent(t testing.TB, text string, shared agent.Shared) agent.Agent {
	t.Helper()
	s := gametest.Must(agent.Parse(text))(t)
	a := gametest.Must(agent.New(s, shared))(t)
	return a
}

func make1(t testing.TB, text string) agent.Agent {
	t.Helper()
	return newAgent(t, text, stub)
}

func move(t testing.TB, a agent.Agent, b *game.Board, p game.Position) int {
	t.Helper()
	action := gametest.Must(a.Move(t.Context(), b, p))(t)
	if !b.CanPlay(p, action) {
		t.Fatalf("%T played %d, which is not legal in %+v", a, action, p)
	}
	return action
}

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"random":                        "random",
		"random:seed=7":                 "random:seed=7",
		"flat":                          "flat:sims=500",
		"flat:sims=20":                  "flat:sims=20",
		"uct":                           "uct:sims=5000",
		"uct:time=1s":                   "uct:time=1s",
		"uct-bitsquares:sims=100":       "uct-bitsquares:sims=100",
		"uct-bitsquares:time=1s,sims=9": "uct-bitsquares:sims=9,time=1s",
		"mcts":                          "mcts:visits=800",
		"mcts:model=stub,time=50ms":     "mcts:model=stub,time=50ms",
		"policy:model=stub":             "policy:model=stub",
		"solver":                        "solver",
		"solver:seed=3,random=1,book=b": "solver:random=true,book=b,seed=3",
		"solver:random=false":           "solver",
		"solver:model=stub,time=1s":     "solver:time=1s,model=stub",
		"uct-bitsquares:power=2":        "uct-bitsquares:time=2s,power=2",
		"uct-bitsquares:power=1.75":     "uct-bitsquares:time=2s",
		"uct-bitsquares:power=0,sims=9": "uct-bitsquares:sims=9,power=0",

		"uct-bitsquares:width=6.0,power=2,sims=9": "uct-bitsquares:sims=9,power=2,width=6",
		"uct-bitsquares:width=7":                  "uct-bitsquares:time=2s",
		"uct-gameovers:width=3,sims=9":            "uct-gameovers:sims=9,width=3",
		"uct-oddeven:width=6,sims=9":              "uct-oddeven:sims=9",
		"alphabeta-bitsquares:power=2,time=1s":    "alphabeta-bitsquares:time=1s,power=2",
		"mcts:model=bitsquares:power=2:width=6":   "mcts:model=bitsquares:power=2:width=6,visits=800",

		"uct:explore=0.50,sims=9": "uct:sims=9,explore=0.5",
		"mcts:leaves=8,time=1s":   "mcts:time=1s,leaves=8",
		"mcts:exact":              "mcts:visits=800,exact=1000",
		"mcts:exact=300,time=1s":  "mcts:time=1s,exact=300",
		"policy:exact=true":       "policy:exact=262144",
		"policy:exact=500":        "policy:exact=500",
		"uct:exact=0":             "uct:sims=5000,exact=false",
		"human":                   "human",
		"human:temperature=1e0,threats=.5,diagonals=0,ahead=3,model=m": "human:model=m,ahead=3,threats=0.5,temperature=1",
		"human:temperature=-0,seed=1":                                  "human:seed=1",
		"solver:time=1s,exact=false":                                   "solver:time=1s,exact=false",
		"uct:book=a=b.book":                                            "uct:sims=5000,book=a=b.book",
		"alphabeta-bitsquares:time=200ms":                              "alphabeta-bitsquares:time=200ms",
	} {
		s, err := agent.Parse(text)
		if err != nil || s.String() != want {
			t.Errorf("Parse(%q) = %v, %v; want %s", text, s, err, want)
			continue
		}
		if again, err := agent.Parse(s.String()); err != nil || again != s {
			t.Errorf("%q read again is %+v, %v; want %+v", s, again, err, s)
		}
	}
	for text, want := range map[string]string{
		"":                                "there are alphabeta-bitsquares, flat,",
		"robot":                           `agent "robot": there are`,
		"uct:visits=5":                    `uct has no "visits", but sims, time, leaves, explore, exact, lookahead, discount, book, seed`,
		"uct:sims=0":                      `sims is "0", want a whole number from 1 to 1073741824`,
		"uct:sims=1,sims=2":               "sims is given twice",
		"uct:time=5":                      `time is "5", want a duration such as 200ms`,
		"uct:time=-1s":                    "want a duration",
		"uct:time=2562047h":               `time is "2562047h", want at most 168h`,
		"mcts:visits=9223372036854775807": "want a whole number from 1 to 1073741824",
		"random:seed=-1":                  "want a whole number",
		"mcts:model=":                     "want a name or a path",
		"solver:x=1":                      `solver has no "x"`,
		"solver:random":                   `random is "", want true or false`,
		"uct-bitsquares:power=9":          `power is "9", want a number from 0 to 8`,
		"uct-bitsquares:power=NaN":        `power is "NaN", want a number from 0 to 8`,
		"uct-bitsquares:width=0":          `width is "0", want a number from 0.01 to 1000`,
		"uct-gameovers:power=2":           `uct-gameovers has no "power", but`,
		"uct:width=2":                     `uct has no "width", but`,
		"alphabeta-bitsquares:width=2":    `alphabeta-bitsquares has no "width", but time, power`,
		"uct-bitsquares:time":             "want a duration",
		"mcts:explore=NaN":                `explore is "NaN", want a number from 0 to 1000`,
		"mcts:leaves=0":                   `leaves is "0", want a whole number from 1 to 4096`,
		"mcts:exact=-1":                   `exact is "-1", want true (1000 nodes a position), false or a number of nodes from 0 to 100000`,
		"mcts:exact=100001":               "want true (1000 nodes a position), false or a number of nodes",
		"policy:exact=1048577":            "must be true, false or a number of nodes from 0 to 1048576",
		"flat:exact":                      "flat has no",
		"human:ahead=129":                 `ahead is "129", want a whole number from 0 to 128`,
		"human:threats=1.1":               `threats is "1.1", want a number from 0 to 1`,
		"human:diagonals=NaN":             "want a number from 0 to 1",
		"human:temperature=-1":            "want a number from 0 to 1000",
		"human:visits=3":                  "human has no",
		"mcts:leaves=4097":                "want a whole number from 1 to 4096",
	} {
		if _, err := agent.Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%q): error %v, want %s", text, err, want)
		}
	}
	if _, err := agent.New(agent.Spec{Name: "mcts", Model: "nope", Search: ask.Search{Visits: 5}}, stub); err == nil {
		t.Error("an unknown model: no error")
	}
	if _, err := agent.New(agent.Spec{Name: "solver", Model: "stub"}, stub); err == nil || !strings.Contains(err.Error(), `model="stub" does nothing: give a time too`) {
		t.Errorf("a model for a solver that needs none: error %v", err)
	}
	if _, err := agent.New(agent.Spec{Name: "solver", Search: ask.Search{How: ask.How{Exact: 1000}}}, stub); err == nil || !strings.Contains(err.Error(), `exact=1000 does nothing: give a time too`) {
		t.Errorf("probes for a solver that needs none: error %v", err)
	}
	if _, err := agent.New(agent.Spec{Name: "policy", Model: "nope"}, agent.Shared{}); err == nil {
		t.Error("a model where there are none: no error")
	}
	for _, name := range []string{"mcts", "uct", "uct-gameovers", "flat", "alphabeta-bitsquares"} {
		if _, err := agent.New(agent.Spec{Name: name}, stub); err == nil || !strings.Contains(err.Error(), "agent "+name+": has no limit") {
			t.Errorf("%s without visits and time: error %v", name, err)
		}
	}
	text := agent.Describe()
	for _, h := range heuristic.All() {
		if h.UCT != "" && !strings.Contains(text, "UCT, "+h.UCT+" at each leaf") {
			t.Errorf("no agent searches with %s:\n%s", h.UCT, text)
		}
	}
	if strings.Count(text, "\n") != len(agent.Names()) {
		t.Errorf("descriptions of %d agents:\n%s", len(agent.Names()), text)
	}
}

// Choose gives FastModel to a search with little time and no network, and leaves all other specs unchanged.
func TestChoose(t *testing.T) {
	var asked []string
	shared := agent.Shared{FastModel: "fast", FastBelow: 50 * time.Millisecond, Models: func(name string) (*eval.Evaluator, error) {
		asked = append(asked, name)
		return stubModels("stub")
	}}
	for text, want := range map[string]string{
		"mcts:time=49ms":            "mcts:model=fast,time=49ms",
		"mcts:time=50ms":            "mcts:time=50ms",
		"mcts:model=mine,time=10ms": "mcts:model=mine,time=10ms",
		"mcts:visits=8,time=10ms":   "mcts:visits=8,time=10ms",
		"mcts:visits=8":             "mcts:visits=8",
		"policy":                    "policy",
	} {
		s := gametest.Must(agent.Parse(text))(t)
		chosen := shared.Choose(s)
		if chosen.String() != want {
			t.Errorf("%s: %s, want %s", text, chosen, want)
		}
		if other := (agent.Shared{}).Choose(s); other != s {
			t.Errorf("%s without a fast network: %s", text, other)
		}
		if _, err := agent.New(s, shared); err != nil || asked[len(asked)-1] != chosen.Model {
			t.Errorf("%s: the agent asks for the network %q, want %q; %v", text, asked, chosen.Model, err)
		}
	}
}

// Each agent with a network refuses a board that the network does not support, also where it need
// not ask the network. If the program has chosen the network, the agent gets another evaluator.
func TestSupports(t *testing.T) {
	b, found := game.MustBoard(game.Rules{Rows: 5, Columns: 9, InARow: 4, Gravity: true}), 0
	one, _, err := b.ParseMoves("121212") // the next stone wins
	gametest.OK(t, err)
	shared := agent.Shared{Memory: 1 << 20, Models: func(string) (*eval.Evaluator, error) { return evaltest.Raw(&evaltest.Limited{}), nil }}
	for _, name := range agent.Names() {
		text := name + ":model=x"
		if _, err := agent.Parse(text); err != nil {
			if a := make1(t, name); agent.Supports(a, b) != nil {
				t.Errorf("%s has no network: %v", name, agent.Supports(a, b))
			}
			continue
		}
		found++
		spec := gametest.Must(agent.Parse(text))(t)
		if spec.Visits == 0 && name == "solver" {
			spec.Time = time.Minute
		}
		a := gametest.Must(agent.New(spec, shared))(t)
		if agent.Supports(a, game.MustBoard(game.Connect4)) != nil {
			t.Errorf("%s on 7x6x4: %v", text, agent.Supports(a, game.MustBoard(game.Connect4)))
		}
		refused := func(err error) {
			t.Helper()
			if missing := (*eval.UnsupportedError)(nil); !errors.As(err, &missing) || missing.Rules != b.Rules() {
				t.Errorf("%s: error %v, want that the network does not know %v", text, err, b.Rules())
			}
		}
		refused(agent.Supports(a, b))
		e := agent.NewEvaluator(a)
		refused(e.Supports(b))
		for _, p := range []game.Position{{}, one} {
			_, err := a.Move(t.Context(), b, p)
			refused(err)
		}
		own := shared
		own.Chosen = func(string) (*eval.Evaluator, error) { return stubModels("stub") }
		spec.Chosen = true
		if a := gametest.Must(agent.New(spec, own))(t); agent.Supports(a, b) != nil {
			t.Errorf("%s, if the program has chosen its network: %v", text, agent.Supports(a, b))
		}
	}
	if found < 4 {
		t.Errorf("%d agents have a network", found)
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range agent.Names() {
		f.Add(name + ":time=1s,sims=5,visits=7,seed=3,model=x")
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := agent.Parse(text)
		if err != nil {
			return
		}
		if again, err := agent.Parse(s.String()); err != nil || again != s {
			t.Fatalf("Parse(%q) = %+v, written %q and read again %+v, %v", text, s, s.String(), again, err)
		}
	})
}

// quick are all agents, fast enough for tests. Those that are not written out here have little time.
var quick = func() (all []string) {
	for _, name := range agent.Names() {
		if slices.ContainsFunc(written, func(text string) bool { return strings.HasPrefix(text+":", name+":") }) {
			continue
		}
		s, err := agent.Parse(name)
		if err != nil {
			panic(err)
		}
		if s.Visits+s.Games+int(s.Time) > 0 {
			s.Visits, s.Games, s.Time = 0, 0, 5*time.Millisecond
		}
		all = append(all, s.String())
	}
	return append(all, written...)
}()

var written = []string{
	"random", "negamax", "flat:sims=100", "uct:sims=1000", "uct-bitsquares:sims=300", "uct-gameovers:sims=300",
	"uct-oddeven:sims=300", "alphabeta-bitsquares:time=5ms", "policy", "policy:model=stub", "mcts:visits=200", "mcts:model=stub,visits=50", "mcts:visits=100,exact", "policy:exact",
	"mcts:time=5ms", "flat:time=5ms", "solver:time=5ms", "solver:random=true,time=5ms", "uct-bitsquares:sims=300,power=2",
	"human", "human:model=stub,ahead=4,threats=0.1,diagonals=0.2,temperature=2",
}

// A Spec is JSON as users type it.
func TestSpecJSON(t *testing.T) {
	var s agent.Spec
	const typed = `"mcts:visits=9"`
	if err := json.Unmarshal([]byte(typed), &s); err != nil || s != (agent.Spec{Name: "mcts", Search: ask.Search{Visits: 9}}) {
		t.Errorf("%s is read as %+v (%v)", typed, s, err)
	}
	if text, err := json.Marshal(s); err != nil || string(text) != typed {
		t.Errorf("%v is %s (%v)", s, text, err)
	}
	if err := json.Unmarshal([]byte(`"robot"`), &s); err == nil || !strings.Contains(err.Error(), "there are") {
		t.Errorf("an unknown agent: error %v", err)
	}
}

// Every agent plays legal games, on boards of all kinds. Each day has a third of the boards for each.
func TestLegal(t *testing.T) {
	boards := gametest.Boards()
	if testing.Short() {
		boards = boards[:3]
	}
	for i, text := range quick {
		for k, b := range boards {
			if !gametest.Today(t, i+k, 3) {
				continue
			}
			if b.Rules() != game.Connect4 && strings.Contains(text, "negamax") && !b.Rules().Gravity {
				continue // minutes: its depth is fixed and the moves are many
			}
			if b.Wide() && (strings.HasPrefix(text, "negamax") || strings.HasPrefix(text, "uct:") || strings.HasPrefix(text, "flat")) {
				continue
			}
			a, other := make1(t, text), make1(t, "random")
			var p game.Position
			for b.Result(p) == game.Ongoing && p.Plies() < 16 {
				p = b.Play(p, move(t, a, b, p))
				if b.Result(p) == game.Ongoing {
					p = b.Play(p, move(t, other, b, p))
				}
			}
		}
	}
}

// Where probes prove that all moves lose, a search plays what it plays without them.
func TestLostExact(t *testing.T) {
	b := game.MustBoard(game.Connect4)
	exact, plain, prober, lost := make1(t, "mcts:visits=60,exact"), make1(t, "mcts:visits=60"), gametest.Must(solver.NewProber(b, solver.ProbeNodes))(t), 0
	for _, p := range gametest.Open(gametest.Rand(5), b, 4000) {
		if prober.Probe(p) != game.Loss {
			continue
		}
		lost++
		if got, want := move(t, exact, b, p), move(t, plain, b, p); got != want {
			t.Errorf("%+v: plays %d, without probes %d", p, got, want)
		}
	}
	if lost < 20 {
		t.Errorf("%d lost positions", lost)
	}
}

// Without probes a policy plays its likeliest move, and with them the likeliest that they prove to keep the
// result. Moves of the same probability have the order of their numbers.
func TestPolicyExact(t *testing.T) {
	changed := 0
	for _, b := range gametest.Boards() {
		plain, exact, prober := make1(t, "policy:model=stub"), make1(t, "policy:model=stub,exact=3000"), gametest.Must(solver.NewProber(b, 3000))(t)
		e := gametest.Must(stubModels("stub"))(t)
		for _, p := range gametest.Open(gametest.Rand(3), b, 60) {
			p, _ = b.Canonical(p)
			batch := eval.NewBatch(b, 1)
			batch.Pos[0] = p
			gametest.OK(t, e.Evaluate(t.Context(), batch))
			var likely []int
			for a := range b.Actions() {
				if b.CanPlay(p, a) {
					likely = append(likely, a)
				}
			}
			sort.SliceStable(likely, func(i, j int) bool { return batch.Policy[likely[i]] > batch.Policy[likely[j]] })
			want := prober.Choose(p, likely)
			if got := move(t, exact, b, p); got != want {
				t.Errorf("%v, %+v: plays %d, want %d", b.Rules(), p, got, want)
			}
			switch got := move(t, plain, b, p); {
			case got != likely[0]:
				t.Errorf("%v, %+v: plays %d without probes, want %d", b.Rules(), p, got, likely[0])
			case got != want:
				changed++
			}
		}
	}
	if changed < 20 {
		t.Errorf("probes change %d moves", changed)
	}
}

// The seeds' test boards: a move with the best exact score, from every agent that searches.
func TestPuzzles(t *testing.T) {
	var puzzles []struct {
		Name    string
		Mark    int
		Board   []int
		Optimal []int `json:"solver_optimal"`
	}
	text := gametest.Must(os.ReadFile(gametest.Data(t, "seeds/puzzles.json")))(t)
	gametest.OK(t, json.Unmarshal(text, &puzzles))
	b := game.MustBoard(game.Connect4)
	for i, name := range []string{"uct-bitsquares:sims=4000", "uct-gameovers:sims=4000", "uct-oddeven:sims=4000", "solver", "mcts:visits=1000", "alphabeta-bitsquares:time=100ms"} {
		if strings.HasPrefix(name, "uct-") && !gametest.Today(t, i, 3) {
			continue
		}
		a := make1(t, name)
		for _, z := range puzzles {
			s := gametest.Must(b.FromKaggle(z.Board, z.Mark))(t)
			if got := move(t, a, b, s.Position); !slices.Contains(z.Optimal, got) {
				t.Errorf("%s by %s: column %d, want one of %v", z.Name, name, got, z.Optimal)
			}
		}
	}
}

// Kaggle's agent by hand.
func TestNegamax(t *testing.T) {
	b := game.MustBoard(game.Connect4)
	for moves, want := range map[string][]int{
		"121212": {0},    // wins
		"12121":  {0},    // blocks
		"334":    {1, 4}, // sees the double attack three plies ahead
		"112233": {3},
	} {
		p, _, err := b.ParseMoves(moves)
		if err != nil {
			t.Fatal(err)
		}
		for seed := range uint64(5) {
			if got := move(t, make1(t, "negamax:seed="+strconv.FormatUint(seed, 10)), b, p); !slices.Contains(want, got) {
				t.Errorf("%s: column %d, want one of %v", moves, got, want)
			}
		}
	}
}

// play is a game between two agents, the first of them to move; 1, 0 or -1 for it.
func play(t testing.TB, b *game.Board, first, second agent.Agent) int {
	var p game.Position
	for players := []agent.Agent{first, second}; ; players[0], players[1] = players[1], players[0] {
		switch b.Result(p) {
		case game.Draw:
			return 0
		case game.Loss:
			if p.Plies()%2 == 1 {
				return 1
			}
			return -1
		}
		p = b.Play(p, move(t, players[0], b, p))
	}
}

// Agents that search beat those that do not.
func TestStrength(t *testing.T) {
	b := game.MustBoard(game.Connect4)
	for _, c := range []struct {
		strong, weak string
		games, least int // points of the strong in games with each colour: 2 for a win, 1 for a draw
	}{
		{"uct-bitsquares:sims=2000", "random", 10, 40},
		{"mcts:visits=500", "random", 10, 40},
		{"alphabeta-bitsquares:time=20ms", "random", 5, 20},
		{"flat:sims=100", "random", 5, 19},
		{"uct-bitsquares:sims=5000", "negamax", 5, 18},
	} {
		points := 0
		for i := range c.games {
			weak := make1(t, c.weak)
			if c.weak == "random" {
				weak = make1(t, "random:seed="+strconv.Itoa(i+1))
			}
			points += 1 + play(t, b, make1(t, c.strong), weak)
			points += 1 - play(t, b, weak, make1(t, c.strong))
		}
		if points < c.least {
			t.Errorf("%s against %s: %d points of %d, want %d", c.strong, c.weak, points, 4*c.games, c.least)
		}
	}
}

// An agent as an evaluator keeps the contract, as far as an agent that remembers nothing can.
func TestEvaluator(t *testing.T) {
	evaltest.Run(t, evaltest.Config{
		New:     func(t testing.TB) *eval.Evaluator { return agent.NewEvaluator(make1(t, "policy")) },
		Boards:  gametest.Boards(),
		Sources: []eval.Source{eval.Searched},
	})
}

// The model of an agent may be a heuristic with a parameter, whose likeliest move policy plays.
func TestModelWithParameter(t *testing.T) {
	b, differ := game.MustBoard(game.Connect4), 0
	batch := eval.NewBatch(b, 1)
	for _, p := range gametest.Open(gametest.Rand(5), b, 60) {
		batch.Pos[0], _ = b.Canonical(p)
		name, _, err := heuristic.Parse("bitsquares:power=8")
		gametest.OK(t, err)
		gametest.OK(t, eval.New(name.New(), eval.Options{}).Evaluate(t.Context(), batch))
		got := move(t, make1(t, "policy:model=bitsquares:power=8"), b, batch.Pos[0])
		if batch.Policy[got] != slices.Max(batch.Policy) {
			t.Errorf("%s: move %d, the heuristic's policy is %v", b.Text(p), got, batch.Policy)
		}
		if got != move(t, make1(t, "policy:model=bitsquares"), b, batch.Pos[0]) {
			differ++
		}
	}
	if differ == 0 {
		t.Error("the parameter changes no move")
	}
	spec := gametest.Must(agent.Parse("policy:model=bitsquares:power=9"))(t)
	if _, err := agent.New(spec, agent.Shared{}); err == nil || !strings.Contains(err.Error(), "want a number from 0 to 8") {
		t.Errorf("%s: %v", spec, err)
	}
}

// An agent whose context ends says so. The most that the grammar allows is no more than an agent can begin with.
func TestCancelled(t *testing.T) {
	b := game.MustBoard(game.Connect4)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, text := range append(
		quick, "solver", "solver:random=true",
		"uct-bitsquares:sims=1073741824", "uct-bitsquares:time=168h", "mcts:visits=1073741824", "flat:sims=1073741824",
	) {
		if _, err := make1(t, text).Move(ctx, b, game.Position{}); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: error %v, want context.Canceled", text, err)
		}
	}
}

// Even with an evaluator that knows nothing, policy wins if a move wins, and keeps the other side from winning at once.
func TestPolicyByRules(t *testing.T) {
	a := make1(t, "policy:model=uniform")
	for _, b := range gametest.Boards() {
		for _, p := range gametest.Positions(gametest.Rand(3), b, 200, true) {
			if b.Result(p) != game.Ongoing {
				continue
			}
			move := move(t, a, b, p)
			if o := b.Outlook(p); b.Cell(p, move).And(o.Moves).IsZero() {
				t.Errorf("%v %+v: move %d, the rules leave %v", b.Rules(), p, move, o.Moves)
			}
		}
	}
}

// Agents explore with the constant of their selection rule, or with explore=.
func TestExplore(t *testing.T) {
	b := game.MustBoard(game.Connect4)
	searched := func(text string) []mcts.Move { return newThinker(t, text).think(t, b, game.Position{}).Moves }
	for name, own := range map[string]string{"uct:sims=300": "1.4142135623730951", "uct-bitsquares:sims=300": "1.4142135623730951", "mcts:model=stub,visits=300": "1.5"} {
		if diff := cmp.Diff(searched(name), searched(name+",explore="+own)); diff != "" {
			t.Errorf("%s (-without +with explore=%s):\n%s", name, own, diff)
		}
		if cmp.Equal(searched(name), searched(name+",explore=0.1")) {
			t.Errorf("%s: explore=0.1 changes nothing", name)
		}
	}
}

// An agent that says so plays mirrored moves in mirrored positions, also by an evaluator that is not symmetric, and many at once.
func TestSymmetric(t *testing.T) {
	b := game.MustBoard(game.Connect4)
	if other := (agent.Spec{Name: "mcts"}); other.Symmetric() {
		t.Errorf("%v is symmetric", other)
	}
	for _, text := range []string{"policy:model=stub", "policy:model=stub,exact"} {
		if !gametest.Must(agent.Parse(text))(t).Symmetric() {
			t.Errorf("%s is not symmetric", text)
		}
		a := make1(t, text)
		positions := gametest.Open(gametest.Rand(9), b, 200)
		actions := make([]int, len(positions))
		gametest.OK(t, a.(interface {
			Moves(context.Context, *game.Board, []game.Position, []int) error
		}).Moves(t.Context(), b, positions, actions))
		for i, p := range positions {
			got, mirrored := move(t, a, b, p), move(t, a, b, b.Mirror(p))
			if got != actions[i] || b.Mirror(p) != p && mirrored != b.MirrorAction(got) {
				t.Errorf("%s, %+v: %d, in its mirror image %d, beside others %d", text, p, got, mirrored, actions[i])
			}
		}
	}
}

func TestDeterministic(t *testing.T) {
	for text, want := range map[string]string{
		"policy": "", "mcts": "", "mcts:visits=5,seed=3": "", "uct": "", "solver": "", "solver:book=x": "", "human:temperature=3,threats=0.5": "",
		"random": "at random", "negamax": "at random", "flat:sims=3": "at random", "solver:random=true": "at random",
		"mcts:time=1s": "has a time", "mcts:visits=5,time=1s": "has a time", "uct-bitsquares": "has a time", "solver:time=1s": "has a time", "alphabeta-bitsquares": "has a time",
	} {
		err := gametest.Must(agent.Parse(text))(t).Deterministic()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
