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
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/mcts"
	"github.com/evald/evald/engine/solver"
)

// MostVisits is the maximum of Search.Visits.
const MostVisits = 1 << 30

// How is how a search is made, whatever its number of visits. The zero value of each field is its
// default. Its tags are those of Search.
type How struct {
	Selection      mcts.Selection `doors:"queries,service,python" default:"puct" enum:"puct,uct,gumbel,flat" help:"How visits choose among moves: ${enum}. flat is flat Monte Carlo, without lookahead: all moves get equal shares and the best mean is played, of random games with the heuristic rollout:games=1."`
	Leaves         int            `doors:"agents,python" range:"1 to 4096" default:"1" help:"Leaves of one position that are evaluated at once. More are faster if few positions wait, and change the answers."`
	Explore        float64        `doors:"queries,service,agents,python" aliases:"cpuct" range:"0 to 1000" without:"selection=gumbel|flat" help:"Exploration constant of puct (cpuct) and uct: a larger one spreads the visits over more moves. 0 is that of the network (evald match --tune), or else ${puctC} for puct and ${uctC} for uct."`
	FPU            *float64       `doors:"queries,service,agents,python" name:"fpu" range:"-2 to 2" without:"selection=uct|gumbel|flat" help:"How much lower puct values a move without visits than its position (first play urgency), below the root: a larger one visits fewer moves. Default: that of the network (evald match --tune), or else ${fpu}."`
	Exact          solver.Nodes   `doors:"queries,service,agents,python" without:"selection=flat" help:"Prove leaves whose result a solver finds within ${exactNodes} nodes, or =NODES, and exclude moves of the position that it finds to give the result away; =false is none. Default: ${exactNodes} on boards with gravity, none in a search without lookahead."`
	Lookahead      *bool          `doors:"queries,service,agents,python" without:"selection=flat" help:"Look two stones ahead (uct: one) before the network is asked, and prove results from the ends of games upwards; =false is the search of the papers, which judges a network by itself. Default: true, but false for networks that are not in evald's formats (functions, ONNX files)."`
	Priors         Priors         `doors:"queries,service,agents,python" choices:"flat,policy" placeholder:"flat|policy" without:"selection=uct|gumbel|flat" help:"What puct makes of a network's policy: flat are its square roots, scaled to sum 1, with which a network that is too certain finds more; policy is the policy itself. Default: flat, but policy for networks that are not in evald's formats."`
	Transpositions *bool          `doors:"queries,service,agents,python" without:"selection=uct|flat" help:"Let all orders of moves to a position share its visits. Default: true, but false for networks that are not in evald's formats."`
	Discount       float64        `doors:"queries,service,agents,python" range:"0.5 to 1" default:"1" help:"Factor of a value for each stone by which it is carried towards the root."`
	Noise          float64        `doors:"queries,service,agents,python" range:"0 to 1" without:"selection=uct|gumbel|flat" help:"Share of Dirichlet noise in the priors of a position's moves."`
	Alpha          float64        `doors:"queries,service,agents,python" range:"0.000001 to 1000000" default:"1" needs:"noise" without:"selection=uct|gumbel|flat" help:"Parameter of the Dirichlet noise: a smaller one is for fewer moves at a time."`
	Forced         float64        `doors:"queries,service,agents,python" name:"forced-playouts" range:"0 to 1000000" without:"selection=uct|gumbel|flat" help:"K, with which puct makes at least sqrt(K * prior * visits) visits of each move that has one (KataGo's forced playouts)."`
	Considered     int            `doors:"queries,service,agents,python" range:"1 to 128" default:"16" needs:"selection=gumbel" help:"Moves of a position that gumbel considers."`
	CVisit         *float64       `doors:"queries,service,agents,python" range:"0 to 1000000" needs:"selection=gumbel" help:"c_visit of gumbel, whose values weigh (c_visit + the most visits of a move) * c_scale against the logarithms of the priors. Default: ${cVisit}."`
	CScale         *float64       `doors:"queries,service,agents,python" range:"0 to 1000000" needs:"selection=gumbel" help:"c_scale of gumbel, for values from 0 (lost) to 1 (won). Default: ${cScale}."`
	Rescale        bool           `doors:"queries,service,agents,python" default:"false" needs:"selection=gumbel" help:"Let the least value of a position's moves be 0 and the largest 1, as mctx does (with a c_scale of 0.1)."`
	GumbelScale    *float64       `doors:"queries,service,agents,python" range:"0 to 1000000" needs:"selection=gumbel" help:"Factor of gumbel's noise, which chooses the considered moves. With 0 they are the likeliest. Default: ${gumbelScale}."`
}

// Priors is what puct makes of a network's policy. Its zero value is the default, which depends on
// the network.
type Priors string

// Search is what a caller chooses of a search. Callers that choose the same get the same answers,
// whichever command, service or language they come from. Its tags:
//
//	doors    who may set it, beside the command line: queries are the lines of evald analyze,
//	         service the parameters of a request, agents the keys of an agent, python the arguments
//	range    of a number, in the units of the field
//	default  as text; none: what the help says
//	aliases  other names, of the field's literature
//	help     for all doors; ${enum} are the choices, and Values has other names
//	choices  in place of enum, which needs a default
//	without  flags with which it does nothing, as of all commands
type Search struct {
	Visits int `doors:"queries,service,agents,python" range:"1 to 1073741824" default:"800" help:"Visits of each position's root."`
	How
	Batch int    `doors:"python" range:"1 to 1048576" default:"256" help:"Leaves of all positions that are evaluated together. It changes no answer."`
	Seed  uint64 `doors:"queries,service,agents,python" needs:"selection=uct|gumbel|flat,noise" help:"Random seed of uct, gumbel and flat, and of noise."`
}

// Config returns the configuration of the trees of this search with a backend. They have room for
// all visits. What the caller does not choose, the backend's attributes decide: its own constants,
// and whether its network is searched plainly.
func (s Search) Config(b eval.Backend) mcts.Config {
	c, plain := mcts.DefaultConfig(s.Selection).For(b), b.Attributes().Plain || s.Selection == mcts.Flat
	c.Visits, c.MaxNodes, c.Seed = s.Visits, 0, s.Seed
	c.C, c.Discount, c.Alpha, c.Moves = cmp.Or(s.Explore, c.C), cmp.Or(s.Discount, c.Discount), cmp.Or(s.Alpha, c.Alpha), cmp.Or(s.Considered, c.Moves)
	c.Noise, c.ForcedPlayouts, c.Rescale = s.Noise, s.Forced, s.Rescale
	c.FPU, c.CVisit, c.CScale, c.GumbelScale = or(s.FPU, c.FPU), or(s.CVisit, c.CVisit), or(s.CScale, c.CScale), or(s.GumbelScale, c.GumbelScale)
	c.FlatPriors = cmp.Or(s.Priors, usualPriors[plain]) == usualPriors[false]
	c.Transpositions = or(s.Transpositions, !plain)
	c.Plain = !or(s.Lookahead, !plain || s.Exact > 0)
	if c.Exact = s.Exact; c.Exact == 0 && !c.Plain && !plain {
		c.Exact = solver.ByBoard
	}
	if !c.Plain {
		c.RootNodes = mcts.RootNodesFor(s.Visits)
	}
	return c
}

// Filled returns the search with the numbers that it leaves to a backend or to the defaults: the same search with that backend.
func (s Search) Filled(b eval.Backend) Search {
	c := s.Config(b)
	s.Explore, s.Discount, s.Alpha, s.Considered = c.C, c.Discount, c.Alpha, c.Moves
	s.FPU, s.CVisit, s.CScale, s.GumbelScale = &c.FPU, &c.CVisit, &c.CScale, &c.GumbelScale
	return s
}

// Evaluator returns an evaluator that answers each position with this search, whose leaves e answers.
func (s Search) Evaluator(e *eval.Evaluator) (*eval.Evaluator, error) {
	return mcts.NewEvaluator(e, s.Config(e.Backend()), mcts.Limits{Visits: s.Visits, Batch: 256, Leaves: s.Leaves})
}

// Subject is an evaluator with the name of its row in a table.
type Subject struct {
	Name string
	*eval.Evaluator
}

// Subjects returns what is measured of an evaluator: for each number of visits the search, and for 0
// the policy, which with raw is the network's own, without the rules.
func (s Search) Subjects(e *eval.Evaluator, name string, visits []int, raw bool) (all []Subject, err error) {
	for _, s.Visits = range visits {
		switch {
		case s.Visits > 0:
			search, err := s.Evaluator(e)
			if err != nil {
				return nil, fmt.Errorf("visits %d: %w", s.Visits, err)
			}
			all = append(all, Subject{name + ", " + s.Label(e.Backend()), search})
		case raw:
			all = append(all, Subject{name + ", raw", e.Raw()})
		default:
			all = append(all, Subject{name, e})
		}
	}
	return all, nil
}

// Helped is the search as it is made with networks of evald's own formats, whatever the network: with
// all that finds a better move. It is for players, which judge no network.
func (h How) Helped() How {
	yes := true
	h.Exact, h.Priors = cmp.Or(h.Exact, solver.ByBoard), cmp.Or(h.Priors, usualPriors[false])
	h.Lookahead, h.Transpositions = cmp.Or(h.Lookahead, &yes), cmp.Or(h.Transpositions, &yes)
	return h
}

var usualPriors = map[bool]Priors{false: "flat", true: "policy"} // by Attributes.Plain

func or[T any](chosen *T, usual T) T {
	if chosen != nil {
		return *chosen
	}
	return usual
}

// Rule describes the search with a backend on a board, including what the backend decides: "puct of 64
// visits, plain", or "puct of 800 visits, lookahead, exact 1000, flat priors, transpositions".
func (s Search) Rule(b eval.Backend, on *game.Board) string {
	c, text := s.Config(b), s.text(help...)
	for _, aid := range []struct {
		name string
		on   bool
	}{
		{"plain", withoutHelp(c)},
		{"lookahead", !c.Plain},
		{fmt.Sprintf("exact %v", c.Exact.On(on)), c.Exact.On(on) > 0},
		{"flat priors", c.FlatPriors && s.Selection == mcts.PUCT},
		{"transpositions", c.Transpositions && s.Selection.Shares()},
	} {
		if aid.on {
			text += ", " + aid.name
		}
	}
	return text
}

// withoutHelp reports whether none of what finds better moves is on: the search is plain in every way.
func withoutHelp(c mcts.Config) bool {
	return c.Plain && !c.Transpositions && (!c.FlatPriors || c.Selection != mcts.PUCT)
}

// help are the parameters of what finds better moves.
var help = []string{"lookahead", "exact", "priors", "transpositions"}

// Label is String, with "plain" in place of the parameters that make a search plain.
func (s Search) Label(b eval.Backend) string {
	if withoutHelp(s.Config(b)) {
		return s.text(help...) + ", plain"
	}
	return s.String()
}

// String describes the search in a few words: "puct of 800 visits, explore 2".
func (s Search) String() string { return s.text() }

func (s Search) text(without ...string) string {
	text := fmt.Sprintf("%v of %d visits", s.Selection, s.Visits)
	for _, f := range fields {
		if value := f.Text(&s); value != "" && value != f.Default && !slices.Contains(without, f.Name) && !slices.Contains([]string{"visits", "selection", "batch"}, f.Name) {
			text += ", " + f.Name + " " + value
		}
	}
	return text
}
