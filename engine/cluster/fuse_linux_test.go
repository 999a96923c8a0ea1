package cluster_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/durable/durabletest"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/record"
	"github.com/evald/evald/engine/selfplay"
)

// The simulation (simulate_test.go) proves that no game is lost above the files. Here are the real processes with real system calls, on file
// systems that forget what was not synced (durabletest.Mount): that of the learner's run, and that of one worker's spool. The processes are
// killed at a random operation of their disk, or between two, and the disk loses its power with them.

// powered is a process whose disk can lose its power.
type powered struct {
	*process
	mount   *durabletest.Mount
	cut     chan struct{} // closed when the process is being killed by a power cut
	refused int           // by its disk, before it began
}

// begin starts it. If it is armed, the power fails at a random operation of its disk, maybe the next one.
func (p *powered) begin(t *testing.T, random *rand.Rand, armed bool) {
	t.Helper()
	p.refused = p.mount.Refused()
	p.start(t)
	cut, victim := make(chan struct{}), p.Process
	p.cut = cut
	if !armed {
		return
	}
	n := 1 + random.IntN(60) // while it starts
	if random.IntN(3) > 0 {
		n = 1 + random.IntN(1+random.IntN(1200))
	}
	p.mount.KillAt(n, func() {
		close(cut)
		_ = victim.Kill() // it may have ended
	})
}

// powerCut ends what has been cut.
func (p *powered) powerCut(t *testing.T) {
	t.Helper()
	p.kill()
	p.mount.PowerCut(t)
}

// alive reports whether the power of a process that has ended did not fail.
func (p *powered) alive() bool {
	select {
	case <-p.cut:
		return false
	default:
		return true
	}
}

// powerRun is a run of a learner and two workers. The learner and the first worker have disks that forget.
type powerRun struct {
	t       *testing.T
	random  *rand.Rand
	learner *powered
	worker  *powered
	told    []string // files of workers, on disks that do not forget
	ledger  ledger   // what was in these files after the last power cut

	cuts, workerCuts, full int
	lost                   map[keptGame]bool // games that a worker was told of and that the learner's disk lacked after a power cut
	lies                   bool              // the learner's disk lies about fsync, so the learner may refuse its files
	refused                error
}

// newPowerRun starts the workers.
func newPowerRun(t *testing.T, games []int, random *rand.Rand) *powerRun {
	t.Helper()
	disk := func() *durabletest.Mount {
		return durabletest.MountDisk(t, durabletest.NewDisk(rand.New(rand.NewPCG(random.Uint64(), 1))))
	}
	dir, listen, mount := t.TempDir(), freePort(t), disk()
	r := &powerRun{t: t, random: random, lost: map[keptGame]bool{}}
	r.learner = &powered{mount: mount, process: &process{role: "learner", arguments: arguments{Listen: listen, Dir: filepath.Join(mount.Dir, "run"), Games: games}}}
	mount.Do(func(d *durabletest.Disk) { // the password is durable before the run begins
		gametest.OK(t, durable.MkdirAllIn(d, "/run/cluster"))
		gametest.OK(t, durable.WriteSecretIn(d, "/run/cluster/password", []byte("secret")))
	})
	url := "nats://worker:secret@" + listen
	for n := range 2 {
		r.told = append(r.told, filepath.Join(dir, fmt.Sprint("told", n)))
		w := &process{role: "worker", arguments: arguments{URL: url, Dir: filepath.Join(dir, "worker"), Told: r.told[n]}}
		if n == 0 {
			r.worker = &powered{process: w, mount: disk()}
			w.arguments.Dir = filepath.Join(r.worker.mount.Dir, "worker")
			r.worker.begin(t, random, true)
		} else {
			w.start(t)
		}
		t.Cleanup(func() { w.kill() })
	}
	return r
}

// play runs the learner until it has all games, with at most the given number of power cuts on the way. Then it cuts the power once more and
// starts the learner a last time. It ends at once when a game is lost.
func (r *powerRun) play(cuts int) (done bool) {
	begin := func() { r.learner.begin(r.t, r.random, r.cuts < cuts) }
	begin()
	r.t.Cleanup(func() { r.learner.kill() })
	var change <-chan time.Time // the disk becomes full, or there is room again
	full, down := false, false
	for len(r.lost) == 0 {
		if change == nil && r.cuts < cuts {
			change = time.After(time.Duration(20+r.random.IntN(200)) * time.Millisecond)
		}
		ended := r.learner.ended
		if down {
			ended = nil
		}
		select {
		case <-r.learner.cut:
			r.learner.powerCut(r.t)
			r.cuts++
			r.count()
			begin()
			down = false
		case <-r.worker.cut:
			r.worker.powerCut(r.t)
			r.workerCuts++
			r.worker.begin(r.t, r.random, true)
		case err := <-ended:
			r.learner.ended <- err
			switch {
			case !r.learner.alive(): // the first case
			case err == nil && done:
				return true
			case err == nil:
				done = true
				r.learner.powerCut(r.t)
				r.count()
				cuts = r.cuts // no more
				begin()
			case r.learner.mount.Refused() > r.learner.refused: // with a full disk it cannot begin
				if down = full; !down {
					begin()
				}
			case r.lies:
				r.refused = err
				return false
			default:
				r.t.Fatal("the learner ends: ", err)
			}
		case err := <-r.worker.ended:
			r.worker.ended <- err
			if r.worker.alive() {
				r.t.Fatal("a worker ends: ", err)
			}
		case <-change:
			change = nil
			if full = !full && r.cuts < cuts && r.random.IntN(4) == 0; full {
				r.full++
			}
			r.learner.mount.Do(func(d *durabletest.Disk) { d.Full = full })
			if down && !full {
				down = false
				begin()
			}
		}
	}
	return false
}

// count compares the learner's disk after a power cut with what workers were told until then.
func (r *powerRun) count() {
	r.t.Helper()
	for _, path := range r.told {
		r.ledger.readTold(r.t, path)
	}
	have := map[keptGame]bool{}
	r.learner.mount.Do(func(d *durabletest.Disk) {
		for generation := range r.learner.Games {
			dir := fmt.Sprint("/run/", generation)
			shards := gametest.Must(durable.ShardsIn(d, dir))(r.t)
			for _, s := range shards {
				if _, err := record.OpenIn(d, s.Path); err != nil {
					r.t.Log("after a power cut: ", err)
					continue
				}
				for number := s.First; number <= s.Last; number++ {
					have[keptGame{generation, number}] = true
				}
			}
			games, err := durable.ReadJournalIn[selfplay.Game](d, filepath.Join(dir, selfplay.WaitingFile), "")
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				r.t.Log("after a power cut: ", err)
			}
			for _, g := range games {
				have[keptGame{generation, g.Number}] = true
			}
		}
	})
	for game := range r.ledger.told {
		if !have[game] {
			r.lost[game] = true
		}
	}
}

// The power of a learner and of a worker fails at random moments, and the learner's disk is full for a while. After each power cut the
// learner's disk has each game that a worker was told of; in the end the files are those of one machine.
func TestPowerOfProcesses(t *testing.T) {
	within(t, 2*time.Minute+3*soak(t))
	games, cuts := []int{520, 60}, 8 // of a run
	if soak(t) > 0 {
		games, cuts = []int{1700, 600}, 60
	} else if gametest.Race {
		t.Skip("20 s; the race detector has little to find in other processes (with EVALD_SOAK=1m the test runs)")
	}
	random := rand.New(rand.NewPCG(1, 2))
	begin, all := time.Now(), powerRun{}
	told, refused, runs := 0, 0, 0
	// A fast machine may end a run before all of this has happened: then there is another run.
	for ; all.cuts < 8 || all.workerCuts == 0 || refused == 0 || time.Since(begin) < soak(t); runs++ {
		t.Run(fmt.Sprint("run ", runs), func(t *testing.T) {
			r := newPowerRun(t, games, random)
			if !r.play(cuts) {
				t.Fatalf("after power cut %d of the learner its disk lacks %d games of which a worker was told that they are kept, one of them %+v", r.cuts, len(r.lost), slices.Collect(maps.Keys(r.lost))[0])
			}
			checkRun(t, r.learner.arguments, r.told)
			all.cuts, all.workerCuts, all.full = all.cuts+r.cuts, all.workerCuts+r.workerCuts, all.full+r.full
			told, refused = told+len(r.ledger.told), refused+r.learner.mount.Refused()
		})
		if t.Failed() {
			break
		}
	}
	t.Logf("%d runs: the learner's power failed %d times, a worker's %d times; the disk was full %d times and refused %d operations; of %d games that workers were told of 0 were lost, in %v",
		runs, all.cuts, all.workerCuts, all.full, refused, told, time.Since(begin).Round(time.Millisecond))
}

// The test above can fail: on a disk whose fsync does nothing, games are lost.
func TestPowerOfLyingDisk(t *testing.T) {
	within(t, 2*time.Minute)
	r := newPowerRun(t, []int{520, 60}, rand.New(rand.NewPCG(3, 4)))
	r.lies = true
	r.learner.mount.Do(func(d *durabletest.Disk) { d.LieAboutSync = true })
	if r.play(100) {
		t.Errorf("%d power cuts of a disk that lies about fsync, and no game is lost", r.cuts)
	}
	t.Logf("after power cut %d the disk lacks %d of %d games; the learner's refusal: %v", r.cuts, len(r.lost), len(r.ledger.told), r.refused)
}
