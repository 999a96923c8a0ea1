package durable_test

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/durable/durabletest"
	"github.com/evald/evald/engine/game/gametest"
)

// killedAt runs a process that is killed at its operation n of those of a name, "" for all, and reports whether it ended before.
func killedAt(t *testing.T, d *durabletest.Disk, n int, name string, process func() error) (ended bool) {
	t.Helper()
	defer func() {
		if r := recover(); r != nil && r != durabletest.ErrKilled { //nolint:errorlint // the value of a panic
			panic(r)
		}
	}()
	d.Hook = func(op durabletest.Op) {
		if name == "" || name == op.Name {
			if n--; n == 0 {
				panic(durabletest.ErrKilled)
			}
		}
	}
	gametest.OK(t, process())
	d.Hook = nil
	return true
}

// seeds are how many power cuts a test tries at each operation.
const seeds = 40

// everyKill calls try with 1, 2, and so on, and several seeds for each, until the process that it kills at that operation ends before.
func everyKill(t *testing.T, try func(n int, d *durabletest.Disk) (ended bool)) {
	t.Helper()
	for n, ended := 1, false; !ended; n++ {
		for seed := range uint64(seeds) {
			ended = try(n, durabletest.NewDisk(rand.New(rand.NewPCG(seed, uint64(n)))))
			if t.Failed() {
				t.Fatalf("operation %d, seed %d", n, seed)
			}
		}
	}
}

// A file is the old one or the new one, wherever its writer was killed before the power failed. When the writer returns, it is the new one.
// A configuration of a new folder is there then, with its folder.
func TestPower(t *testing.T) {
	everyKill(t, func(n int, d *durabletest.Disk) bool {
		gametest.OK(t, durable.WriteFileIn(d, "/x", []byte("old")))
		ended := killedAt(t, d, n, "", func() error { return durable.WriteFileIn(d, "/x", []byte("newer")) })
		d.PowerCut()
		if got := string(gametest.Must(d.ReadFile("/x"))(t)); got != "newer" && (ended || got != "old") {
			t.Errorf("%q, the process ended: %v", got, ended)
		}
		gametest.OK(t, durable.WriteFileIn(d, "/x", []byte("last"))) // whatever was left
		if got := d.Files("/"); len(got) != 1 || got["x"] != "last" {
			t.Errorf("%v", got)
		}
		return ended
	})
	everyKill(t, func(n int, d *durabletest.Disk) bool {
		ended := killedAt(t, d, n, "", func() error {
			dir, err := durable.OpenDirIn(d, "/runs/a/0")
			if err != nil {
				return err
			}
			return errors.Join(durable.KeepConfigIn(dir, dir.Path("run.json"), begun()), dir.Close())
		})
		d.PowerCut()
		_, err := d.ReadFile("/runs/a/0/run.json")
		if err != nil && (ended || !errors.Is(err, fs.ErrNotExist)) {
			t.Errorf("error %v, the process ended: %v", err, ended)
		}
		return ended
	})
}

// A process finds what one before it has made and had not synced when it was killed. Whatever the second one makes depends on that, so when
// the power fails, it is not there without the first.
func TestPowerAfterKill(t *testing.T) {
	makes := func(d *durabletest.Disk, name string) func() error {
		return func() error {
			dir, err := durable.OpenDirIn(d, "/runs/a")
			if err != nil {
				return err
			}
			return errors.Join(durable.WriteFileIn(d, dir.Path(name), []byte("text")), dir.Close())
		}
	}
	everyKill(t, func(n int, d *durabletest.Disk) bool { // each syncing of a folder
		whole := killedAt(t, d, 1+n/10, "syncdir", makes(d, "first"))
		d.Kill()
		found := d.Files("/runs/a")["first"] != ""
		ended := killedAt(t, d, 1+n%10, "syncdir", makes(d, "second"))
		d.PowerCut()
		files := d.Files("/runs/a")
		if found && files["first"] == "" && files["second"] != "" || ended && files["second"] == "" {
			t.Errorf("the second process found the first file: %v; now there is %v", found, files)
		}
		return whole && n%10 == 9
	})
}

// A journal has all lines that were synced, and each line once, wherever it was killed while it was begun anew or appended to.
func TestJournalPower(t *testing.T) {
	everyKill(t, func(n int, d *durabletest.Disk) bool {
		synced := 2
		gametest.OK(t, durable.WriteFileIn(d, "/journal", nil))
		j := gametest.Must(durable.BeginJournalIn(d, "/journal", []line{{1}, {2}}))(t)
		gametest.OK(t, j.Close())
		ended := killedAt(t, d, n, "", func() error {
			j, err := durable.BeginJournalIn(d, "/journal", []line{{1}, {2}, {3}})
			if err != nil {
				return err
			}
			synced = 3
			for number := 4; number < 10; number += 2 { // two lines in a write
				if err := errors.Join(j.Add(line{number}, line{number + 1}), j.Sync()); err != nil {
					return err
				}
				synced = number + 1
			}
			return j.Close()
		})
		d.PowerCut()
		lines, err := durable.ReadJournalIn[line](d, "/journal", "")
		if err != nil || len(lines) < synced {
			t.Errorf("%v, %v; %d were synced", lines, err, synced)
		}
		for i, l := range lines {
			if l.Number != i+1 {
				t.Errorf("%v", lines)
			}
		}
		return ended
	})
}

// A bit that a disk flips is noticed, and the error names the file.
func TestFlippedJournal(t *testing.T) {
	for seed := range uint64(100) {
		d := durabletest.NewDisk(rand.New(rand.NewPCG(seed, 0)))
		gametest.OK(t, d.Mkdir("/run", 0o755))
		gametest.OK(t, gametest.Must(durable.BeginJournalIn(d, "/run/journal", []line{{1}, {2}, {3}}))(t).Close())
		path := d.Flip("/run")
		lines, err := durable.ReadJournalIn[line](d, path, "")
		if err == nil && len(lines) == 3 || err != nil && !strings.HasPrefix(err.Error(), path+": line ") {
			t.Errorf("seed %d: %v, %v", seed, lines, err)
		}
	}
}
