package agent

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/evald/evald/engine/ask"
	"github.com/evald/evald/engine/heuristic"
	"github.com/evald/evald/engine/short"
	"github.com/evald/evald/engine/solver"
)

// Spec is the name of an agent and its parameters. Parse reads one from a user's text; code writes it as a literal. Only Parse fills in
// defaults, so a literal for a searching agent must set Visits, Games or Time.
type Spec struct {
	Name string

	// Search has, of mcts and uct, the visits per move (0: limited by Time), the leaves (0: 1 with visits, TimedLeaves without), and what
	// else a search has. Exact 0 means none for uct, and solver.ByBoard for the others; it is also that of solver with a time, and for
	// policy the maximum number of nodes of all probes of a move together, up to solver.MostMoveNodes, 0 for none. Seed is that of all agents.
	ask.Search

	Games  int           // flat: random games for each legal move
	Time   time.Duration // per move; 0: limited by Visits or Games
	Model  string        // mcts, policy, human, solver with a time: a network or a heuristic; "" is the default of Shared.Models
	Chosen bool          // the program has chosen Model, so on boards that it does not support another network may play; not part of the text
	Book   string        // path of a tree's opening book; solver: path of its book of exact scores
	Random bool          // solver: plays any of the best moves, by Seed

	Heuristic heuristic.Name // uct-NAME, alphabeta-bitsquares: the heuristic with its parameters; zero: with the published ones

	Ahead       int     // human: number of stones that it looks ahead, including its own next stone
	Threats     float64 // human: probability that it ignores the other side's threats at a move
	Diagonals   float64 // human: probability that it sees no diagonals at a move
	Temperature float64 // human: it draws moves by the model's policy to the power 1/Temperature; 0 plays the likeliest move
}

func (s Spec) limited() bool { return s.Visits > 0 || s.Games > 0 || s.Time > 0 }

// Deterministic returns nil if the agent always plays the same move in the same position. Otherwise the error gives the reason.
func (s Spec) Deterministic() error {
	why := ""
	switch {
	case s.Name == "random", s.Name == "negamax", s.Name == "flat", s.Random:
		why = "chooses at random"
	case s.Time > 0:
		why = "has a time for each move, so its moves depend on the machine: give it visits or sims instead"
	default:
		return nil
	}
	return fmt.Errorf("agent %s %s", s, why)
}

// Tree reports whether the agent searches a tree, which can play by an opening book and extend one.
func (s Spec) Tree() bool {
	return s.Name == "mcts" || s.Name == "gumbel" || s.Name == "uct" || strings.HasPrefix(s.Name, "uct-")
}

// Symmetric reports whether the agent plays mirrored moves in mirrored positions.
func (s Spec) Symmetric() bool { return s.Name == "policy" }

// Parse parses name or name:key=value,key=value, such as "uct-bitsquares:time=200ms". The key visits removes the default time, and the key
// time removes the default visits.
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

// maxTime is the maximum of a move's time, maxAhead and maxTemperature are those of human.
const (
	maxTime = 7 * 24 * time.Hour

	maxAhead       = 128 // no board has more cells
	maxTemperature = 1000
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
	case "ahead":
		if s.Ahead, err = strconv.Atoi(value); err != nil || s.Ahead < 0 || s.Ahead > maxAhead {
			return fmt.Errorf("want a whole number from 0 to %d", maxAhead)
		}
	case "threats":
		s.Threats, err = upTo(value, 1)
	case "diagonals":
		s.Diagonals, err = upTo(value, 1)
	case "temperature":
		s.Temperature, err = upTo(value, maxTemperature)
	default:
		if slices.Contains(s.Heuristic.Keys(), key) {
			return s.Heuristic.Set(key, value)
		}
		if s.Name == "policy" && key == "exact" {
			s.Exact, err = solver.ParseNodes(value, solver.MoveNodes, solver.MostMoveNodes)
			return err
		}
		if f := parameter(key); !f.SetText(&s.Search, value) {
			return errors.New("want " + f.Must())
		}
		if s.Name == "flat" && key == "sims" {
			s.Games, s.Visits = s.Visits, 0
		}
	}
	return err
}

// parameter is the parameter of searches that a key sets.
func parameter(key string) ask.Field {
	if key == "sims" {
		key = "visits"
	}
	f, _ := ask.Named(key, ask.Agents) // cannot fail: kinds has no other keys
	return f
}

// upTo parses a number from 0 to most.
func upTo(value string, most float64) (float64, error) {
	x, err := strconv.ParseFloat(value, 64)
	if err != nil || !(x >= 0 && x <= most) {
		return 0, fmt.Errorf("want a number from 0 to %v", most)
	}
	return math.Abs(x), nil // -0 becomes 0
}

// String is the form that Parse reads, with every parameter apart from those of a heuristic that have their published values.
func (s Spec) String() string {
	values := map[string]any{
		"time": s.Time, "model": s.Model, "book": s.Book, "random": s.Random, "sims": s.Visits + s.Games,
		"ahead": s.Ahead, "threats": s.Threats, "diagonals": s.Diagonals, "temperature": s.Temperature,
	}
	for _, p := range s.Heuristic.Parameters() {
		values[p.Key] = ""
		if x := s.Heuristic.Value(p.Key); x != p.Usual {
			values[p.Key] = fmt.Sprint(x)
		}
	}
	var items []string
	for _, key := range kinds[s.Name].keys {
		value, known := values[key]
		if !known {
			value = parameter(key).Text(&s.Search)
		}
		if !reflect.ValueOf(value).IsZero() {
			items = append(items, fmt.Sprintf("%s=%v", key, value))
		}
	}
	if len(items) == 0 {
		return s.Name
	}
	return s.Name + ":" + strings.Join(items, ",")
}

// MarshalText is String, so that a Spec in JSON looks as users type it.
func (s Spec) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText is Parse.
func (s *Spec) UnmarshalText(text []byte) (err error) {
	*s, err = Parse(string(text))
	return err
}
