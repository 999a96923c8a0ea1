package durabletest_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/durable/durabletest"
	"github.com/evald/evald/engine/game/gametest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What was synced, with the folder that has its name, is there after a power cut with the same bytes. Without the one or the other it is
// lost in some of the seeds, and in some it is not.
func TestMountForgets(t *testing.T) {
	for _, c := range []struct {
		name         string
		file, folder bool
	}{{"synced", true, true}, {"file", true, false}, {"folder", false, true}, {"neither", false, false}} {
		t.Run(c.name, func(t *testing.T) {
			m := durabletest.MountDisk(t, durabletest.NewDisk(rand.New(rand.NewPCG(1, 2))))
			kept := 0
			const rounds = 20
			for range rounds {
				path := filepath.Join(m.Dir, "a")
				f := gametest.Must(os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600))(t)
				gametest.Must(f.WriteString("first "))(t)
				gametest.Must(f.WriteString("second"))(t)
				if c.file {
					gametest.OK(t, f.Sync())
				}
				gametest.OK(t, f.Close())
				if c.folder {
					gametest.OK(t, durable.SyncDir(m.Dir))
				}
				if text := string(gametest.Must(os.ReadFile(path))(t)); text != "first second" {
					t.Fatalf("before the power cut it is %q", text)
				}
				m.PowerCut(t)
				text, err := os.ReadFile(path)
				if err != nil && !errors.Is(err, os.ErrNotExist) {
					t.Fatal(err)
				}
				if string(text) == "first second" {
					kept++
				}
				if err == nil {
					gametest.OK(t, os.Remove(path))
					gametest.OK(t, durable.SyncDir(m.Dir))
				}
			}
			if all := c.file && c.folder; all != (kept == rounds) || !all && kept == 0 {
				t.Errorf("the file is there after %d of %d power cuts", kept, rounds)
			}
		})
	}
}

// The functions of package durable work on a mount as on any file system: files replace others, locks exclude and end, folders are listed,
// and a full disk is an error.
func TestMountOperations(t *testing.T) {
	m := durabletest.MountDisk(t, durabletest.NewDisk(rand.New(rand.NewPCG(1, 2))))
	run := filepath.Join(m.Dir, "above", "run")
	d := gametest.Must(durable.OpenDir(run))(t)
	if _, err := durable.OpenDir(run); !errors.Is(err, durable.ErrFolderInUse) {
		t.Errorf("a second process: %v", err)
	}
	gametest.OK(t, d.Close())
	path := filepath.Join(run, "file")
	for _, text := range []string{"one", "two", ""} {
		gametest.OK(t, durable.WriteFile(path, []byte(text)))
		m.PowerCut(t)
		if got := string(gametest.Must(os.ReadFile(path))(t)); got != text {
			t.Errorf("%q, want %q", got, text)
		}
	}
	gametest.OK(t, os.Chmod(path, 0o640))
	if info := gametest.Must(os.Stat(path))(t); info.Mode() != 0o640 {
		t.Errorf("the mode is %v", info.Mode())
	}
	if entries := gametest.Must(os.ReadDir(run))(t); len(entries) == 0 || entries[len(entries)-1].IsDir() {
		t.Errorf("the folder has %v", entries)
	}
	before := m.Refused()
	m.Do(func(d *durabletest.Disk) { d.Full = true })
	if err := durable.WriteFile(path, []byte("three")); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("on a full disk: %v", err)
	}
	m.Do(func(d *durabletest.Disk) { d.Full = false })
	if m.Refused() == before {
		t.Error("the error is not counted")
	}
	gametest.OK(t, durable.WriteFile(path, []byte("three")))
	var died atomic.Bool
	m.KillAt(1, func() { died.Store(true) })
	if err := durable.WriteFile(path, []byte("four")); !errors.Is(err, syscall.EIO) || !died.Load() {
		t.Errorf("after a kill: %v", err)
	}
	m.PowerCut(t)
	if got := string(gametest.Must(os.ReadFile(path))(t)); got != "three" {
		t.Errorf("after a kill before it is written: %q", got)
	}
}
