package play

import (
	"testing"

	"github.com/evald/evald/engine/agent"
)

// Every level is an agent, has a unique name, and LevelOf finds that name.
func TestLevels(t *testing.T) {
	seen := map[agent.Spec]string{}
	for _, l := range Levels {
		if other, twice := seen[l.Agent]; twice {
			t.Errorf("%s and %s are the same agent", l.Name, other)
		}
		seen[l.Agent] = l.Name
		for _, text := range []string{l.Name, l.Agent.String()} {
			if spec, err := ParseAgent(text); err != nil || spec != l.Agent {
				t.Errorf("%q is agent %+v (%v), want %+v", text, spec, err, l.Agent)
			}
			if got := LevelOf(text); got != l.Name {
				t.Errorf("%q is called %q, want %q", text, got, l.Name)
			}
		}
	}
	for text, want := range map[string]string{
		"mcts:time=1000ms": "strong", "uct-bitsquares:time=1s": "uct-bitsquares:time=1s", "robot": "robot", "": "",
	} {
		if got := LevelOf(text); got != want {
			t.Errorf("%q is called %q, want %q", text, got, want)
		}
	}
}
