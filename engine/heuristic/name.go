package heuristic

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/short"
)

// Parameter is the number of a heuristic that a name may set.
type Parameter struct {
	Key                string
	Usual, Least, Most float64
	Whole              bool                         // whole numbers alone
	New                func(x float64) eval.Backend // the heuristic with another value
}

// Name is a heuristic with the value of its parameter: bitsquares, bitsquares:power=1.75.
type Name struct {
	Source eval.Source
	value  float64 // 0 for heuristics without a parameter
}

// Parse parses NAME or NAME:KEY=VALUE. ok reports whether the text begins with a heuristic's name; if not, it means something else. The
// error is about the parameter.
func Parse(text string) (n Name, ok bool, err error) {
	name, set, given := strings.Cut(text, ":")
	for _, e := range catalog {
		if e.Source.String() != name {
			continue
		}
		n, err := e.parse(set, given)
		if err != nil {
			err = fmt.Errorf("heuristic %s: %w", short.Quote(text), err)
		}
		return n, true, err
	}
	return Name{}, false, nil
}

func (e Entry) parse(set string, given bool) (Name, error) {
	p := e.Parameter
	if p == nil {
		if given {
			return Name{}, fmt.Errorf("%s has no parameters", e.Source)
		}
		return Name{Source: e.Source}, nil
	}
	if !given {
		return Name{e.Source, p.Usual}, nil
	}
	key, value, _ := strings.Cut(set, "=")
	if key != p.Key {
		return Name{}, fmt.Errorf("%s has no %s, but %s", e.Source, short.Quote(key), p.Key)
	}
	x, err := strconv.ParseFloat(value, 64)
	if err != nil || !(x >= p.Least && x <= p.Most) || p.Whole && x != math.Trunc(x) {
		return Name{}, fmt.Errorf("%s is %s, want a %s from %g to %g", key, short.Quote(value), map[bool]string{true: "whole number", false: "number"}[p.Whole], p.Least, p.Most)
	}
	return Name{e.Source, math.Abs(x)}, nil // -0 becomes 0
}

// String is the form that Parse reads, without a parameter that has its usual value.
func (n Name) String() string {
	if p := n.entry().Parameter; p != nil && n.value != p.Usual {
		return fmt.Sprintf("%s:%s=%v", n.Source, p.Key, n.value)
	}
	return n.Source.String()
}

// New returns the heuristic.
func (n Name) New() eval.Backend {
	e := n.entry()
	if e.Parameter == nil {
		return e.New()
	}
	return e.Parameter.New(n.value)
}

func (n Name) entry() Entry {
	for _, e := range catalog {
		if e.Source == n.Source {
			return e
		}
	}
	panic(fmt.Sprintf("heuristic: %q is not of the catalog", n.Source)) // Parse makes no such name
}

// Is reports whether a text is the name of a heuristic, with or without a parameter.
func Is(text string) bool {
	_, ok, err := Parse(text)
	return ok && err == nil
}
