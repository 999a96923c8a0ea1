package play

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/solver"
	"github.com/evald/evald/nn/open"
)

// Level is an agent with a name for people.
type Level struct {
	Name  string     `json:"name"`
	Agent agent.Spec `json:"agent"` // as text
	About string     `json:"about"` // in a few words
}

// Levels are opponents for people, weakest first.
var Levels = []Level{
	{"random", agent.Spec{Name: "random"}, "any legal move"},
	{"beginner", agent.Spec{Name: "negamax"}, "looks four moves ahead"},
	{"casual", agent.Spec{Name: "uct", Visits: 500}, "a search with random games"},
	{"instinct", agent.Spec{Name: "policy"}, "the network's first thought"},
	{"good", agent.Spec{Name: "mcts", Visits: 50}, "a short search with the network"},
	{"strong", agent.Spec{Name: "mcts", Time: time.Second}, "a second's search with the network"},
	{"proven", agent.Spec{Name: "policy", Model: open.FastModel, Exact: solver.MoveNodes}, "no search; proved to win 7x6 if it begins"},
	{"perfect", agent.Spec{Name: "solver", Time: 4 * time.Second}, "the exact best move where it is found in time"},
}

// ParseAgent returns the agent of a level's name, or else the agent of a text in the grammar of package agent.
func ParseAgent(text string) (agent.Spec, error) {
	if i := slices.IndexFunc(Levels, func(l Level) bool { return l.Name == text }); i >= 0 {
		return Levels[i].Agent, nil
	}
	return agent.Parse(text)
}

// LevelOf returns the name of the level that has this agent. If there is none, it returns the text unchanged.
func LevelOf(text string) string {
	if spec, err := ParseAgent(text); err == nil {
		if i := slices.IndexFunc(Levels, func(l Level) bool { return l.Agent == spec }); i >= 0 {
			return Levels[i].Name
		}
	}
	return text
}

// DescribeLevels returns one line on each level, for people.
func DescribeLevels() string {
	var s strings.Builder
	for _, l := range Levels {
		fmt.Fprintf(&s, "%-10s%s (%v)\n", l.Name, l.About, l.Agent)
	}
	return s.String()
}
