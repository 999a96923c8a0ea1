package agent

import (
	"slices"
	"strconv"

	"github.com/evald/evald/engine/ask"
	"github.com/evald/evald/engine/heuristic"
)

// Number is a numeric parameter of an agent.
type Number struct {
	Key         string
	Value       float64 // with which the agent plays
	Least, Most float64 // what Parse accepts
	Whole       bool    // whole numbers alone
}

// Numbers returns the numeric parameters of an agent that change how it plays, apart from its limits and its seed: its own, those of its
// search, and those of a heuristic that its model names. a is the agent of s; a value that s leaves out is that of its network, or the default.
func Numbers(s Spec, a Agent) (all []Number) {
	search := s.Search
	if a, ok := a.(*searcher); ok {
		search = a.spec.Filled(a.evaluator.Backend())
	}
	own := map[string]Number{
		"ahead": {"", float64(s.Ahead), 0, maxAhead, true}, "threats": {"", s.Threats, 0, 1, false},
		"diagonals": {"", s.Diagonals, 0, 1, false}, "temperature": {"", s.Temperature, 0, maxTemperature, false},
	}
	of := s.Heuristic
	if name, ok, err := heuristic.Parse(s.Model); ok && err == nil {
		of = name
	}
	for _, p := range of.Parameters() {
		own[p.Key] = Number{"", of.Value(p.Key), p.Least, p.Most, p.Whole}
	}
	for _, key := range slices.Concat(kinds[s.Name].keys, modelKeys(s)) {
		n, known := own[key]
		if f := parameter(key); !known && key != "seed" && key != "sims" && key != "visits" && (f.Kind == ask.Number || f.Kind == ask.Whole) {
			n.Value, n.Least, n.Most, n.Whole, known = f.Number(&search), f.Least, f.Most, f.Kind == ask.Whole, true
		}
		if n.Key = key; known {
			all = append(all, n)
		}
	}
	return all
}

// modelKeys are the keys of the heuristic that the model of an agent names.
func modelKeys(s Spec) []string {
	name, ok, err := heuristic.Parse(s.Model)
	if !ok || err != nil {
		return nil
	}
	return name.Keys()
}

// With returns the agent with another value of one of its Numbers. The error says what the value must be.
func (s Spec) With(key string, value float64) (Spec, error) {
	text := strconv.FormatFloat(value, 'f', -1, 64)
	if !slices.Contains(modelKeys(s), key) {
		err := s.set(key, text)
		return s, err
	}
	name, _, err := heuristic.Parse(s.Model)
	if err == nil {
		err = name.Set(key, text)
	}
	s.Model = name.String()
	return s, err
}
