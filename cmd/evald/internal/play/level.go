package play

import (
	"strings"

	"github.com/evald/evald/engine/agent"
)

// Level is an agent under a name for people.
type Level struct {
	Name  string `json:"name"`
	Agent string `json:"agent"` // in the grammar of engine/agent
	About string `json:"about"` // in a few words
}

// Levels are for people who look for an opponent, from the weakest on.
var Levels = []Level{
	{"random", "random", "any legal move"},
	{"beginner", "negamax", "looks four moves ahead"},
	{"casual", "uct:sims=500", "a search with random games"},
	{"instinct", "policy", "the network's first thought"},
	{"good", "mcts:visits=50", "a short search with the network"},
	{"strong", "mcts:time=1s", "a second's search with the network"},
	{"perfect", "solver:time=4s", "the exact best move where it is found in time"},
}

// AgentOf is the agent that a level's name stands for; any other text stands for itself.
func AgentOf(text string) string {
	for _, l := range Levels {
		if l.Name == text {
			return l.Agent
		}
	}
	return text
}

// LevelOf is the name of the level that an agent is; one that is none is called by its text.
func LevelOf(text string) string {
	spec, err := agent.Parse(AgentOf(text))
	if err != nil {
		return text
	}
	for _, l := range Levels {
		if known, err := agent.Parse(l.Agent); err == nil && known == spec {
			return l.Name
		}
	}
	return text
}

// DescribeLevels is a line for people on each level.
func DescribeLevels() string {
	var s strings.Builder
	for _, l := range Levels {
		s.WriteString(l.Name + strings.Repeat(" ", 10-len(l.Name)) + l.About + " (" + l.Agent + ")\n")
	}
	return s.String()
}
