package cpu

import (
	"fmt"
	"maps"
	"slices"

	kernel "github.com/evald/evald/kernels/cpu"
	"github.com/evald/evald/nn/net"
)

// Choice is the path by which this machine computes networks of a shape, and why.
type Choice struct {
	Path   kernel.Path
	Why    string
	Rates  map[kernel.Path]float64 // from kernels/cpu.Rates; nil: not measured, the order of kernels/cpu.Paths decided
	Failed []error                 // self-tests of paths that would otherwise have been chosen
}

// A path less exact than float32 is chosen only if it is `worth` times as fast. Paths with at least `equal` times the rate of the
// fastest are chosen by their order, so that noise does not decide.
const (
	worth = 1.15
	equal = 0.95
)

// counted returns a path's rate as the choice counts it: rates of tiles double, because the two threads of a core share its unit
// for tiles. On a shared machine, a neighbour's use of that unit cut the rate of amx to between a quarter and a third for seconds
// at a time, and those of other paths to 0.6. A low rate of tiles is therefore likely to be temporary, but the choice lasts.
func counted(rates map[kernel.Path]float64, p kernel.Path) float64 {
	if p.Tiles() {
		return 2 * rates[p]
	}
	return rates[p]
}

// Choose chooses among Paths by rates, which are measured when this machine first has a network with this many blocks and
// channels, and stored (rates.go). If rates can neither be read nor stored, nothing is measured, and the first path is chosen. A
// path that fails its self-test is left out.
func Choose(c net.Config, ranges bool) Choice {
	rates, err := thisMachine().rates(c)
	return choose(pathsFor(ranges), rates, err, kernel.SelfTest)
}

func choose(paths []kernel.Path, rates map[kernel.Path]float64, unmeasured error, selfTest func(kernel.Path) error) Choice {
	c := Choice{Rates: maps.Clone(rates)}
	for {
		switch c.Path, c.Why = paths[0], "the only path"; {
		case len(paths) == 1:
		case rates == nil:
			c.Why = fmt.Sprintf("the first of the paths; they are not measured: %v", unmeasured)
		default:
			c.Path, c.Why = fastest(paths, c.Rates)
		}
		err := selfTest(c.Path)
		if err == nil || len(paths) == 1 {
			return c
		}
		c.Failed = append(c.Failed, err)
		delete(c.Rates, c.Path)
		paths = slices.DeleteFunc(slices.Clone(paths), func(p kernel.Path) bool { return p == c.Path })
	}
}

// fastest returns the fastest float32 path, or the fastest other path if that is `worth` times as fast, and the reason.
func fastest(paths []kernel.Path, rates map[kernel.Path]float64) (kernel.Path, string) {
	first := func(fits func(kernel.Path) bool) (p kernel.Path, most float64) { // the first path whose rate is about the highest, and the highest rate
		for _, p := range paths {
			if fits(p) {
				most = max(most, counted(rates, p))
			}
		}
		if i := slices.IndexFunc(paths, func(p kernel.Path) bool { return fits(p) && counted(rates, p) >= equal*most }); i >= 0 {
			p = paths[i]
		}
		return p, most
	}
	exact, most := first(kernel.Path.Exact) // never empty: plain Go is always there
	if p, _ := first(func(p kernel.Path) bool { return !p.Exact() && counted(rates, p) >= worth*most }); p != "" {
		why := fmt.Sprintf("%.2f times as fast as any in float32", rates[p]/most)
		if rates[p] < worth*most {
			why += ", and rates of tiles count double"
		}
		return p, why
	}
	return exact, fmt.Sprintf("the fastest in float32, and no other path is %g times as fast", worth)
}

// Paths are the paths of this machine and build that can compute a network, in the order of kernels/cpu.Paths. Those with 8 bits
// need its ranges.
func Paths(n *net.Network) []kernel.Path { return pathsFor(hasRanges(n)) }

func hasRanges(n *net.Network) bool {
	ranges, err := n.Ranges()
	return err == nil && ranges != nil
}

func pathsFor(ranges bool) []kernel.Path {
	return slices.DeleteFunc(kernel.Paths(), func(p kernel.Path) bool { return p.Int8() && !ranges })
}

// Int8Gain returns how many times as fast a network without ranges would be with them (Int8), and the path that would then be
// chosen; 0 if it already uses 8 bits, if the gain is not worth it, or if nothing was measured.
func (c Choice) Int8Gain() (gain float64, by kernel.Path) {
	if c.Rates == nil || c.Path.Int8() {
		return 0, ""
	}
	by, _ = fastest(kernel.Paths(), c.Rates)
	if gain = counted(c.Rates, by) / counted(c.Rates, c.Path); !by.Int8() || gain < worth {
		return 0, ""
	}
	return gain, by
}
