package cpu

import (
	"fmt"
	"maps"
	"slices"

	kernel "github.com/evald/evald/kernels/cpu"
	"github.com/evald/evald/nn/net"
)

// Choice is the path that computes networks of a shape on this machine, and the reason.
type Choice struct {
	Path   kernel.Path
	Why    string
	Rates  map[kernel.Path]float64 // from kernels/cpu.Rates; nil if not measured: then the order of kernels/cpu.Paths decided
	Failed []error                 // self-tests of paths that would otherwise have been chosen
}

// A path that is less exact than float32 is chosen only if it is `worth` times as fast. Among paths with at least `equal` times the highest
// rate, their order decides, so that noise does not.
const (
	worth = 1.15
	equal = 0.95
)

// counted returns the rate of a path as Choose compares it. It doubles rates of tiles, because the two threads of a core share a unit for
// tiles: on a shared machine, another user of that unit reduced the rate of amx to between a quarter and a third for seconds at a time, and
// those of other paths to 0.6. So a low rate of tiles is probably temporary, while the choice is permanent.
func counted(rates map[kernel.Path]float64, p kernel.Path) float64 {
	if p.Tiles() {
		return 2 * rates[p]
	}
	return rates[p]
}

// Choose chooses among Paths by their rates. These are measured and stored when this machine first has a network with the given numbers of
// blocks and channels (rates.go). If rates can neither be read nor stored, nothing is measured, and the first path is chosen. Paths that
// fail their self-tests are not chosen.
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
	first := func(fits func(kernel.Path) bool) (p kernel.Path, most float64) { // returns the first path whose rate is about the highest, and the highest rate
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
	exact, most := first(kernel.Path.Exact) // plain Go is always available
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

// Int8Gain returns how many times as fast a network without ranges would be with ranges (Int8), and the path that would then be chosen. It
// returns 0 if the network already uses 8 bits, if the gain is too small, or if nothing was measured.
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
