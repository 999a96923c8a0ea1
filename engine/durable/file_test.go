package durable_test

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/game/gametest"
)

func read(t *testing.T, path string) string {
	t.Helper()
	return string(gametest.Must(os.ReadFile(path))(t))
}

func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	for _, e := range gametest.Must(os.ReadDir(dir))(t) {
		all = append(all, e.Name())
	}
	return all
}

// The old file stays until the new one is whole. Meanwhile a second writer is refused. Nothing else is left in the end.
func TestCreate(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "out")
	gametest.OK(t, os.WriteFile(path, []byte("old"), 0o640))
	w := gametest.Must(durable.Create(path))(t)
	gametest.Must(w.Write([]byte("new")))(t)
	if got := read(t, path); got != "old" {
		t.Errorf("%q before it is whole", got)
	}
	if _, err := durable.Create(path); !errors.Is(err, durable.ErrInUse) || !strings.Contains(err.Error(), path) {
		t.Errorf("a second writer: %v", err)
	}
	if err := durable.Sweep(dir); err != nil || len(names(t, dir)) != 3 { // with its lock
		t.Errorf("sweeping beside a writer: %v, %v", names(t, dir), err)
	}
	gametest.OK(t, w.Commit())
	w.Abort()
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o640 || read(t, path) != "new" || len(names(t, dir)) != 1 {
		t.Errorf("%v %v %v in %v", info.Mode(), err, read(t, path), names(t, dir))
	}
	w = gametest.Must(durable.Create(path))(t)
	w.Abort()
	if read(t, path) != "new" || len(names(t, dir)) != 1 {
		t.Errorf("after Abort: %q in %v", read(t, path), names(t, dir))
	}
}

const writing = "DURABLE_TEST_WRITE" // the file that another process is to write

// The temporary file of a killed writer hinders no other writer. The next writer of the name, or Sweep, removes it.
func TestKilled(t *testing.T) {
	if path := os.Getenv(writing); path != "" {
		w, err := durable.Create(path)
		if err == nil {
			_, err = w.Write([]byte("half of a long text"))
		}
		gametest.OK(t, err)
		os.Stdout.WriteString("writing\n")
		select {}
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "out")
	for _, next := range []string{"write", "sweep"} {
		child := exec.Command(os.Args[0], "-test.run=^TestKilled$")
		child.Env = append(os.Environ(), writing+"="+path)
		out := gametest.Must(child.StdoutPipe())(t)
		gametest.OK(t, child.Start())
		if line, err := bufio.NewReader(out).ReadString('\n'); line != "writing\n" {
			t.Errorf("the other process says %q, %v", line, err)
		}
		if err := durable.WriteFile(path, nil); !errors.Is(err, durable.ErrInUse) {
			t.Errorf("beside another process: %v", err)
		}
		gametest.OK(t, child.Process.Kill())
		_ = child.Wait() // killed, as wanted
		if got := names(t, dir); len(got) < 2 || got[0] != ".out.evald-lock" || got[1] != ".out.evald-new" {
			t.Fatalf("left by the kill: %v", got)
		}
		if next == "write" {
			gametest.OK(t, durable.WriteFile(path, []byte("short")))
		} else {
			gametest.OK(t, durable.Sweep(dir))
		}
		if got := names(t, dir); len(got) != 1 || read(t, path) != "short" {
			t.Errorf("%s: %v", next, got)
		}
	}
}

// If many writers write at once, the file is always one that one of them wrote whole.
func TestManyWriters(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "out")
	gametest.OK(t, durable.WriteFile(path, bytes.Repeat([]byte{'x'}, 1000)))
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			for range 100 {
				err := durable.WriteFile(path, bytes.Repeat([]byte{'a' + byte(i)}, 1000+i))
				if err != nil && !errors.Is(err, durable.ErrInUse) {
					t.Error(err)
				}
				if err := durable.Sweep(dir); err != nil {
					t.Error(err)
				}
				if got := read(t, path); got != strings.Repeat(got[:1], len(got)) || got[0] != 'x' && len(got) != 1000+int(got[0]-'a') {
					t.Errorf("%d bytes that begin with %q", len(got), got[:1])
				}
			}
		})
	}
	all.Wait()
	if got := names(t, dir); len(got) != 1 {
		t.Errorf("left: %v", got)
	}
}

func TestReadSettings(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for n, fits := range map[int]bool{0: true, durable.MostSettings: true, durable.MostSettings + 1: false} {
		if err := os.WriteFile(path, make([]byte, n), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := durable.ReadSettings(path); (err == nil) != fits || fits && len(got) != n {
			t.Errorf("a file of %d bytes: %d bytes, %v", n, len(got), err)
		}
	}
}
