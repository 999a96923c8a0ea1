package play

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/ask"
	"github.com/evald/evald/engine/short"
	"github.com/evald/evald/engine/solver"
)

// Level is an opponent with a name.
type Level struct {
	Name  string     `json:"name"`
	Agent agent.Spec `json:"agent"` // as text

	// Elo is its rating on 7x6x4, from matches between neighbouring levels (LOG.md); the agent random has 0. It says nothing about
	// other boards.
	Elo int `json:"elo"`

	CannotSee string `json:"cannot_see"` // a sentence about its weaknesses and how often they show
}

// Levels are opponents for people, weakest first.
var Levels = []Level{
	{"beginner", mistakes(0.9, 0.9, 2, 100), 200, "overlooks your threats and diagonals in 90% of its moves, and sees only your next stone"},
	{"novice", mistakes(0.5, 0.6, 2, 15), 320, "overlooks your threats in 50% of its moves and diagonals in 60%, and sees only your next stone"},
	{"casual", mistakes(0.25, 0.4, 2, 7), 450, "overlooks your threats in 25% of its moves and diagonals in 40%, and sees only your next stone"},
	{"fair", mistakes(0.12, 0.2, 2, 4), 570, "overlooks your threats in 12% of its moves and diagonals in 20%, and sees only your next stone"},
	{"steady", mistakes(0.06, 0.1, 3, 2.8), 720, "overlooks your threats in 6% of its moves and diagonals in 10%, and looks only 3 stones ahead"},
	{"good", mistakes(0.03, 0.05, 4, 2.2), 870, "overlooks your threats in 3% of its moves and diagonals in 5%, and looks only 4 stones ahead"},
	{"strong", mistakes(0, 0, 4, 1.5), 990, "looks only 4 stones ahead, and often plays another move than it likes best"},
	{"expert", mistakes(0, 0, 6, 1.1), 1100, "looks only 6 stones ahead, and at times plays another move than it likes best"},
	{"master", mistakes(0, 0, 8, 0.6), 1220, "looks only 8 stones ahead, and may not see who wins a long endgame"},
	{"perfect", agent.Spec{Name: "policy", Model: fastModel, Chosen: true, Search: ask.Search{How: ask.How{Exact: solver.MostMoveNodes}}}, 1350, "overlooks nothing that decides a game on 7x6; on other boards, what it cannot prove in time"},
}

// fastModel is open.FastModel, which an engine in the browser has under the same name.
const fastModel = "default-fast"

// mistakes returns an agent human that overlooks threats and diagonals with the given probabilities, looks ahead stones ahead, and draws its
// moves from a network's policy to the power 1/temperature.
func mistakes(threats, diagonals float64, ahead int, temperature float64) agent.Spec {
	return agent.Spec{Name: "human", Model: fastModel, Chosen: true, Threats: threats, Diagonals: diagonals, Ahead: ahead, Temperature: temperature}
}

// others lists further named agents that are not levels.
var others = []struct {
	name  string
	agent agent.Spec
	about string
}{
	{"instinct", agent.Spec{Name: "policy"}, "the network's first thought"},
	{"proven", agent.Spec{Name: "policy", Model: fastModel, Chosen: true, Search: ask.Search{How: ask.How{Exact: solver.MoveNodes}}}, "the level perfect with a quarter of the nodes; proved to win 7x6 if it begins"},
}

// ParseAgent returns the agent with a name, of a level or another one, or else parses the text in
// the grammar of package agent. The text of such an agent, as in records and links, is that agent,
// so evald has chosen its network.
func ParseAgent(text string) (agent.Spec, error) {
	for _, l := range Levels {
		if l.Name == text || l.Agent.String() == text {
			return l.Agent, nil
		}
	}
	for _, o := range others {
		if o.name == text || o.agent.String() == text {
			return o.agent, nil
		}
	}
	name, _, _ := strings.Cut(text, ":")
	agents := agent.Names()
	if slices.Contains(agents, name) {
		return agent.Parse(text)
	}
	levels := names()
	err := fmt.Errorf("agent %s: there are %s, and the levels %s", short.Quote(text), strings.Join(agents, ", "), strings.Join(levels, ", "))
	if near := nearest(name, append(levels, agents...)); near != "" {
		err = fmt.Errorf("%w; did you mean %s?", err, near)
	}
	return agent.Spec{}, err
}

// names returns the names of all levels and other named agents.
func names() (all []string) {
	for _, l := range Levels {
		all = append(all, l.Name)
	}
	for _, o := range others {
		all = append(all, o.name)
	}
	return all
}

// nearest returns the name with the fewest wrong letters, or "" if none is similar.
func nearest(text string, names []string) string {
	near := slices.MinFunc(names, func(a, b string) int { return cmp.Compare(distance(text, a), distance(text, b)) })
	if d := distance(text, near); d > 2 || 2*d >= len(near) {
		return ""
	}
	return near
}

// distance returns the number of bytes that must be inserted, removed or replaced to make b of a
// (Levenshtein, 1966).
func distance(a, b string) int {
	row := make([]int, len(b)+1) // of the prefixes of b, from the prefix of a so far
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := before
			if a[i] != b[j] {
				change++
			}
			before = row[j+1]
			row[j+1] = min(change, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}

// Named reports whether an agent is a level or has another name.
func Named(s agent.Spec) bool { return nameOf(s) != "" }

// LevelOf returns the name of the agent that text describes, or text itself if the agent has no name.
func LevelOf(text string) string {
	if spec, err := ParseAgent(text); err == nil {
		if name := nameOf(spec); name != "" {
			return name
		}
	}
	return text
}

func nameOf(s agent.Spec) string {
	for _, l := range Levels {
		if l.Agent == s {
			return l.Name
		}
	}
	for _, o := range others {
		if o.agent == s {
			return o.name
		}
	}
	return ""
}

// DescribeLevels returns a line about each level and each other named agent, for the help.
func DescribeLevels() string {
	var s strings.Builder
	for _, l := range Levels {
		fmt.Fprintf(&s, "%-10sElo %d on 7x6; %s\n", l.Name, l.Elo, l.CannotSee)
	}
	for _, o := range others {
		fmt.Fprintf(&s, "%-10s%s (%v)\n", o.name, o.about, o.agent)
	}
	return s.String()
}
