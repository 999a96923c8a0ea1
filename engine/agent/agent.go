// Package agent contains the players, from random to the exact solver, behind one interface. A Spec describes a player.
//
// Read the files in this order:
//
//	agent.go                agents, and the only list of them
//	spec.go, numbers.go     an agent's parameters as text, and those that are numbers
//	simple.go, negamax.go   agents without a tree: random, flat, policy; Kaggle's built-in agent
//	tree.go                 mcts, gumbel and the agents uct
//	alphabeta.go, order.go  alpha-beta, and the order of its moves
//	exact.go                the solver
//	human.go                agents that make people's mistakes
//
// # Decisions
//
// A search that is limited by time has TimedLeaves pending leaves and keeps its tree from move to move: only strength per second counts,
// because its answers cannot be repeated anyway. A search that is limited by visits has 1 pending leaf and starts each move with an empty
// tree.
package agent

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/evald/evald/engine/ask"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/heuristic"
	"github.com/evald/evald/engine/mcts"
	"github.com/evald/evald/engine/mcts/opening"
	"github.com/evald/evald/engine/short"
	"github.com/evald/evald/engine/solver"
	"github.com/evald/evald/engine/solver/book"
)

// Agent chooses moves. It is not safe for concurrent use; each game has its own agents.
type Agent interface {
	// Move returns a legal action, 0 up to b.Actions(), for the side to move; the game must not be over. The agent obeys its own time
	// limit. If ctx ends earlier, the error wraps ctx.Err().
	Move(ctx context.Context, b *game.Board, p game.Position) (action int, err error)
}

// Shared is the resources that the agents of a program share. Every field is optional. The functions are called concurrently.
type Shared struct {
	Models   func(name string) (*eval.Evaluator, error) // returns the evaluator of a network by its name or path; "" is the default network
	Chosen   func(name string) (*eval.Evaluator, error) // is Models for Spec.Chosen; nil: Models
	Books    func(path string) (*opening.Book, error)   // returns an opening book by its path
	Searched func(*mcts.Tree)                           // is called with the tree of each move, to extend a book
	Exact    func(path string) (*book.Book, error)      // returns a book of exact scores by its path
	Ships    func(game.Rules) solver.Book               // returns the default book of exact scores for a game; nil if it has none
	Solved   *Solved                                    // results of all solvers so far; nil if the solvers share none
	Memory   int64                                      // maximum size of an agent's tree or table in bytes; 0 is the agent's own maximum, at most 512 MiB

	// FastModel is the network of a search that has less than FastBelow per move and names no network; "" disables this.
	FastModel string
	FastBelow time.Duration
}

// Supports returns nil if an agent plays on a board, and otherwise an error that names its network.
// Callers ask before a game begins; a move on such a board is the same error.
func Supports(a Agent, b *game.Board) error {
	if s, ok := a.(interface{ Supports(*game.Board) error }); ok {
		return s.Supports(b)
	}
	return nil
}

// Choose sets FastModel in the Spec of a search that has less than FastBelow per move and names no network. It returns all other Specs
// unchanged. New calls it too; a caller that displays a Spec calls Choose first.
func (s Shared) Choose(spec Spec) Spec {
	if spec.Name == "mcts" && spec.Model == "" && spec.Visits == 0 && spec.Time > 0 && spec.Time < s.FastBelow {
		spec.Model, spec.Chosen = s.FastModel, true
	}
	return spec
}

// kind is an agent's constructor and defaults.
type kind struct {
	defaults Spec
	keys     []string
	make     func(Spec, Shared) (Agent, error)
	about    string
}

// Default limits of searching agents.
const (
	defaultTime  = 2 * time.Second // Kaggle's act timeout
	defaultGames = 500
)

// searching returns the keys of an agent that searches: its first ones, those of searches, its own,
// and those of its book and its random numbers.
func searching(rule mcts.Selection, keys []string, own ...string) []string {
	for _, f := range ask.Fields(ask.Agents) {
		if f.Name != "visits" && f.Name != "seed" && f.Applies(rule) {
			keys = append(keys, f.Name)
		}
	}
	return slices.Concat(keys, own, []string{"book", "seed"})
}

// kinds is the only list of agents: each name with its defaults and keys. To add an agent, write it in its own file and add a line here.
// The agents uct-NAME come from the catalog of heuristics.
var kinds = withHeuristics(map[string]kind{
	"random":               {Spec{}, []string{"seed"}, newRandom, "any legal move"},
	"negamax":              {Spec{}, []string{"seed"}, newNegamax, "Kaggle's built-in agent, four plies deep"},
	"flat":                 {Spec{Games: defaultGames}, []string{"sims", "time", "seed"}, newFlat, "random games after each move"},
	"uct":                  {Spec{Search: ask.Search{Visits: 5000}}, searching(mcts.UCT, []string{"sims", "time"}), newUCT, "UCT, a random game at each leaf"},
	"alphabeta-bitsquares": {Spec{Time: defaultTime, Heuristic: heuristic.Usual(eval.Bitsquares)}, []string{"time", "power"}, newAlphaBeta, "alpha-beta, bitsquares at the horizon, with power=1.75"},
	"policy":               {Spec{}, []string{"model", "exact"}, newPolicy, "the likeliest move of a network or heuristic, with exact the likeliest that is proved to keep the result; without model= as mcts"},
	"human":                {Spec{}, []string{"model", "ahead", "threats", "diagonals", "temperature", "seed"}, newHuman, "looks ahead= stones ahead, overlooks the threats= of the other side and diagonals= with these probabilities, and draws one of the moves left by the policy of a network or heuristic, to the power 1/temperature; without model= as mcts"},
	"mcts":                 {Spec{Search: ask.Search{Visits: ask.Usual().Visits}}, searching(mcts.PUCT, []string{"model", "visits", "time"}), newMCTS, "PUCT with a network or heuristic; without model= the networks that ship, on CPUs the fast one if time is short, or bitsquares on boards that they do not know"},
	"gumbel":               {Spec{Search: ask.Search{Visits: ask.Usual().Visits, How: ask.How{Selection: mcts.Gumbel}}}, searching(mcts.Gumbel, []string{"model", "visits"}), newMCTS, "Gumbel AlphaZero's search with a network or heuristic, for few visits; without model= as mcts"},
	"solver":               {Spec{}, []string{"time", "model", "exact", "random", "book", "seed"}, newSolver, "the exact best move, or with random=true any of those; if half of its time is not enough, or more than 42 cells are empty, mcts plays"},
})

// withHeuristics adds an agent uct-NAME for each heuristic that can have one.
func withHeuristics(kinds map[string]kind) map[string]kind {
	for _, h := range heuristic.All() {
		if h.UCT == "" {
			continue
		}
		about, usual := "UCT, "+h.UCT+" at each leaf", heuristic.Usual(h.Source)
		for i, p := range h.Parameters {
			about += fmt.Sprintf("%s %s=%v", []string{", with", " and"}[min(i, 1)], p.Key, p.Usual)
		}
		kinds["uct-"+h.Source.String()] = kind{
			Spec{Time: defaultTime, Heuristic: usual},
			searching(mcts.UCT, []string{"sims", "time"}, usual.Keys()...),
			newUCTHeuristic, about,
		}
	}
	return kinds
}

// Names lists the agents.
func Names() []string { return slices.Sorted(maps.Keys(kinds)) }

// Description describes an agent for users.
type Description struct {
	Name  string `json:"name"`
	About string `json:"about"` // in a few words
	Spec  Spec   `json:"spec"`  // with its parameters and their defaults
}

// Descriptions lists the agents.
func Descriptions() []Description {
	var all []Description
	for _, name := range Names() {
		spec := kinds[name].defaults
		spec.Name = name
		all = append(all, Description{name, kinds[name].about, spec})
	}
	return all
}

// Describe returns a line for each agent, with its parameters and their defaults.
func Describe() string {
	var s strings.Builder
	for _, d := range Descriptions() {
		fmt.Fprintf(&s, "%-22s %s (%s)\n", d.Name, d.About, d.Spec)
	}
	return s.String()
}

// New creates an agent. It returns an error if the name is unknown, if a searching agent has no limit, or if a model or a book is not
// available.
func New(s Spec, shared Shared) (Agent, error) {
	k, known := kinds[s.Name]
	if !known {
		return nil, fmt.Errorf("agent %s: there are %s", short.Quote(s.Name), strings.Join(Names(), ", "))
	}
	if k.defaults.limited() && !s.limited() {
		return nil, fmt.Errorf("agent %s: has no limit: give the visits, sims, games or time of a move", s.Name)
	}
	if s.Heuristic == (heuristic.Name{}) {
		s.Heuristic = k.defaults.Heuristic
	}
	return k.make(shared.Choose(s), shared)
}
