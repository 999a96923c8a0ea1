// Package bench measures the program on this machine. Each figure has a ceiling where possible: the highest rate that the machine could
// reach, measured in the same run. Shares of the ceiling can be compared between machines; absolute rates cannot.
//
// Read the files in this order:
//
//	bench.go                     Figure, rounds, Progress, the table
//	eval.go                      the win test, heuristics, files; vector_amd64.go and vector_other.go: the ceiling of vector code
//	network.go, pattern.go       networks of either kind by every path, and models of a service
//	peer.go, torch.go, child.go  networks beside other programs, which run in Python
//	gpu.go, onnxruntime.go       networks on a GPU; with ONNX Runtime
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
	Unit    string  `json:"unit"`              // such as positions or visits
	Ceiling float64 `json:"ceiling,omitempty"` // highest possible Rate; 0 if unknown
	Why     string  `json:"why,omitempty"`     // the source of the ceiling
	Ratio   float64 `json:"ratio,omitempty"`   // this rate divided by another figure's
	To      string  `json:"to,omitempty"`      // that figure's name

	Allocations *float64 `json:"allocations,omitempty"` // number of memory allocations per Unit; nil if they were not counted
}

// Share returns Rate divided by Ceiling.
func (f Figure) Share() float64 { return f.Rate / f.Ceiling }

// Progress is called with the name of each figure before it is measured. It may be nil.
type Progress func(figure string)

// show calls p unless it is nil.
func (p Progress) show(format string, args ...any) {
	if p != nil {
		p(fmt.Sprintf(format, args...))
	}
}

// rounds is the number of measurements of each figure, whose median is reported.
const rounds = 5

// tally is a number of rows and calls, and the time that they took.
type tally struct {
	rows, calls int
	seconds     float64
}

func (t tally) rate() float64 { return float64(t.rows) / t.seconds }

func (t *tally) add(other tally) {
	t.rows, t.calls, t.seconds = t.rows+other.rows, t.calls+other.calls, t.seconds+other.seconds
}

// count starts n goroutines that call work repeatedly for about d, at least once each. i is the goroutine's number; work returns the number
// of rows that it has processed.
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

// rate returns the rows per second, the median of the rounds, if each call of work processes n rows. A round takes about d.
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

// Table writes figures as a table.
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

// percent formats a share of a ceiling, with a ? if it is above 1; explainShares explains it.
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

// si formats a number with three digits and a prefix: 31.4 M.
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
