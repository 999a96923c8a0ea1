package play

import (
	"strings"

	"github.com/evald/evald/engine/agent"
)

// Level is an agent with a name for people.
type Level struct {
	Name  string `json:"name"`
	Agent string `json:"agent"` // in the grammar of engine/agent
	About string `json:"about"` // in a few words
}

// Levels are opponents for people, weakest first.
var Levels = []Level{
	{"random", "random", "any legal move"},
	{"beginner", "negamax", "looks four moves ahead"},
	{"casual", "uct:sims=500", "a search with random games"},
	{"instinct", "policy", "the network's first thought"},
	{"good", "mcts:visits=50", "a short search with the network"},
	{"strong", "mcts:time=1s", "a second's search with the network"},
	{"perfect", "solver:time=4s", "the exact best move where it is found in time"},
}

// AgentOf returns the agent that a level's name stands for. Any other text is returned unchanged.
func AgentOf(text string) string {
	for _, l := range Levels {
		if l.Name == text {
			return l.Agent
		}
	}
	return text
}

// LevelOf returns the name of the level that has this agent. If there is none, it returns the text unchanged.
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

// DescribeLevels returns one line on each level, for people.
func DescribeLevels() string {
	var s strings.Builder
	for _, l := range Levels {
		s.WriteString(l.Name + strings.Repeat(" ", 10-len(l.Name)) + l.About + " (" + l.Agent + ")\n")
	}
	return s.String()
}
