// Package bench measures the program on this machine. Each figure stands beside its ceiling: what the machine could do at
// best, measured in the same run. The share of the ceiling can be compared between machines; absolute rates cannot.
//
// Read the files in this order:
//
//	bench.go                     Figure, rounds, Progress, the table
//	eval.go                      the win test, heuristics, files; vector_amd64.go and vector_other.go: the ceiling of vectors
//	network.go, pattern.go       networks of either kind by every path, and models of a service
//	peer.go, torch.go, child.go  networks beside other programs, which run in Python
//	gpu.go, onnxruntime.go       networks on a GPU; by ONNX Runtime
//	search.go, selfplay.go       tree search and self-play beside a device or an evaluator alone
//	serve.go                     the service over gRPC; processortime_*.go: the processor time that it takes
//	solve.go                     the exact solver
package bench

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
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

// rounds is the number of measurements of each figure, whose median is reported.
const rounds = 5

// tally counts what was done in some time.
type tally struct {
	rows, calls int
	seconds     float64
}

func (t tally) rate() float64 { return float64(t.rows) / t.seconds }

func (t *tally) add(other tally) {
	t.rows, t.calls, t.seconds = t.rows+other.rows, t.calls+other.calls, t.seconds+other.seconds
}

// count lets n goroutines call work with their number repeatedly for about d, at least once each. work returns its number of
// rows.
func count(n int, d time.Duration, work func(i int) (rows int, err error)) (tally, error) {
	tallies, errs := make([]tally, n), make([]error, n)
	var all sync.WaitGroup
	start := time.Now()
	for i := range n {
		all.Go(func() {
			var own tally
			for first := true; errs[i] == nil && (first || time.Since(start) < d); first = false {
				var rows int
				rows, errs[i] = work(i)
				own.add(tally{rows: rows, calls: 1})
			}
			tallies[i] = own
		})
	}
	all.Wait()
	sum := tally{seconds: time.Since(start).Seconds()}
	for _, t := range tallies {
		sum.add(t)
	}
	return sum, errors.Join(errs...)
}

// rate is n times the calls of work per second, the median of the rounds. A round takes about d.
func rate(d time.Duration, n int, work func()) float64 {
	work() // warms up caches and pools
	var rates []float64
	for range rounds {
		t, _ := count(1, d, func(int) (int, error) { work(); return n, nil })
		rates = append(rates, t.rate())
	}
	return median(rates)
}

func median[T cmp.Ordered](values []T) T {
	return slices.Sorted(slices.Values(values))[len(values)/2]
}

// Table writes figures for people.
func Table(w io.Writer, figures []Figure) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "figure\trate\t\tshare of ceiling\tceiling")
	for _, f := range figures {
		share, ceiling, ratio := "", "", ""
		if f.Ceiling > 0 {
			share, ceiling = percent(f.Share()), si(f.Ceiling)+"/s, "+f.Why
		}
		if f.Ratio > 0 {
			ratio = fmt.Sprintf("%.1f x %s", f.Ratio, f.To)
		}
		if f.Allocations != nil {
			ratio = fmt.Sprintf("%.2f allocations each", *f.Allocations)
		}
		fmt.Fprintf(t, "%s\t%s %s/s\t%s\t%s\t%s\n", f.Name, si(f.Rate), f.Unit, ratio, share, ceiling)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return explainShares(w, slices.ContainsFunc(figures, func(f Figure) bool { return f.Ceiling > 0 && f.Share() > 1 }))
}

// percent writes a share of a ceiling, ? for a share above 1, which explainShares explains.
func percent(share float64) string {
	if share > 1 {
		return "?"
	}
	return fmt.Sprintf("%.0f%%", 100*share)
}

func explainShares(w io.Writer, above bool) (err error) {
	if above {
		_, err = fmt.Fprintln(w, "?: was measured faster than its ceiling; trust neither, and measure again on an idle machine or with a longer --round")
	}
	return err
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
