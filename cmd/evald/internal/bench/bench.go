// Package bench measures the program on this machine. Each figure stands beside its ceiling: what the machine could do at
// best, measured in the same run. The share of the ceiling can be compared between machines; absolute rates cannot.
//
// Read the files in this order:
//
//	bench.go                     Figure, rounds, Progress, the table
//	eval.go                      the win test, heuristics, files; vector_amd64.go and vector_other.go: the ceiling of vectors
//	network.go, pattern.go       networks of either kind by every path, and models of a service
//	peer.go, torch.go, child.go  networks beside other programs, which run in Python
//	gpu.go                       networks on a GPU
//	search.go, selfplay.go       tree search and self-play beside a device or an evaluator alone
//	serve.go                     the service over gRPC; processortime_*.go: the processor time that it takes
//	solve.go                     the exact solver
package bench

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Figure is one measurement.
type Figure struct {
	Name    string  `json:"name"`
	Rate    float64 `json:"rate"`              // Unit per second, the median of the rounds
	Unit    string  `json:"unit"`              // what is counted
	Ceiling float64 `json:"ceiling,omitempty"` // Unit per second at best; 0 if none is stated
	Why     string  `json:"why,omitempty"`     // what the ceiling is
	Ratio   float64 `json:"ratio,omitempty"`   // to another figure of the same run
	To      string  `json:"to,omitempty"`      // that figure's name

	Allocations *float64 `json:"allocations,omitempty"` // of memory for each Unit; nil if they were not counted
}

// Share is the part of the ceiling that was reached.
func (f Figure) Share() float64 { return f.Rate / f.Ceiling }

// Progress is called with the name of each figure before it is measured; nil: not.
type Progress func(figure string)

// show calls it.
func (p Progress) show(format string, args ...any) {
	if p != nil {
		p(fmt.Sprintf(format, args...))
	}
}

// rounds is how often each figure is measured; the median counts.
const rounds = 5

// rate is n times the calls of work per second, the median of the rounds. A round takes about d.
func rate(d time.Duration, n int, work func()) float64 {
	work() // warms up caches and pools
	var rates []float64
	for range rounds {
		calls, start := 0, time.Now()
		for time.Since(start) < d {
			work()
			calls++
		}
		rates = append(rates, float64(calls)*float64(n)/time.Since(start).Seconds())
	}
	return median(rates)
}

func median(rates []float64) float64 {
	slices.Sort(rates)
	return rates[len(rates)/2]
}

// Table writes figures for people.
func Table(w io.Writer, figures []Figure) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "figure\trate\t\tshare of ceiling\tceiling")
	for _, f := range figures {
		share, ceiling := "", ""
		if f.Ceiling > 0 {
			share, ceiling = fmt.Sprintf("%.0f%%", 100*f.Share()), si(f.Ceiling)+"/s, "+f.Why
		}
		ratio := ""
		if f.Ratio > 0 {
			ratio = fmt.Sprintf("%.1f x %s", f.Ratio, f.To)
		}
		if f.Allocations != nil {
			ratio = fmt.Sprintf("%.2f allocations each", *f.Allocations)
		}
		fmt.Fprintf(t, "%s\t%s %s/s\t%s\t%s\t%s\n", f.Name, si(f.Rate), f.Unit, ratio, share, ceiling)
	}
	return t.Flush()
}

// si writes a number with three digits and a prefix: 31.4 M.
func si(x float64) string {
	for _, p := range []struct {
		size float64
		name string
	}{{1e9, " G"}, {1e6, " M"}, {1e3, " k"}} {
		if x >= p.size {
			return strings.TrimSuffix(fmt.Sprintf("%.3g", x/p.size), ".") + p.name
		}
	}
	return fmt.Sprintf("%.3g ", x)
}
