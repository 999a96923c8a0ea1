package eval

import (
	"cmp"
	"slices"
)

// Source names the evaluator that answered a row. Replies and training records contain it, so that a heuristic's answer is never taken for
// a network's.
type Source string

// The sources other than heuristics. The zero value marks an unanswered row.
const (
	None     Source = ""
	GPU      Source = "gpu"      // a network, on the GPU
	CPU      Source = "cpu"      // a network, on the CPU
	Fast     Source = "fast"     // a network of pattern tables, on the CPU
	Cached   Source = "cache"    // a network's stored answer
	Function Source = "function" // a network that the caller computes, as a function
	Terminal Source = "terminal" // the rules: the game is over
	Searched Source = "search"   // a tree search on top of another source
	Solved   Source = "solver"   // the exact solver, also in the exact step (Options.Exact)
	Rules    Source = "rules"    // the rules: the next stones decide the game; see rules.go
	Forced   Source = "forced"   // the rules chose the move; the value is an evaluator's, for the position after some forced moves
)

// Sources of a network computed by ONNX Runtime, by provider.
const (
	ORTCUDA     Source = "ort-cuda"
	ORTTensorRT Source = "ort-tensorrt"
	ORT         Source = "ort" // any other provider
	ORTCPU      Source = "ort-cpu"
)

var onnxRuntime = []Source{ORTCUDA, ORTTensorRT, ORT, ORTCPU}

// Heuristics that other packages refer to by name. The catalog of package heuristic lists all heuristics; a new heuristic needs no constant
// here.
const (
	Bitsquares Source = "bitsquares"
	Gameovers  Source = "gameovers"
	OddEven    Source = "oddeven"
	Rollout    Source = "rollout"
	Uniform    Source = "uniform"
)

// ranks lists the sources in display order; heuristics take the place of anyHeuristic.
var ranks = []Source{None, GPU, CPU, Fast, ORTCUDA, ORTTensorRT, ORT, ORTCPU, Function, Cached, Terminal, anyHeuristic, Searched, Solved, Rules, Forced}

const anyHeuristic Source = "heuristic"

// Sources returns all sources of this package except heuristics, None first.
func Sources() []Source {
	return slices.DeleteFunc(slices.Clone(ranks), func(s Source) bool { return s == anyHeuristic })
}

// String is the name of the source, and "none" for None.
func (s Source) String() string {
	if s == None {
		return "none"
	}
	return string(s)
}

// ParseSource is the inverse of String for the sources of this package; ok is false for any other name, such as a heuristic's.
func ParseSource(name string) (s Source, ok bool) {
	all := Sources()
	i := slices.IndexFunc(all, func(s Source) bool { return s.String() == name })
	if i < 0 {
		return None, false
	}
	return all[i], true
}

// Network reports whether the answer is a network's, possibly from a cache.
func (s Source) Network() bool {
	return s == GPU || s == CPU || s == Fast || s == Function || s == Cached || slices.Contains(onnxRuntime, s)
}

// Heuristic reports whether the answer is a heuristic's: any source that this package does not list.
func (s Source) Heuristic() bool { return rank(s) == rank(anyHeuristic) }

// By returns the name of a heuristic, and the name of the requested model for all other sources.
func (s Source) By(model string) string {
	if s.Heuristic() {
		return s.String()
	}
	return model
}

// Compare orders sources for lists: networks, the end of a game, heuristics by name, searches, the solver, the rules.
func (s Source) Compare(other Source) int {
	return cmp.Or(cmp.Compare(rank(s), rank(other)), cmp.Compare(s, other))
}

func rank(s Source) int {
	if i := slices.Index(ranks, s); i >= 0 {
		return i
	}
	return slices.Index(ranks, anyHeuristic)
}
