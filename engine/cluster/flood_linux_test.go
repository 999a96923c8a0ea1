package cluster_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/evald/evald/engine/cluster"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game/gametest"
)

// mostMemory is what SECURITY.md promises of a learner, whatever workers send, in MiB.
const mostMemory = 400

// peak is the most memory that a process has had, in MiB.
func peak(t *testing.T, process int) int {
	t.Helper()
	text := string(gametest.Must(os.ReadFile(fmt.Sprintf("/proc/%d/status", process)))(t))
	kilobytes, _, _ := strings.Cut(after(text, "VmHWM:"), "kB")
	return gametest.Must(strconv.Atoi(strings.TrimSpace(kilobytes)))(t) >> 10
}

// floods are messages of a worker that lies, by subject. %d is another number each time.
func floods() map[string][]string {
	list := func(each string, n int) string { return strings.Repeat(each+",", n) + each }
	return map[string][]string{
		"evald.games": {
			`{"version":"v","games":[` + list(`{"Number":1}`, 70_000) + `]}`,
			`{"version":"v","games":[` + list("{}", 300_000) + `]}`,
			`{"version":"v","games":[` + list("null", 100_000) + `]}`,
			`{"version":"v","games":[{"Plies":[` + list("null", 100_000) + `]}]}`,
			`{"version":"v","games":[{"Plies":[{"Visits":[` + list("0", 250_000) + `]}]}]}`,
			`{"version":"v","games":[` + list(`{"Plies":[`+list("{}", 120)+`]}`, 255) + `]}`,
			`{"version":"v","games":[` + list(list("", 2000)[:2000], 100) + `]}`,
			`{"version":"` + strings.Repeat("v", 500_000) + `"}`,
			`{"version":"v","games":` + strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000) + `}`,
			`{"version":"v","games":[{"Plies":[{"Visits":` + strings.Repeat(`{"x":[`, 4_000) + strings.Repeat("]}", 4_000) + `}]}]}`,
			"[", "",
		},
		"evald.hello":   {`{"worker":"` + strings.Repeat("<", 1_000_000) + `","version":"x"}`, `{"worker":"liar-%d","version":"v"}`},
		"evald.job":     {`{"games":[` + list("{}", 300_000) + `]}`, `{"version":"v","worker":"liar","run":"RUN"}`},
		"evald.network": {`{"sha256":"` + strings.Repeat("0", 1_000_000) + `"}`, `{"sha256":"x","from":%d}`},
		"evald.worker": {
			`{"worker":"liar-` + strings.Repeat("<", 150) + `%d","network":"` + strings.Repeat("<", 150) + `%[1]d","begun":1}`,
			`{"worker":"liar","holds":[` + list(`""`, 300_000) + `]}`, `{"worker":"liar","returns":[` + list(`"x"`, 200_000) + `]}`,
		},
		"evald.status": {""},
	}
}

// slowed is an evaluator that takes its time until quick is set.
type slowed struct {
	eval.Backend
	quick *atomic.Bool
}

func (s slowed) Compute(ctx context.Context, b *eval.Batch) error {
	if !s.quick.Load() {
		time.Sleep(50 * time.Millisecond)
	}
	return s.Backend.Compute(ctx, b)
}

// Workers that lie send as much as they can of each kind of message, large and small, while an honest worker plays. The learner's
// memory stays below the bound that is promised. All games of the honest worker are kept, and the files are those of one machine.
func TestFlood(t *testing.T) {
	within(t, 4*time.Minute)
	if gametest.Race {
		t.Skip("the race detector takes memory of its own")
	}
	dir, listen := t.TempDir(), freePort(t)
	learner := &process{role: "learner", arguments: arguments{Listen: listen, Dir: filepath.Join(dir, "run"), Games: []int{700, 60}}}
	url := learner.workersURL(t, listen)
	learner.start(t)
	ended := false
	defer func() {
		if !ended {
			learner.kill()
		}
	}()
	waitFor(t, listen)
	s, err := cluster.Ask(t.Context(), to(url))
	for err != nil {
		s, err = cluster.Ask(t.Context(), to(url))
	}
	var told ledger
	var quick atomic.Bool
	stop := work(t, cluster.WorkerOptions{Connection: to(url), Kept: told.kept, Parallel: 64, Batch: 64, Evaluator: func(_, _, _ string) (*eval.Evaluator, func(), error) {
		e, done, err := bitsquares("", "", "")
		return evaltest.Raw(slowed{e.Backend(), &quick}), done, err
	}})
	share := 3 // of what they send in make soak
	if soak(t) > 0 {
		share = 1
	}
	var liars sync.WaitGroup
	for n, subject := range []string{"evald.games", "evald.games", "evald.games", "evald.hello", "evald.job", "evald.network", "evald.worker", "evald.status"} {
		texts := floods()[subject]
		texts = append(texts[n%len(texts):], texts[:n%len(texts)]...) // not all the same at the same time
		conn := gametest.Must(nats.Connect(url, cluster.AsWorker()...))(t)
		defer conn.Close()
		liars.Go(func() {
			for _, text := range texts {
				text = strings.ReplaceAll(text, "RUN", s.Run)
				for n := range min(max(60_000_000/(len(text)+1), 60), 3000) / share {
					some := text
					if strings.Contains(text, "%") {
						some = fmt.Sprintf(text, n)
					}
					if conn.PublishRequest(subject, conn.Opts.InboxPrefix+".x", []byte(some)) != nil {
						t.Errorf("%s: the connection of a liar has ended", subject)
						return
					}
					if n%16 == 0 {
						_ = conn.FlushTimeout(30 * time.Second) // which sets the pace, no more
					}
				}
			}
		})
	}
	go func() { liars.Wait(); quick.Store(true) }() // the run does not end before
	most := 0
	for over, tick := false, time.NewTicker(100*time.Millisecond); !over; {
		select {
		case err := <-learner.ended:
			gametest.OK(t, err)
			over, ended = true, true
		case <-tick.C:
			if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", learner.Process.Pid)); err == nil && strings.Contains(string(text), "VmHWM") {
				most = max(most, peak(t, learner.Process.Pid))
			}
		}
	}
	_ = stop() // interrupted
	if !quick.Load() {
		t.Error("the run ended before the flood")
	}
	t.Logf("the learner had %d MiB", most)
	if most == 0 || most > mostMemory {
		t.Errorf("the learner had %d MiB, want %d at most", most, mostMemory)
	}
	for generation, games := range learner.Games {
		records := filepath.Join(learner.arguments.Dir, fmt.Sprint(generation))
		same(t, alone(t, small(generation), games), files(t, records))
		told.check(t, generation, records, games)
	}
}
