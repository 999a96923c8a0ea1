package heuristic

import (
	"fmt"
	"slices"

	"github.com/evald/evald/engine/eval"
)

// Entry describes one heuristic.
type Entry struct {
	Source eval.Source         // its name, in flags, answers and records
	UCT    string              // description in the help of the agent uct-NAME; empty: there is no such agent
	New    func() eval.Backend // with its published parameters

	Parameter *Parameter // the one that names may set, or nil
}

// catalog is the only list of heuristics. Flags, help texts, completion, agents, the service, records, measurements and tests read it. To
// add a heuristic, write it in its own file and add a line here.
var catalog = []Entry{
	{eval.Bitsquares, "bitsquares", func() eval.Backend { return WithPower(DefaultPower) }, &Parameter{"power", DefaultPower, 0, MaxPower, false, WithPower}},
	{eval.Gameovers, "gameovers", func() eval.Backend { return &Scored{Gameovers{}, 6, 6, eval.Gameovers} }, nil},
	{eval.OddEven, "odd-even", func() eval.Backend { return &Scored{NewOddEven(), 6, 6, eval.OddEven} }, nil},
	{eval.Rollout, "", func() eval.Backend { return Rollout{Games: usualGames} }, &Parameter{"games", usualGames, 1, 1000, true, func(n float64) eval.Backend { return Rollout{Games: int(n)} }}},
	{eval.Uniform, "", func() eval.Backend { return Uniform{} }, nil},
}

// usualGames is the number of games that rollout plays for a position.
const usualGames = 100

// MaxPower is the maximum of bitsquares' exponent.
const MaxPower = 8

// All returns the heuristics in display order.
func All() []Entry { return slices.Clone(catalog) }

// Names are the names of all heuristics, in the same order.
func Names() []string {
	names := make([]string, len(catalog))
	for i, e := range catalog {
		names[i] = e.Source.String()
	}
	return names
}

// Named returns the source of the heuristic with that name.
func Named(name string) (source eval.Source, ok bool) {
	source = eval.Source(name)
	return source, slices.ContainsFunc(catalog, func(e Entry) bool { return e.Source == source })
}

// ParseSource returns the source with that name: a heuristic, or one of package eval.
func ParseSource(name string) (source eval.Source, ok bool) {
	if source, ok = Named(name); ok {
		return source, true
	}
	return eval.ParseSource(name)
}

// New returns the evaluator of a heuristic with its published parameters. If source is not a heuristic, the error contains it.
func New(source eval.Source) (*eval.Evaluator, error) {
	for _, e := range catalog {
		if e.Source == source {
			return eval.New(e.New(), eval.Options{}), nil
		}
	}
	return nil, fmt.Errorf("heuristic: there is no heuristic %q", source)
}
