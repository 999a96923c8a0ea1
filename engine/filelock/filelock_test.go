package filelock_test

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/evald/evald/engine/filelock"
)

var errHeld = errors.New("held")

const holding = "FILELOCK_TEST_HOLD" // the file that another process is to hold

// One process keeps others out until it ends, also by a kill.
func TestProcesses(t *testing.T) {
	if path := os.Getenv(holding); path != "" {
		if _, err := filelock.Open(path, errHeld); err != nil {
			t.Fatal(err)
		}
		os.Stdout.WriteString("held\n")
		select {}
	}
	path := filepath.Join(t.TempDir(), "file")
	child := exec.Command(os.Args[0], "-test.run=^TestProcesses$")
	child.Env = append(os.Environ(), holding+"="+path)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "held\n" {
		t.Errorf("the other process says %q, %v", line, err)
	}
	if _, err := filelock.Open(path, errHeld); !errors.Is(err, errHeld) {
		t.Errorf("error %v, want that it is held", err)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // killed, as wanted
	f, err := filelock.Open(path, errHeld)
	if err != nil {
		t.Fatalf("after the kill: %v", err)
	}
	f.Close()
}

// One goroutine at a time has the file, also if each removes it before it unlocks it.
func TestRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	var inside, had atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 300 {
				f, err := filelock.Open(path, errHeld)
				if errors.Is(err, errHeld) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				if n := inside.Add(1); n != 1 {
					t.Errorf("%d have the file", n)
				}
				had.Add(1)
				inside.Add(-1)
				if err := os.Remove(path); err != nil {
					t.Error(err)
				}
				f.Close()
			}
		})
	}
	all.Wait()
	if had.Load() < 10 {
		t.Errorf("the file was had %d times", had.Load())
	}
}
