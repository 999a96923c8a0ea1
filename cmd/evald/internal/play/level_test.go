package play

import (
	"testing"

	"github.com/evald/evald/engine/agent"
)

// Every level is an agent, has a unique name, and LevelOf finds that name.
func TestLevels(t *testing.T) {
	seen := map[agent.Spec]string{}
	for _, l := range Levels {
		spec, err := agent.Parse(l.Agent)
		if err != nil {
			t.Errorf("%s: %v", l.Name, err)
		}
		if other, twice := seen[spec]; twice {
			t.Errorf("%s and %s are the same agent", l.Name, other)
		}
		seen[spec] = l.Name
		if AgentOf(l.Name) != l.Agent || LevelOf(l.Agent) != l.Name || LevelOf(l.Name) != l.Name {
			t.Errorf("%s stands for %q, which is called %q", l.Name, AgentOf(l.Name), LevelOf(l.Agent))
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
