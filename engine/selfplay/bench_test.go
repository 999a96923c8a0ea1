//go:build unix

package selfplay

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/evald/evald/engine/eval"
)

// hashed answers as a network would, with numbers that follow from the position's hash, and takes a few nanoseconds a row.
type hashed struct{ rows atomic.Int64 }

func (*hashed) Attributes() eval.Attributes { return eval.Attributes{Rows: 1024, Invariant: true} }

func (h *hashed) Compute(_ context.Context, b *eval.Batch) error {
	h.rows.Add(int64(len(b.Pos)))
	for i, p := range b.Pos {
		x := p.Hash()
		win := float32(x>>40) / (1 << 24)
		wdl, policy := b.WDLRow(i), b.PolicyRow(i)
		wdl[0], wdl[1], wdl[2] = win, 0, 1-win
		total := float32(0)
		for l := b.Board.Legal(p); !l.IsZero(); l = l.WithoutFirst() {
			a := b.Board.Action(l.First())
			policy[a] = float32(1 + x>>(8*a)&15)
			total += policy[a]
		}
		for l := b.Board.Legal(p); !l.IsZero(); l = l.WithoutFirst() {
			policy[b.Board.Action(l.First())] /= total
		}
		b.Source[i] = eval.GPU
	}
	return nil
}

// BenchmarkPlay is what self-play itself costs for each answer of a network that takes no time, on one core.
func BenchmarkPlay(b *testing.B) {
	gumbel := DefaultConfig()
	gumbel.Selection, gumbel.Visits, gumbel.FullShare = "gumbel", 48, 1
	for name, c := range map[string]Config{"puct": DefaultConfig(), "gumbel": gumbel} {
		for _, remember := range []bool{false, true} {
			c.Parallel, c.Batch = 4096, 512
			b.Run(fmt.Sprintf("%s/remember=%v", name, remember), func(b *testing.B) {
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
				h := &hashed{}
				var visits atomic.Int64
				o := eval.Options{OnAnswers: func(answers []eval.Source) { visits.Add(int64(len(answers))) }}
				if remember {
					o.Cache, o.Model = eval.NewCache(Remembered), "network"
					o.Cache.Transparent = true
				}
				e := eval.New(h, o)
				ctx, cancel := context.WithTimeout(b.Context(), 8*time.Second)
				defer cancel()
				begin, rows, before := processorTime(), int64(0), int64(0)
				_ = Play(ctx, e, c, 0, math.MaxInt32, nil, func(*Game) error {
					if rows == 0 && processorTime()-begin > time.Second {
						begin, rows, before = processorTime(), h.rows.Load(), visits.Load()
					}
					return nil
				})
				s := (processorTime() - begin).Seconds()
				b.ReportMetric(float64(h.rows.Load()-rows)/s, "rows/s")
				b.ReportMetric(float64(visits.Load()-before)/s, "leaves/s")
			})
		}
	}
}

// processorTime is that of this process, which other programs on the machine hardly change.
func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano())
}
