package cluster_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/evald/evald/engine/cluster"
	"github.com/evald/evald/engine/durable/durabletest"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/selfplay"
)

// The learner's disk is full when a game arrives, when a file of records is due, and when the last one is. Workers are told so
// and keep their games. Once there is room again, the run ends with the same files as on one machine.
func TestFullDisk(t *testing.T) {
	within(t, time.Minute)
	const n = selfplay.ShardGames + 60
	run, c := durabletest.SmallDisk(t, "size=8m"), small(0)
	games, dir := played(t, c, n), filepath.Join(run, "0")
	l := open(t, cluster.Options{})
	conn, id := wire(t, l), cluster.Settings(c, n)
	over := begin(t, l, selfplay.Batch{Config: c, Dir: dir, Games: n})
	send := func(first, last int) (later string) {
		t.Helper()
		refused, later := deliver(t, conn, l.Status().Run, id, games[first:last]...)
		if refused != "" {
			t.Fatalf("games %d to %d are refused: %s", first, last-1, refused)
		}
		return later
	}
	for _, step := range []struct {
		first, last int
		left        int64 // room for these games in the journal, of about 2 kB each, and for no file of records
	}{{0, 100, 0}, {490, 500, 32 << 10}, {n - 2, n, 8 << 10}} {
		for first := l.Status().Games; first < step.first; {
			last := min(first+10, step.first)
			if later := send(first, last); later != "" {
				t.Fatalf("with room on the disk: %s", later)
			}
			first = last
		}
		before := l.Status().Failures
		empty := durabletest.Fill(t, run, step.left)
		if later := send(step.first, step.last); !strings.Contains(later, "no space") {
			t.Errorf("games %d to %d come to a full disk: %q", step.first, step.last-1, later)
		}
		if l.Status().Failures == before {
			t.Error("the status does not count the failure")
		}
		if step.last == n { // these are in the journal: the learner tries to write their file without being sent them again
			for l.Status().Failures < before+2 {
				<-time.After(time.Millisecond)
			}
			empty()
			break
		}
		empty()
		if later := send(step.first, step.last); later != "" {
			t.Errorf("when there is room again: %s", later)
		}
	}
	gametest.OK(t, <-over)
	same(t, alone(t, c, n), files(t, dir))
}

// A worker's disk is full: its games are in memory until there is room, and none is lost or sent twice.
func TestFullSpool(t *testing.T) {
	dir := durabletest.SmallDisk(t, "size=1m")
	path := filepath.Join(dir, "spool.jsonl")
	s := gametest.Must(cluster.OpenSpool(path))(t)
	games := played(t, small(0), 40)
	empty := durabletest.Fill(t, dir, 8<<10)
	for _, g := range games {
		s.Add(g)
	}
	if some := s.Next(); len(some) != len(games) {
		t.Errorf("%d of %d games are there", len(some), len(games))
	}
	empty()
	s.Confirmed(10)
	s.Close()
	if s = gametest.Must(cluster.OpenSpool(path))(t); s.Len() != 30 {
		t.Errorf("%d games are on the disk when there is room again, want 30", s.Len())
	}
	s.Close()
}
