// Package agent holds the players: from random to the exact solver, all behind one interface and one grammar.
//
// # Decisions
//
// Within a time a search has TimedLeaves leaves under way and keeps its tree from move to move: strength a second
// counts there, and nobody can ask for the same answer twice. By visits it has 1 and begins anew at each move.
package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/heuristic"
	"github.com/evald/evald/engine/mcts"
	"github.com/evald/evald/engine/mcts/opening"
	"github.com/evald/evald/engine/short"
	"github.com/evald/evald/engine/solver"
	"github.com/evald/evald/engine/solver/book"
)

// Agent chooses moves. It is not safe for concurrent use; a game has agents of its own.
type Agent interface {
	// Move is a legal action for the side to move; the game must not be over. The agent answers by itself within its
	// time; a ctx that ends earlier is an error that wraps ctx.Err().
	Move(ctx context.Context, b *game.Board, p game.Position) (action int, err error)
}

// Shared is what the agents of a program have in common. The zero value has nothing; its functions are called
// concurrently.
type Shared struct {
	Models   func(name string) (eval.Evaluator, error) // the evaluator of a network, by its name or path; "" is for who names none
	Books    func(path string) (*opening.Book, error)  // an opening book, by its path
	Searched func(*mcts.Tree)                          // hears of the tree of each move, for growing a book
	Exact    func(path string) (*book.Book, error)     // a book of exact scores, by its path
	Ships    func(game.Rules) solver.Book              // the book of exact scores of who names none; nil for none
	Solved   *Solved                                   // what solvers have found, if they share that
	Memory   int64                                     // bytes of an agent's tree or table; 0 is as many as it likes, up to 512 MiB
}

// Spec is an agent in text: a name, and what differs from its defaults.
type Spec struct {
	Name   string
	Visits int           // mcts and uct: visits a move; 0 leaves it to Time
	Leaves int           // mcts and uct: mcts.Limits.Leaves; 0 is 1 where there are Visits, else TimedLeaves
	Games  int           // flat: random games for each legal move
	Time   time.Duration // a move; 0 leaves it to Visits or Games
	Model  string        // mcts and policy; "" leaves it to Shared.Models
	Power  float64       // uct-bitsquares: a line with n stones counts n^Power
	Book   string        // path of the opening book that a tree begins with; solver: of its book of exact scores
	Random bool          // solver: any of the best moves, by Seed
	Seed   uint64
}

// kind is what a name stands for.
type kind struct {
	defaults Spec
	keys     []string
	make     func(Spec, Shared) (Agent, error)
	about    string
}

// The defaults of searching agents.
const (
	defaultTime   = 2 * time.Second // Kaggle's act timeout
	defaultGames  = 500
	defaultVisits = 800
)

var kinds = map[string]kind{
	"random":               {Spec{}, []string{"seed"}, newRandom, "any legal move"},
	"negamax":              {Spec{}, []string{"seed"}, newNegamax, "Kaggle's built-in agent, four plies deep"},
	"flat":                 {Spec{Games: defaultGames}, []string{"sims", "time", "seed"}, newFlat, "random games after each move"},
	"uct":                  {Spec{Visits: 5000}, []string{"sims", "time", "leaves", "book", "seed"}, uctOn(eval.Rollout), "UCT, a random game at each leaf"},
	"uct-bitsquares":       {Spec{Time: defaultTime, Power: heuristic.DefaultPower}, []string{"sims", "time", "leaves", "power", "book", "seed"}, uctOn(eval.Bitsquares), "UCT, bitsquares at each leaf"},
	"uct-gameovers":        {Spec{Time: defaultTime}, []string{"sims", "time", "leaves", "book", "seed"}, uctOn(eval.Gameovers), "UCT, gameovers at each leaf"},
	"uct-oddeven":          {Spec{Time: defaultTime}, []string{"sims", "time", "leaves", "book", "seed"}, uctOn(eval.OddEven), "UCT, odd-even at each leaf"},
	"alphabeta-bitsquares": {Spec{Time: defaultTime}, []string{"time"}, newAlphaBeta, "alpha-beta, bitsquares at the horizon"},
	"policy":               {Spec{}, []string{"model"}, newPolicy, "the likeliest move of a network or heuristic; without model= as mcts"},
	"mcts":                 {Spec{Visits: defaultVisits}, []string{"model", "visits", "time", "leaves", "book", "seed"}, newMCTS, "PUCT with a network or heuristic; without model= the network that ships, or bitsquares on boards that it does not know"},
	"solver":               {Spec{}, []string{"time", "random", "book", "seed"}, newSolver, "the exact best move, or with random=true any of those; where half of its time is not enough, uct-bitsquares with the rest"},
}

// Names lists the agents.
func Names() []string {
	var names []string
	for name := range kinds {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Describe is a line for people on each agent, with its parameters and their defaults.
func Describe() string {
	var s strings.Builder
	for _, name := range Names() {
		k := kinds[name]
		spec := k.defaults
		spec.Name = name
		fmt.Fprintf(&s, "%-22s %s (%s)\n", name, k.about, spec)
	}
	return s.String()
}

// Parse reads name or name:key=value,key=value, such as "uct-bitsquares:time=200ms". A key of visits unsets the
// default time, and one of time the default visits.
func Parse(text string) (Spec, error) {
	name, list, found := strings.Cut(text, ":")
	k, known := kinds[name]
	if !known {
		return Spec{}, fmt.Errorf("agent %s: there are %s", short.Quote(text), strings.Join(Names(), ", "))
	}
	s := k.defaults
	s.Name = name
	if !found {
		return s, nil
	}
	seen := map[string]bool{}
	for _, item := range strings.Split(list, ",") {
		key, value, _ := strings.Cut(item, "=")
		if !slices.Contains(k.keys, key) {
			return Spec{}, fmt.Errorf("agent %s: %s has no %s, but %s", short.Quote(text), name, short.Quote(key), strings.Join(k.keys, ", "))
		}
		if seen[key] {
			return Spec{}, fmt.Errorf("agent %s: %s is given twice", short.Quote(text), key)
		}
		seen[key] = true
		if err := s.set(key, value); err != nil {
			return Spec{}, fmt.Errorf("agent %s: %s is %s, %w", short.Quote(text), key, short.Quote(value), err)
		}
	}
	counted := seen["visits"] || seen["sims"]
	switch {
	case counted && !seen["time"]:
		s.Time = 0
	case seen["time"] && !counted:
		s.Visits, s.Games = 0, 0
	}
	return s, nil
}

// maxCount and maxTime bound what one move may ask for, maxPower what a line of stones may weigh.
const (
	maxCount = 1 << 30
	maxTime  = 7 * 24 * time.Hour
	maxPower = 8
)

func (s *Spec) set(key, value string) (err error) {
	switch key {
	case "time":
		s.Time, err = time.ParseDuration(value)
		if err != nil || s.Time <= 0 {
			return errors.New("want a duration such as 200ms")
		}
		if s.Time > maxTime {
			return fmt.Errorf("want at most %v", maxTime)
		}
	case "seed":
		if s.Seed, err = strconv.ParseUint(value, 10, 64); err != nil {
			return errors.New("want a whole number")
		}
	case "model":
		if s.Model = value; value == "" {
			return errors.New("want a name or a path")
		}
	case "book":
		if s.Book = value; value == "" {
			return errors.New("want a path")
		}
	case "random":
		if s.Random, err = strconv.ParseBool(value); err != nil {
			return errors.New("want true or false")
		}
	case "power":
		if s.Power, err = strconv.ParseFloat(value, 64); err != nil || !(s.Power >= 0 && s.Power <= maxPower) {
			return fmt.Errorf("want a number from 0 to %d", maxPower)
		}
	case "leaves":
		if s.Leaves, err = strconv.Atoi(value); err != nil || s.Leaves < 1 || s.Leaves > mcts.MaxLeaves {
			return fmt.Errorf("want a whole number from 1 to %d", mcts.MaxLeaves)
		}
	default:
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 || n > maxCount {
			return fmt.Errorf("want a whole number from 1 to %d", maxCount)
		}
		if s.Name == "flat" {
			s.Games = n
		} else {
			s.Visits = n
		}
	}
	return nil
}

// String is the spec as Parse reads it, with every parameter.
func (s Spec) String() string {
	var items []string
	for _, key := range kinds[s.Name].keys {
		value := ""
		switch key {
		case "time":
			if s.Time > 0 {
				value = s.Time.String()
			}
		case "seed":
			if s.Seed > 0 {
				value = strconv.FormatUint(s.Seed, 10)
			}
		case "leaves":
			if s.Leaves > 0 {
				value = strconv.Itoa(s.Leaves)
			}
		case "model":
			value = s.Model
		case "book":
			value = s.Book
		case "random":
			if s.Random {
				value = "true"
			}
		case "power":
			if s.Power != kinds[s.Name].defaults.Power {
				value = strconv.FormatFloat(s.Power, 'g', -1, 64)
			}
		default:
			if n := s.Visits + s.Games; n > 0 {
				value = strconv.Itoa(n)
			}
		}
		if value != "" {
			items = append(items, key+"="+value)
		}
	}
	if len(items) == 0 {
		return s.Name
	}
	return s.Name + ":" + strings.Join(items, ",")
}

// New makes the agent.
func New(s Spec, shared Shared) (Agent, error) {
	k, known := kinds[s.Name]
	if !known {
		return nil, fmt.Errorf("agent %s: there are %s", short.Quote(s.Name), strings.Join(Names(), ", "))
	}
	return k.make(s, shared)
}
