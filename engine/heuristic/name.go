package heuristic

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/short"
)

// Name is a heuristic with the values of its parameters: bitsquares, bitsquares:power=2:width=6. Colons separate parameters, because in
// the text of an agent commas do: mcts:model=bitsquares:power=2:width=6,visits=50.
type Name struct {
	Source eval.Source
	values values
}

// Usual is the name of a heuristic with its published parameters.
func Usual(source eval.Source) Name {
	n := Name{Source: source}
	for i, p := range n.entry().Parameters {
		n.values[i] = p.Usual
	}
	return n
}

// Parse parses NAME or NAME:KEY=VALUE:KEY=VALUE. ok reports whether the text begins with a heuristic's name; if not, it means something
// else. The error is about the parameters.
func Parse(text string) (n Name, ok bool, err error) {
	parts := strings.Split(text, ":")
	source, ok := Named(parts[0])
	if !ok {
		return Name{}, false, nil
	}
	n = Usual(source)
	var seen []string
	for _, part := range parts[1:] {
		key, value, _ := strings.Cut(part, "=")
		if err := n.read(key, value, seen); err != nil {
			return Name{}, true, fmt.Errorf("heuristic %s: %w", short.Quote(text), err)
		}
		seen = append(seen, key)
	}
	return n, true, nil
}

// read sets a parameter that is not among those seen before.
func (n *Name) read(key, value string, seen []string) error {
	switch keys := n.Keys(); {
	case len(keys) == 0:
		return fmt.Errorf("%s has no parameters", n.Source)
	case !slices.Contains(keys, key):
		return fmt.Errorf("%s has no %s, but %s", n.Source, short.Quote(key), strings.Join(keys, ", "))
	case slices.Contains(seen, key):
		return fmt.Errorf("%s is given twice", key)
	}
	err := n.Set(key, value)
	if err != nil {
		err = fmt.Errorf("%s is %s, %w", key, short.Quote(value), err)
	}
	if err != nil && strings.Contains(value, ",") {
		err = fmt.Errorf("%w; parameters of a heuristic are separated by colons", err)
	}
	return err
}

// Set sets a parameter, one of Keys, to a value in text. The error says what the value must be.
func (n *Name) Set(key, value string) error {
	i, p := n.parameter(key)
	x, err := strconv.ParseFloat(value, 64)
	if err != nil || !(x >= p.Least && x <= p.Most) || p.Whole && x != math.Trunc(x) {
		return fmt.Errorf("want a %s from %g to %g", map[bool]string{true: "whole number", false: "number"}[p.Whole], p.Least, p.Most)
	}
	n.values[i] = math.Abs(x) // -0 becomes 0
	return nil
}

// Keys are the keys of the heuristic's parameters. The zero Name has none.
func (n Name) Keys() (keys []string) {
	for _, p := range n.Parameters() {
		keys = append(keys, p.Key)
	}
	return keys
}

// Parameters are those of the heuristic. The zero Name has none.
func (n Name) Parameters() []Parameter {
	if n == (Name{}) {
		return nil
	}
	return n.entry().Parameters
}

// Value is the value of a parameter, one of Keys.
func (n Name) Value(key string) float64 {
	i, _ := n.parameter(key)
	return n.values[i]
}

func (n Name) parameter(key string) (int, Parameter) {
	all := n.Parameters()
	i := slices.IndexFunc(all, func(p Parameter) bool { return p.Key == key })
	return i, all[i] // panics if key is none of Keys
}

// String is the form that Parse reads, without parameters that have their usual values.
func (n Name) String() string {
	text := n.Source.String()
	for i, p := range n.entry().Parameters {
		if n.values[i] != p.Usual {
			text += fmt.Sprintf(":%s=%v", p.Key, n.values[i])
		}
	}
	return text
}

// New returns the heuristic.
func (n Name) New() eval.Backend { return n.entry().with(n.values) }

func (n Name) entry() Entry {
	for _, e := range catalog {
		if e.Source == n.Source {
			return e
		}
	}
	panic(fmt.Sprintf("heuristic: %q is not of the catalog", n.Source)) // Parse makes no such name
}

// Is reports whether a text is the name of a heuristic, with or without parameters.
func Is(text string) bool {
	_, ok, err := Parse(text)
	return ok && err == nil
}
