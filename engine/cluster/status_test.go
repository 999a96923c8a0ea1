package cluster_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evald/evald/engine/cluster"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/selfplay"
)

// More workers than fit a message say how they are. The status has the sums of all, and lists the first.
func TestStatus(t *testing.T) {
	within(t, time.Minute)
	l := open(t, cluster.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() {
		over <- l.Play(ctx, selfplay.Batch{Generation: 3, Config: small(3), Dir: t.TempDir(), Games: 100})
	}()
	defer func() { cancel(); <-over }()
	conn := wire(t, l)
	const all = 6000
	report := func() {
		for n := range all {
			w := cluster.Worker{Name: fmt.Sprintf("worker-%04d-%0180d", n, 0), Generation: 3, Network: "002", Begun: 10, Spool: 2, PerSecond: 0.5}
			switch {
			case n == 0: // plays on with an older network
				w.Generation, w.Network = 2, "001"
			case n < 4: // has all games of the last generation, which it has not sent, and gets the network
				w.Generation, w.Network, w.Begun, w.Fetching = 2, "001", 0, "002"
			case n == 4:
				w.Older = 1
			}
			gametest.OK(t, conn.Publish("evald.worker", gametest.Must(json.Marshal(w))(t)))
		}
	}
	report()
	gametest.OK(t, conn.Publish("evald.worker", []byte(`{"worker":"x`))) // no valid report
	var s cluster.Status
	for s.Heard < all || !s.Playing {
		var err error
		if s, err = cluster.Ask(t.Context(), connection(l)); err != nil {
			t.Log(err) // a slow machine answers the next time
		}
		if s.Heard > 0 && s.Heard < all { // the learner drops reports that wait, and workers report again
			report()
		}
	}
	want := []cluster.InFlight{{Generation: 3, Network: "002", Playing: all - 4, Fetching: 3, Begun: 10 * (all - 4)}, {Generation: 2, Network: "001", Playing: 1, Begun: 10}}
	if diff := cmp.Diff(want, s.Networks); diff != "" {
		t.Errorf("networks (-want +got):\n%s", diff)
	}
	if s.Heard != all || s.Spool != 2*all || s.Older != 10+4*2+1 || s.Played != 0.5*all {
		t.Errorf("heard %d, in spools %d, of earlier generations %d, %.1f games/s", s.Heard, s.Spool, s.Older, s.Played)
	}
	if len(s.Workers) != 1000 || s.Workers[0].Name[:11] != "worker-0000" || s.Workers[0].Silent < 0 {
		t.Errorf("%d workers are listed, first %+v", len(s.Workers), s.Workers[0])
	}
}

// A playing worker reports its network and the number of games that it has begun.
func TestWorkersStatus(t *testing.T) {
	within(t, time.Minute)
	l := open(t, cluster.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- l.Play(ctx, selfplay.Batch{Config: small(0), Dir: t.TempDir(), Games: 100_000}) }()
	defer func() { cancel(); <-over }()
	work(t, cluster.WorkerOptions{Connection: connection(l), Parallel: 8, Batch: 4})
	s := l.Status()
	for ; len(s.Networks) == 0; s = l.Status() {
		<-time.After(10 * time.Millisecond)
	}
	if n := s.Networks[0]; s.Heard != 1 || n.Network != "bitsquares" || n.Playing != 1 || n.Begun < 1 || n.Begun > 8 || s.Older != 0 {
		t.Errorf("status %+v", s)
	}
}

// However many workers there are, there are jobs for all of them unless jobs are as small as may be, and what they play at
// once leaves half of the games, or of the window, to those who are quicker.
func TestShares(t *testing.T) {
	for _, all := range []int{1, 60, 3000, 100_000, 10_000_000} {
		for workers := range 5000 {
			size, each := cluster.JobGames(all, workers), cluster.Share(all, workers)
			if size < 4 || size > 128 || each < 16 {
				t.Fatalf("%d games, %d workers: jobs of %d games, %d at once", all, workers, size, each)
			}
			if jobs := min(all, cluster.Window) / size; jobs < workers && size > 4 {
				t.Fatalf("%d games, %d workers: %d jobs", all, workers, jobs)
			}
			if each > 16 && each*max(workers, 1) > min(all, cluster.Window)/2 {
				t.Fatalf("%d games, %d workers: %d at once", all, workers, each)
			}
		}
	}
}
