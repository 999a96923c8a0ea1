// Package ask has what callers choose of a search, each parameter once: a field of Search whose tags
// are its range, its default and its help. Every door reads them there. The command line takes the
// fields as flags; scripts, the service, agents and Python find them by name (Fields, Named).
//
// Self-play, samples, the ratings of puzzles and measurements have searches of their own
// (mcts.DefaultConfig), so that what they make stays the same.
//
// A new parameter is a field here, and its use in Config. The arguments of Python's search and the
// tables of the manuals are written anew from the fields:
//
//	go test ./cmd/evald -run TestAsked -update
//
// Read the files in this order:
//
//	search.go  Search, and the configuration of its tree
//	fields.go  the fields by name: reading values, and what they must be
package ask

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/mcts"
	"github.com/evald/evald/engine/solver"
)

// MostVisits is the maximum of Search.Visits.
const MostVisits = 1 << 30

// How is how a search is made, whatever its number of visits. The zero value of each field is its
// default. Its tags are those of Search.
type How struct {
	Selection mcts.Selection `doors:"queries,service,python" default:"puct" enum:"puct,uct,gumbel" help:"How visits choose among moves: ${enum}."`
	Leaves    int            `doors:"agents,python" range:"1 to 4096" default:"1" help:"Leaves of one position that are evaluated at once. More are faster if few positions wait, and change the answers."`
	Explore   float64        `doors:"queries,service,agents,python" range:"0 to 1000" without:"selection=gumbel" help:"Exploration constant of puct and uct: a larger one spreads the visits over more moves. 0 is that of the network (evald match --tune), or else ${puctC} for puct and ${uctC} for uct."`
	FPU       *float64       `doors:"queries,service,agents,python" name:"fpu" range:"-2 to 2" without:"selection=uct|gumbel" help:"How much lower puct values a move without visits than its position (first play urgency): a larger one visits fewer moves. Default: that of the network (evald match --tune), or else ${fpu}."`
	Exact     solver.Nodes   `doors:"queries,service,agents,python" help:"Prove leaves whose result a solver finds within ${exactNodes} nodes, or =NODES, and exclude moves of the position that it finds to give the result away; =false is none. Default: ${exactNodes} on boards with gravity."`
}

// Search is what a caller chooses of a search. Callers that choose the same get the same answers,
// whichever command, service or language they come from. Its tags:
//
//	doors    who may set it, beside the command line: queries are the lines of evald analyze,
//	         service the parameters of a request, agents the keys of an agent, python the arguments
//	range    of a number, in the units of the field
//	default  as text; none: what the help says
//	help     for all doors; ${enum} are the choices, and Values has other names
//	without  flags with which it does nothing, as of all commands
type Search struct {
	Visits int `doors:"queries,service,agents,python" range:"1 to 1073741824" default:"800" help:"Visits of each position's root."`
	How
	Batch int    `doors:"python" range:"1 to 1048576" default:"256" help:"Leaves of all positions that are evaluated together. It changes no answer."`
	Seed  uint64 `doors:"queries,service,agents,python" needs:"selection=uct|gumbel" help:"Random seed of uct and gumbel."`
}

// Config returns the configuration of the trees of this search with a backend. They have room for
// all visits.
func (s Search) Config(b eval.Backend) mcts.Config {
	c := mcts.DefaultConfig(s.Selection).For(b)
	c.C, c.Visits, c.Seed = cmp.Or(s.Explore, c.C), s.Visits, s.Seed
	if s.FPU != nil {
		c.FPU = *s.FPU
	}
	c.Exact, c.RootNodes = cmp.Or(s.Exact, solver.ByBoard), mcts.RootNodesFor(s.Visits)
	c.MaxNodes = 0
	return c
}

// String describes the search in a few words: "puct of 800 visits, explore 2".
func (s Search) String() string {
	text := fmt.Sprintf("%v of %d visits", s.Selection, s.Visits)
	for _, f := range fields {
		if value := f.Text(&s); value != "" && value != f.Default && !slices.Contains([]string{"visits", "selection", "batch"}, f.Name) {
			text += ", " + f.Name + " " + value
		}
	}
	return text
}
