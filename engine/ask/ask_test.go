package ask_test

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/evald/evald/engine/ask"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/mcts"
	"github.com/evald/evald/engine/solver"
)

var doors = []ask.Door{ask.Queries, ask.Service, ask.Agents, ask.Python}

// Each parameter has a name of its own, words, a door, and a default that it can be set to.
func TestFields(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range ask.Fields(ask.Python) {
		if seen[f.Name] || f.Name != strings.ToLower(f.Name) || len(f.Help) < 20 || strings.Contains(f.Help, "$") {
			t.Errorf("%+v", f)
		}
		seen[f.Name] = true
	}
	all := 0
	for _, f := range reflect.VisibleFields(reflect.TypeFor[ask.Search]()) {
		if !f.Anonymous {
			all++
		}
		for _, door := range strings.Split(f.Tag.Get("doors"), ",") {
			if !f.Anonymous && !strings.Contains(fmt.Sprint(doors), door) {
				t.Errorf("%s: there is no door %q", f.Name, door)
			}
		}
	}
	if f, _ := ask.Named("visits", ask.Python); f.Most != ask.MostVisits {
		t.Errorf("visits to %v, want MostVisits", f.Most)
	}
	if len(seen) != all {
		t.Errorf("Python may set %d of %d", len(seen), all)
	}
	want := ask.Search{Visits: 800, Batch: 256, How: ask.How{Leaves: 1, Discount: 1, Alpha: 1, Considered: 16}}
	if diff := cmp.Diff(want, ask.Usual()); diff != "" {
		t.Errorf("Usual (-want +got):\n%s", diff)
	}
}

// The selections with which a parameter does something are those of its tags.
func TestApplies(t *testing.T) {
	all := []mcts.Selection{mcts.PUCT, mcts.UCT, mcts.Gumbel}
	for name, want := range map[string][]mcts.Selection{
		"visits": all, "fpu": {mcts.PUCT}, "priors": {mcts.PUCT}, "explore": {mcts.PUCT, mcts.UCT}, "transpositions": {mcts.PUCT, mcts.Gumbel},
		"considered": {mcts.Gumbel}, "seed": all, "alpha": {mcts.PUCT},
	} {
		f, _ := ask.Named(name, ask.Python)
		var got []mcts.Selection
		for _, rule := range all {
			if f.Applies(rule) {
				got = append(got, rule)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// What Text writes, SetText reads, in every field; so does SetJSON, quoted where it is a choice.
func TestText(t *testing.T) {
	fields := ask.Fields(ask.Python)
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.SampledFrom(fields).Draw(t, "field")
		var value any
		switch f.Kind {
		case ask.Choice:
			value = rapid.SampledFrom(f.Choices).Draw(t, "choice")
		case ask.Nodes:
			value = rapid.SampledFrom([]any{true, false, int64(1), int64(f.Most), 7.0}).Draw(t, "nodes")
		case ask.Truth:
			value = rapid.Bool().Draw(t, "truth")
		case ask.Whole:
			if value = rapid.Uint64().Draw(t, "whole"); f.Most < 1<<64 {
				value = rapid.Int64Range(int64(f.Least), int64(f.Most)).Draw(t, "whole")
			}
		default:
			value = rapid.Float64Range(f.Least, f.Most).Draw(t, "number")
		}
		var s, byText, byJSON ask.Search
		if !f.Set(&s, value) {
			t.Fatalf("%s = %v is refused, must be %s", f.Name, value, f.Must())
		}
		text := f.Text(&s)
		if text == "" {
			return // the default
		}
		quoted := text
		if f.Kind == ask.Choice {
			quoted = `"` + text + `"`
		}
		if !f.SetText(&byText, text) || !f.SetJSON(&byJSON, []byte(quoted)) {
			t.Fatalf("%s: %q is refused", f.Name, text)
		}
		if diff := cmp.Diff(s, byText); diff != "" {
			t.Fatalf("%s by text (-want +got):\n%s", f.Name, diff)
		}
		if diff := cmp.Diff(s, byJSON); diff != "" {
			t.Fatalf("%s in JSON (-want +got):\n%s", f.Name, diff)
		}
	})
}

// A wrong value of any field is refused, by words without Go or JSON types, and changes nothing.
func TestWrong(t *testing.T) {
	for _, f := range ask.Fields(ask.Python) {
		wrong := []string{`"x"`, `[3]`, `{"a":[1]}`, `null`, `-5`, `1e300`, `NaN`}
		if f.Kind == ask.Truth {
			wrong = append(wrong, `1`, `0`, `"true"`, `1.5`)
		}
		if f.Kind == ask.Whole {
			wrong = append(wrong, `1.5`, `true`, `"3"`)
		}
		for _, value := range wrong {
			s, want := ask.Usual(), ask.Usual()
			if f.SetJSON(&s, []byte(value)) || f.SetText(&s, value) {
				t.Errorf("%s takes %s", f.Name, value)
			}
			if diff := cmp.Diff(want, s); diff != "" {
				t.Errorf("%s as %s changes:\n%s", f.Name, value, diff)
			}
			if value == "NaN" {
				continue
			}
			_, err := ask.Decode(fmt.Sprintf(`{%q: %s}`, f.Name, value), ask.Python)
			if err == nil || !strings.Contains(err.Error(), f.Name+" is "+value) || !strings.Contains(err.Error(), "must be "+f.Must()) {
				t.Errorf("%s as %s: %v", f.Name, value, err)
			}
		}
		for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), f.Most * 3} {
			if s := ask.Usual(); f.Kind != ask.Choice && f.Set(&s, x) {
				t.Errorf("%s takes %v", f.Name, x)
			}
		}
	}
	if _, err := ask.Decode(`{"nonsense": 1}`, ask.Python); err == nil || !strings.Contains(err.Error(), `"nonsense" is unknown: there are visits, `) {
		t.Error(err)
	}
	if _, err := ask.Decode(`[]`, ask.Python); err == nil {
		t.Error("a list is no object")
	}
	if _, err := ask.Decode(`{"batch": 3}`, ask.Service); err == nil || !strings.Contains(err.Error(), `"batch" is unknown`) {
		t.Errorf("a parameter of another door: %v", err)
	}
	s := gametest.Must(ask.Decode(`{"visits": 9e1, "seed": 18446744073709551615, "exact": false, "selection": "gumbel"}`, ask.Python))(t)
	if s.Visits != 90 || s.Seed != math.MaxUint64 || s.Exact != solver.NoProbes || s.Selection != mcts.Gumbel || s.Batch != 256 {
		t.Errorf("%+v", s)
	}
}

// Every parameter of a tree, also one to come, changes its configuration.
func TestConfigHasAll(t *testing.T) {
	values := map[ask.Kind][]any{ask.Whole: {int64(3)}, ask.Number: {0.625}, ask.Nodes: {int64(77)}, ask.Truth: {true, false}}
	for _, f := range ask.Fields(ask.Python) {
		changes := false
		for _, value := range append(values[f.Kind], anys(f.Choices)...) {
			s := ask.Usual()
			if !f.Set(&s, value) {
				t.Fatalf("%s does not take %v", f.Name, value)
			}
			changes = changes || s.Config(network{}) != ask.Usual().Config(network{})
		}
		ofSearch := f.Name == "leaves" || f.Name == "batch" // how leaves are evaluated, mcts.Limits
		if changes == ofSearch {
			t.Errorf("%s changes the configuration: %v", f.Name, changes)
		}
	}
}

func anys(texts []string) (values []any) {
	for _, text := range texts {
		values = append(values, text)
	}
	return values
}

// A network that is not in evald's formats is searched plainly. What the caller chooses goes before.
func TestPlain(t *testing.T) {
	yes, no := true, false
	board := gametest.Must(new(game.Boards).Parse("7x6x4"))(t)
	for _, test := range []struct {
		of                                 eval.Backend
		how                                ask.How
		plain, flat, transpositions, exact bool
	}{
		{network{}, ask.How{}, false, true, true, true},
		{eval.Foreign{Backend: network{}}, ask.How{}, true, false, false, false},
		{network{}, ask.How{Lookahead: &no, Priors: "policy", Transpositions: &no}, true, false, false, false},
		{eval.Foreign{Backend: network{}}, ask.How{Lookahead: &yes, Priors: "flat", Transpositions: &yes}, false, true, true, false},
		{eval.Foreign{Backend: network{}}, ask.How{Exact: 500}, false, false, false, true},
		{eval.Foreign{Backend: network{}}, ask.How{Exact: solver.NoProbes}, true, false, false, false},
	} {
		c := ask.Search{Visits: 100, How: test.how}.Config(test.of)
		if c.Plain != test.plain || c.FlatPriors != test.flat || c.Transpositions != test.transpositions || (c.Exact.On(board) > 0) != test.exact {
			t.Errorf("%T, %v: %+v", test.of, test.how, c)
		}
		if _, err := mcts.New(board, c); err != nil {
			t.Errorf("%T, %v: %v", test.of, test.how, err)
		}
	}
	impossible := ask.Search{Visits: 9, How: ask.How{Lookahead: &no, Exact: 500}}
	if _, err := mcts.New(board, impossible.Config(network{})); err == nil || !strings.Contains(err.Error(), "lookahead") || !strings.Contains(err.Error(), "exact") {
		t.Error(err)
	}
}

// A search whose numbers are filled in is the same search.
func TestFilled(t *testing.T) {
	for _, f := range ask.Fields(ask.Python) {
		for _, value := range []any{int64(3), 0.625, true, f.Choices} {
			if choices, ok := value.([]string); ok && len(choices) > 0 {
				value = choices[len(choices)-1]
			}
			s := ask.Usual()
			if !f.Set(&s, value) {
				continue
			}
			for _, b := range []eval.Backend{network{}, eval.Foreign{Backend: network{}}} {
				filled := s.Filled(b)
				if got, want := filled.Config(b), s.Config(b); got != want {
					t.Errorf("%s=%v: %+v, want %+v", f.Name, value, got, want)
				}
				if want := map[any]float64{int64(3): 3, 0.625: 0.625}[value]; f.Kind == ask.Number && (f.Number(&filled) != want || f.Number(&s) != want) {
					t.Errorf("%s is %v, filled %v, want %v", f.Name, f.Number(&s), f.Number(&filled), want)
				}
			}
		}
	}
	usual := ask.Usual()
	filled := usual.Filled(network{})
	for name, want := range map[string][2]float64{"explore": {0, 3}, "fpu": {0, 0.4}, "c_visit": {0, 50}, "discount": {1, 1}, "visits": {800, 800}, "seed": {0, 0}} {
		f, _ := ask.Named(name, ask.Python)
		if got := [2]float64{f.Number(&usual), f.Number(&filled)}; got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

// network is a backend with constants of its own.
type network struct{ eval.Backend }

func (network) Attributes() eval.Attributes {
	return eval.Attributes{Search: &eval.Search{CPUCT: 3, FPU: 0.4}}
}

// What the caller chooses goes before what the network has, which goes before the defaults.
func TestConfig(t *testing.T) {
	zero := 0.0
	for _, test := range []struct {
		how    ask.How
		c, fpu float64
	}{
		{ask.How{}, 3, 0.4},
		{ask.How{Explore: 5}, 5, 0.4},
		{ask.How{FPU: &zero}, 3, 0},
		{ask.How{Selection: mcts.UCT}, math.Sqrt2, 0.2},
		{ask.How{Selection: mcts.UCT, Explore: 5}, 5, 0.2},
	} {
		c := ask.Search{Visits: 100, How: test.how, Seed: 9}.Config(network{})
		if c.C != test.c || c.FPU != test.fpu || c.Visits != 100 || c.Seed != 9 || c.Exact != solver.ByBoard || c.RootNodes != mcts.RootNodesFor(100) {
			t.Errorf("%+v: %+v", test.how, c)
		}
	}
	if got := (ask.Search{Visits: 100, How: ask.How{Explore: 5, FPU: &zero, Exact: solver.NoProbes}}).String(); got != "puct of 100 visits, explore 5, fpu 0, exact false" {
		t.Error(got)
	}
}
