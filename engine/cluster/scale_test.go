package cluster_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/evald/evald/engine/cluster"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/selfplay"
)

// paced answers a batch of bitsquares after as long as a device with a fixed rate would take.
type paced struct {
	eval.Backend
	rate float64 // rows a second
	mu   sync.Mutex
}

func (p *paced) Compute(ctx context.Context, b *eval.Batch) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	took := time.Now().Add(time.Duration(float64(len(b.Pos)) / p.rate * float64(time.Second)))
	err := p.Backend.Compute(ctx, b)
	time.Sleep(time.Until(took))
	return err
}

// With EVALD_SCALE=1: games a second of one worker and of two, whose evaluators have a fixed rate.
func TestTwoWorkers(t *testing.T) {
	if os.Getenv("EVALD_SCALE") == "" {
		t.Skip("a measurement: EVALD_SCALE=1")
	}
	rate := map[int]float64{}
	for _, workers := range []int{1, 2, 1, 2} {
		l := open(t, cluster.Options{})
		for range workers {
			work(t, cluster.WorkerOptions{Connection: connection(l), Parallel: 64, Batch: 32, Evaluator: func(_, _, _ string) (*eval.Evaluator, func(), error) {
				e, done, err := bitsquares("", "", "")
				return evaltest.Raw(&paced{Backend: e.Backend(), rate: 4000}), done, err
			}})
		}
		c := small(0)
		const games = 500
		var last selfplay.Progress
		gametest.OK(t, l.Play(t.Context(), selfplay.Batch{Config: c, Dir: t.TempDir(), Games: games, Report: func(p selfplay.Progress) { last = p }}))
		rate[workers] = float64(games) / last.Elapsed.Seconds()
		t.Logf("%d workers: %.1f games/s", workers, rate[workers])
	}
	t.Logf("two workers play %.2f times as fast as one", rate[2]/rate[1])
}

// With EVALD_SCALE=TIME: for this time, many workers, each with its own connection, send prerecorded games at a given number of positions
// per second. The last case exceeds the learner's capacity. The test logs the learner's rate and memory.
func TestManyWorkers(t *testing.T) {
	span, err := time.ParseDuration(os.Getenv("EVALD_SCALE"))
	if err != nil {
		t.Skip("a measurement: EVALD_SCALE=1m")
	}
	for _, test := range []struct {
		workers int
		rate    float64 // positions a second
	}{{200, 50_000}, {2000, 50_000}, {200, 500_000}} {
		t.Run(fmt.Sprintf("%dx%.0f", test.workers, test.rate), func(t *testing.T) { manyWorkers(t, test.workers, test.rate, span) })
	}
}

func manyWorkers(t *testing.T, workers int, rate float64, span time.Duration) {
	c := small(0)
	c.Rules, c.Visits, c.FastVisits = "7x6x4", 8, 4
	games := played(t, c, 500)
	positions, bytes := 0, 0
	for _, g := range games {
		positions += len(g.Plies)
		bytes += len(encode(t, g)[0])
	}
	each := float64(positions) / float64(len(games))
	all := int(rate / each * span.Seconds())
	t.Logf("%.1f positions and %d bytes a game; %d games", each, bytes/len(games), all)
	l := open(t, cluster.Options{})
	run, id, dir := l.Status().Run, cluster.Settings(c, all), t.TempDir()
	const parcel = 20
	var next, kept, late atomic.Int64
	var senders sync.WaitGroup
	start := time.Now()
	for w := range workers {
		conn := gametest.Must(nats.Connect(l.Join(), append(cluster.AsWorker(), nats.Timeout(time.Minute))...))(t)
		defer conn.Close()
		go func() { // says how it is, as often as a worker does
			for t.Context().Err() == nil {
				_ = conn.Publish("evald.worker", fmt.Appendf(nil, `{"worker":"stub-%d","generation":0,"network":"bitsquares"}`, w))
				select {
				case <-t.Context().Done():
				case <-time.After(2500 * time.Millisecond):
				}
			}
		}()
		senders.Go(func() {
			for {
				first := int(next.Add(parcel)) - parcel
				if first >= all {
					return
				}
				// Not before its time.
				time.Sleep(time.Until(start.Add(time.Duration(float64(first) / float64(all) * float64(span)))))
				var some []json.RawMessage
				for n := first; n < min(first+parcel, all); n++ {
					text, err := json.Marshal(games[n%len(games)])
					if err != nil {
						t.Error(err)
						return
					}
					some = append(some, append([]byte(`{"Number":`+strconv.Itoa(n)+`,`), text[1+len(`"Number":`)+len(strconv.Itoa(n%len(games)))+1:]...))
				}
				text, err := cluster.Parcel("v", run, id, 0, some...)
				for sent, patience := false, 5*time.Second; !sent; {
					m, failed := conn.Request(cluster.GamesSubject, text, patience)
					if failed != nil {
						late.Add(1)
						patience = min(2*patience, 2*time.Minute)
						continue
					}
					refused, later, failed := cluster.Answer(m.Data)
					if refused != "" || failed != nil || err != nil {
						t.Error(refused, failed, err)
						return
					}
					sent = later == ""
				}
				kept.Add(int64(len(some)))
			}
		})
	}
	tick := time.NewTicker(max(span/10, time.Second))
	defer tick.Stop()
	watch := make(chan struct{})
	go func() {
		defer close(watch)
		for {
			select {
			case <-tick.C:
			case <-t.Context().Done():
				return
			}
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			now := kept.Load()
			t.Logf("after %v: %d games by %d workers, memory in use %d MB, resident %s", time.Since(start).Round(time.Second), now, l.Status().Heard, m.HeapAlloc>>20, resident())
			if now >= int64(all) {
				return
			}
		}
	}()
	gametest.OK(t, l.Play(t.Context(), selfplay.Batch{Config: c, Dir: dir, Games: all}))
	took := time.Since(start)
	senders.Wait()
	<-watch
	t.Logf("%d games in %v: %.0f positions/s; %d answers were late", all, took, float64(all)*each/took.Seconds(), late.Load())
}

// resident is the memory of this process.
func resident() string {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return "not known"
	}
	var size, pages int
	if _, err := fmt.Sscan(string(text), &size, &pages); err != nil {
		return "not known"
	}
	return fmt.Sprint(pages*os.Getpagesize()>>20, " MB")
}
