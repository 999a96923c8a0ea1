package heuristic

import (
	"fmt"
	"slices"

	"github.com/evald/evald/engine/eval"
)

// Entry describes one heuristic.
type Entry struct {
	Source     eval.Source // its name, in flags, answers and records
	UCT        string      // description in the help of the agent uct-NAME; empty: there is no such agent
	Parameters []Parameter // which names and agents may set

	with func(x values) eval.Backend // the heuristic with values of its parameters
}

// Parameter is a number of a heuristic that a name may set.
type Parameter struct {
	Key                string
	Usual, Least, Most float64
	Whole              bool // whole numbers alone
}

// values are those of an Entry's Parameters, in their order. The others are 0.
type values [2]float64

// catalog is the only list of heuristics. Flags, help texts, completion, agents, the service, records, measurements and tests read it. To
// add a heuristic, write it in its own file and add a line here.
var catalog = []Entry{
	{eval.Bitsquares, "bitsquares", []Parameter{{"power", DefaultPower, 0, 8, false}, width(7)}, func(x values) eval.Backend { return scored(NewBitsquares(x[0]), x[1], eval.Bitsquares) }},
	{eval.Gameovers, "gameovers", []Parameter{width(6)}, func(x values) eval.Backend { return scored(Gameovers{}, x[0], eval.Gameovers) }},
	{eval.OddEven, "odd-even", []Parameter{width(6)}, func(x values) eval.Backend { return scored(NewOddEven(), x[0], eval.OddEven) }},
	{eval.Rollout, "", []Parameter{{"games", 100, 1, 1000, true}}, func(x values) eval.Backend { return Rollout{Games: int(x[0])} }},
	{eval.Uniform, "", nil, func(values) eval.Backend { return Uniform{} }},
}

// width is the parameter of a Scored: the width of its sigmoid, which is also the temperature of its policy.
func width(usual float64) Parameter { return Parameter{"width", usual, 0.01, 1000, false} }

// New returns the heuristic with its published parameters.
func (e Entry) New() eval.Backend { return Usual(e.Source).New() }

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
