package cluster_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/evald/evald/engine/cluster"
	"github.com/evald/evald/engine/selfplay"
)

// smallDisk mounts one of so many bytes on a folder.
func smallDisk(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Skip("a small disk cannot be mounted: ", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}

// fill takes all room of a disk.
func fill(t *testing.T, dir string) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "ballast"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for block := make([]byte, 4096); len(block) > 0; {
		n, err := f.Write(block)
		if err != nil && n == 0 {
			block = block[:len(block)/2]
		}
	}
}

// The learner's disk is full for some time, and so is the worker's. No game is lost that a worker was told of, and when there
// is room again the run goes on to the files of one machine.
func TestFullDisk(t *testing.T) {
	within(t, 2*time.Minute)
	run, home := smallDisk(t, "size=8m"), smallDisk(t, "size=4m")
	var told ledger
	l := open(t, cluster.Options{Dir: filepath.Join(t.TempDir(), "cluster")})
	work(t, cluster.WorkerOptions{Connection: connection(l), Dir: home, Kept: told.kept, Parallel: 24, Batch: 16})
	const games = 1700
	c, dir := small(0), filepath.Join(run, "0")
	filled := []int{100, 520, 1300}
	done := make(chan struct{})
	b := cluster.Batch{Config: c, Dir: dir, Games: games, Report: func(p selfplay.Progress) {
		if len(filled) == 0 || p.Games < filled[0] {
			return
		}
		filled = filled[1:]
		fill(t, run)
		fill(t, home)
		before := l.Status().Failures
		go func() { // there is room again when the learner has found none
			for l.Status().Failures < before+2 && t.Context().Err() == nil {
				time.Sleep(time.Millisecond)
			}
			_ = os.Remove(filepath.Join(run, "ballast"))
			_ = os.Remove(filepath.Join(home, "ballast"))
			done <- struct{}{}
		}()
	}}
	if err := l.Play(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		<-done
	}
	same(t, alone(t, c, games), files(t, dir))
	told.check(t, 0, dir, games)
	if s := l.Status(); s.Failures < 3 {
		t.Errorf("%d writes failed", s.Failures)
	}
}
