package agent_test

import (
	"math"
	"testing"

	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/game/gametest"
)

// The numbers of an agent have the values with which it plays, wherever they come from.
func TestNumbers(t *testing.T) {
	for text, want := range map[string]map[string]float64{
		"random":                             {},
		"negamax":                            {},
		"solver":                             {},
		"flat":                               {},
		"policy:model=gameovers:width=3":     {"width": 3},
		"alphabeta-bitsquares:power=2":       {"power": 2},
		"uct-bitsquares:sims=9,width=6":      {"leaves": 1, "explore": math.Sqrt2, "discount": 1, "power": 1.75, "width": 6},
		"uct-oddeven:explore=3,leaves=2":     {"leaves": 2, "explore": 3, "discount": 1, "width": 6},
		"uct":                                {"leaves": 1, "explore": math.Sqrt2, "discount": 1},
		"human:model=bitsquares,threats=0.5": {"ahead": 0, "threats": 0.5, "diagonals": 0, "temperature": 0, "power": 1.75, "width": 7},
		"mcts:model=bitsquares:power=3,visits=9,fpu=-1": {"leaves": 1, "explore": 1.5, "fpu": -1, "discount": 1, "noise": 0, "alpha": 1, "forced_playouts": 0, "power": 3, "width": 7},
		"gumbel:model=bitsquares,considered=4":          {"leaves": 1, "discount": 1, "considered": 4, "c_visit": 50, "c_scale": 1, "gumbel_scale": 1, "power": 1.75, "width": 7},
	} {
		spec := gametest.Must(agent.Parse(text))(t)
		a := gametest.Must(agent.New(spec, agent.Shared{}))(t)
		numbers := agent.Numbers(spec, a)
		for _, n := range numbers {
			if x, ok := want[n.Key]; !ok || x != n.Value {
				t.Errorf("%s: %+v, want %v", text, n, want)
			}
			// Each takes the ends of its range, and no value beyond; the text of the agent with another value reads as that agent.
			for x, takes := range map[float64]bool{n.Least: true, n.Most: true, n.Least - 1: false, n.Most + 1: false} {
				other, err := spec.With(n.Key, x)
				if (err == nil) != takes {
					t.Errorf("%s with %s=%v: %v", text, n.Key, x, err)
				}
				if again, err := agent.Parse(other.String()); takes && (err != nil || again.String() != other.String()) {
					t.Errorf("%s with %s=%v is %s, read as %v, %v", text, n.Key, x, other, again, err)
				}
			}
		}
		if len(numbers) != len(want) {
			t.Errorf("%s: %+v, want %v", text, numbers, want)
		}
		for _, n := range numbers { // its own value changes nothing
			same := gametest.Must(spec.With(n.Key, n.Value))(t)
			for _, m := range agent.Numbers(same, gametest.Must(agent.New(same, agent.Shared{}))(t)) {
				if m.Value != want[m.Key] {
					t.Errorf("%s with %s=%v has %+v, want %v", text, n.Key, n.Value, m, want)
				}
			}
		}
	}
}
