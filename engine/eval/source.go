package eval

import (
	"cmp"
	"slices"
)

// Source says who answered a row, by name. It travels with the row into replies and training records, so that a
// heuristic's answer is never taken for a network's.
type Source string

// The sources that are no heuristics. The zero value marks a row that nobody has answered.
const (
	None     Source = ""
	GPU      Source = "gpu"      // a network, on the GPU
	CPU      Source = "cpu"      // a network, on the CPU
	Fast     Source = "fast"     // a network of pattern tables, on the CPU
	Cached   Source = "cache"    // a network, earlier
	Function Source = "function" // a network that the program's user computes
	Terminal Source = "terminal" // the rules: the game is over
	Searched Source = "search"   // a tree search on top of another source
	Solved   Source = "solver"   // the exact solver, also in the exact step (Options.Exact)
	Rules    Source = "rules"    // the rules: the next stones decide the game; see Ruled
	Forced   Source = "forced"   // the rules chose the move; the value is an evaluator's, for a position some forced moves later
)

// A network that ONNX Runtime computes, by its provider.
const (
	ORTCUDA     Source = "ort-cuda"
	ORTTensorRT Source = "ort-tensorrt"
	ORT         Source = "ort" // any other provider
	ORTCPU      Source = "ort-cpu"
)

// onnxRuntime are the sources of ONNX Runtime.
var onnxRuntime = []Source{ORTCUDA, ORTTensorRT, ORT, ORTCPU}

// Heuristics that other packages call by name. The list of all heuristics is the catalog of package heuristic, and a
// new one needs no name here.
const (
	Bitsquares Source = "bitsquares"
	Gameovers  Source = "gameovers"
	OddEven    Source = "oddeven"
	Rollout    Source = "rollout"
	Uniform    Source = "uniform"
)

// ranks are the sources in the order in which people read them; the heuristics stand at anyHeuristic.
var ranks = []Source{None, GPU, CPU, Fast, ORTCUDA, ORTTensorRT, ORT, ORTCPU, Function, Cached, Terminal, anyHeuristic, Searched, Solved, Rules, Forced}

const anyHeuristic Source = "heuristic"

// Sources are all sources of this package but the heuristics', None first.
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

// ParseSource is the source that String calls so; ok is false for a name that is no source of this package, such as a
// heuristic's.
func ParseSource(name string) (s Source, ok bool) {
	all := Sources()
	i := slices.IndexFunc(all, func(s Source) bool { return s.String() == name })
	if i < 0 {
		return None, false
	}
	return all[i], true
}

// Network reports whether the answer is a network's, now or from a cache.
func (s Source) Network() bool {
	return s == GPU || s == CPU || s == Fast || s == Function || s == Cached || slices.Contains(onnxRuntime, s)
}

// Heuristic reports whether the answer is a heuristic's: whoever is none of the sources of this package.
func (s Source) Heuristic() bool { return rank(s) == rank(anyHeuristic) }

// By is the name of who answered: the heuristic's own, else that of the model that was asked.
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
