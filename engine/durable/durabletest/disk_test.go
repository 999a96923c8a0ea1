package durabletest_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/bits"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/durable/durabletest"
	"github.com/evald/evald/engine/game/gametest"
)

func newDisk(seed uint64) *durabletest.Disk {
	return durabletest.NewDisk(rand.New(rand.NewPCG(seed, 2)))
}

// write writes a file and syncs it, but not its folder.
func write(t *testing.T, files durable.FS, path, text string) durable.Handle {
	t.Helper()
	f := gametest.Must(files.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644))(t)
	gametest.Must(f.Write([]byte(text)))(t)
	gametest.OK(t, f.Sync())
	return f
}

// kind is what programs ask of an error.
func kind(err error) string {
	for _, kind := range []error{fs.ErrNotExist, fs.ErrExist, fs.ErrClosed, durable.ErrLocked} {
		if errors.Is(err, kind) {
			return kind.Error()
		}
	}
	if err != nil {
		return "another error"
	}
	return ""
}

// Without faults the disk does what the operating system does.
func TestLikeOS(t *testing.T) {
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 3))
		dir := t.TempDir()
		disk := newDisk(seed)
		gametest.OK(t, durable.MkdirAllIn(disk, dir))
		var locks [2]map[string]durable.Lock
		both := []durable.FS{durable.OS, disk}
		for i := range locks {
			locks[i] = map[string]durable.Lock{}
		}
		path := func() string {
			names := []string{"a", "b", "c", "d", filepath.Join("d", "a"), filepath.Join("d", "b"), filepath.Join("none", "a"), filepath.Join("a", "b")}
			return filepath.Join(dir, names[random.IntN(len(names))])
		}
		for range 60 {
			p, q, op, text := path(), path(), random.IntN(9), []byte(strings.Repeat("text", random.IntN(4)))
			flag := os.O_RDWR | []int{0, os.O_CREATE, os.O_CREATE | os.O_EXCL, os.O_APPEND}[random.IntN(4)]
			at := int64(random.IntN(6))
			if filepath.Dir(p) != filepath.Dir(q) {
				q = filepath.Join(filepath.Dir(p), "b")
			}
			var got [2]string
			for i, files := range both {
				var err error
				more := ""
				switch op {
				case 0, 1:
					var f durable.Handle
					if f, err = files.OpenFile(p, flag, 0o644); err == nil {
						_, err1 := f.Write(text)
						_, err2 := f.Write([]byte("more"))
						buffer := make([]byte, 3)
						n, err3 := f.ReadAt(buffer, at)
						more = fmt.Sprint(err1, err2, string(buffer[:n]), err3)
						if flag&os.O_APPEND == 0 {
							_, err4 := f.WriteAt(text, at)
							more += fmt.Sprint(err4)
						}
						info, err5 := f.Stat()
						more += fmt.Sprint(info.Size(), info.Name(), info.Mode(), err5, f.Sync(), f.Close(), kind(f.Close()))
					}
				case 2:
					err = files.Mkdir(p, 0o755)
				case 3:
					if info, e := files.Lstat(p); e == nil && info.Mode().IsRegular() { // of folders there is nothing to simulate
						err = files.Rename(p, q)
					}
				case 4:
					err = files.Remove(p)
				case 5:
					var info fs.FileInfo
					if info, err = files.Stat(p); err == nil {
						more = fmt.Sprint(info.IsDir(), info.Name(), info.Mode())
					}
				case 6:
					var entries []fs.DirEntry
					entries, err = files.ReadDir(p)
					for _, e := range entries {
						more += fmt.Sprint(e.Name(), e.Type())
					}
				case 7:
					var text []byte
					text, err = files.ReadFile(p)
					more = string(text)
				case 8:
					if l := locks[i][p]; l != nil {
						err = l.Release()
						delete(locks[i], p)
					} else if l, err = files.Lock(p); err == nil {
						locks[i][p] = l
						_, again := files.Lock(p)
						more = kind(again)
					}
				}
				got[i] = kind(err) + ": " + more
				if err == nil && more == "" && op == 3 {
					got[i] += kind(err)
				}
			}
			if got[0] != got[1] {
				t.Fatalf("seed %d: operation %d of %s and %s: the operating system says %s\nand the disk says %s", seed, op, p, q, got[0], got[1])
			}
		}
		want := map[string]string{}
		gametest.OK(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				want[strings.TrimPrefix(path, dir+string(filepath.Separator))] = string(gametest.Must(os.ReadFile(path))(t))
			}
			return err
		}))
		if diff := cmp.Diff(want, disk.Files(dir)); diff != "" {
			t.Fatalf("seed %d (-os +disk):\n%s", seed, diff)
		}
		for _, l := range slices.Concat(slices.Collect(maps.Values(locks[0])), slices.Collect(maps.Values(locks[1]))) {
			_ = l.Release() // their files may have been removed
		}
	}
}

// What is synced, and its name too, survives. What is not may be there, torn, full of zeros, or gone.
func TestPowerCut(t *testing.T) {
	const old, more = "what was synced", " and what was not"
	bodies, names := map[string]int{}, map[string]int{}
	for seed := range uint64(400) {
		d := newDisk(seed)
		gametest.OK(t, durable.MkdirAllIn(d, "/run"))
		f := write(t, d, "/run/kept", old)
		write(t, d, "/run/overwritten", old)
		gametest.OK(t, d.SyncDir("/run"))
		gametest.Must(f.Write([]byte(more)))(t)
		g := gametest.Must(d.OpenFile("/run/overwritten", os.O_RDWR, 0))(t)
		gametest.Must(g.WriteAt([]byte("WHAT"), 0))(t)
		write(t, d, "/run/unnamed", old)
		d.PowerCut()

		text := string(gametest.Must(d.ReadFile("/run/kept"))(t))
		if !strings.HasPrefix(text, old) {
			t.Fatalf("seed %d: %q", seed, text)
		}
		rest := text[len(old):]
		part := strings.TrimRight(rest, "\x00")
		if !strings.HasPrefix(more, part) || len(rest) > len(more) {
			t.Fatalf("seed %d: %q", seed, text)
		}
		switch {
		case rest == more:
			bodies["all"]++
		case rest == "":
			bodies["none"]++
		case part == rest:
			bodies["torn"]++
		default:
			bodies["zeros"]++
		}
		text = string(gametest.Must(d.ReadFile("/run/overwritten"))(t))
		if !strings.EqualFold(text, old) {
			t.Fatalf("seed %d: %q", seed, text)
		}
		if text[:4] == "what" {
			bodies["old"]++
		} else if text[:4] == "WHAT" {
			bodies["new"]++
		}
		_, err := d.ReadFile("/run/unnamed")
		names[kind(err)]++
		before := d.Files("/")
		d.PowerCut()
		if diff := cmp.Diff(before, d.Files("/")); diff != "" {
			t.Fatalf("seed %d: a second power cut: %s", seed, diff)
		}
	}
	for _, what := range []string{"all", "none", "torn", "zeros", "old", "new"} {
		if bodies[what] < 20 {
			t.Errorf("%s: %d times", what, bodies[what])
		}
	}
	if names[""] < 50 || names[fs.ErrNotExist.Error()] < 50 {
		t.Errorf("names: %v", names)
	}
}

// After a Sync that failed the bytes are there until the power fails, and the next Sync does not save them.
func TestFailingSync(t *testing.T) {
	lost, failed := 0, 0
	for seed := range uint64(200) {
		d := newDisk(seed)
		f := write(t, d, "x", "durable")
		gametest.OK(t, d.SyncDir("/"))
		gametest.Must(f.Write([]byte(" more")))(t)
		d.Failing = true
		err := f.Sync()
		d.Failing = false
		gametest.OK(t, f.Sync())
		if got := d.Files("/")["x"]; got != "durable more" {
			t.Fatalf("seed %d: %q", seed, got)
		}
		d.PowerCut()
		switch got := d.Files("/")["x"]; {
		case got == "durable more":
		case got == "durable\x00\x00\x00\x00\x00" && errors.Is(err, syscall.EIO):
			lost++
		default:
			t.Fatalf("seed %d: %q after error %v", seed, got, err)
		}
		if err != nil {
			failed++
		}
	}
	if failed < 50 || failed > 150 || lost < failed/2 || lost == failed {
		t.Errorf("%d of 200 failed, and %d of these were lost", failed, lost)
	}
}

// A name whose SyncDir failed is durable when it succeeds.
func TestFailingSyncDir(t *testing.T) {
	failed := 0
	for seed := range uint64(100) {
		d := newDisk(seed)
		write(t, d, "x", "text")
		d.Failing = true
		for d.SyncDir("/") != nil {
			failed++
		}
		d.PowerCut()
		if got := d.Files("/")["x"]; got != "text" {
			t.Fatalf("seed %d: %q", seed, got)
		}
	}
	if failed < 50 {
		t.Errorf("it failed %d times", failed)
	}
}

// A rename is there or not, whatever else of the folder is lost. Later changes of a name need the earlier ones.
func TestRenames(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(400) {
		d := newDisk(seed)
		gametest.OK(t, d.Mkdir("/run", 0o755))
		write(t, d, "/run/x", "old")
		write(t, d, "/run/other", "old")
		gametest.OK(t, errors.Join(d.SyncDir("/"), d.SyncDir("/run")))
		write(t, d, "/run/new", "new")
		gametest.OK(t, d.Rename("/run/new", "/run/x"))
		gametest.OK(t, d.Remove("/run/other"))
		d.PowerCut()
		files := d.Files("/run")
		if x := files["x"]; x != "old" && x != "new" || x == "new" && files["new"] != "" {
			t.Fatalf("seed %d: %v", seed, files)
		}
		seen[fmt.Sprint(files)]++
	}
	for _, want := range []map[string]string{ // the removal may come first
		{"x": "old", "other": "old"},
		{"x": "old", "other": "old", "new": "new"},
		{"x": "new", "other": "old"},
		{"x": "old"},
		{"x": "old", "new": "new"},
		{"x": "new"},
	} {
		if seen[fmt.Sprint(want)] == 0 {
			t.Errorf("never %v", want)
		}
	}
	if len(seen) != 6 {
		t.Errorf("%v", seen)
	}
}

// A folder whose name is not durable is lost with all that is in it.
func TestLostFolder(t *testing.T) {
	lost := 0
	for seed := range uint64(50) {
		d := newDisk(seed)
		gametest.OK(t, d.Mkdir("/run", 0o755))
		write(t, d, "/run/x", "text")
		gametest.OK(t, d.SyncDir("/run"))
		d.PowerCut()
		if text := d.Files("/")["run/x"]; text == "" {
			lost++
		} else if text != "text" {
			t.Errorf("%q", text)
		}
	}
	if lost < 10 || lost > 40 {
		t.Errorf("lost %d times", lost)
	}
}

// A kill loses nothing. Handles and locks of the process are over.
func TestKill(t *testing.T) {
	d := newDisk(1)
	f := write(t, d, "x", "text")
	gametest.Must(f.Write([]byte(" more")))(t)
	lock := gametest.Must(d.Lock("lock"))(t)
	if _, err := d.Lock("lock"); !errors.Is(err, durable.ErrLocked) {
		t.Errorf("locked twice: %v", err)
	}
	d.Kill()
	if got := d.Files("/"); got["x"] != "text more" {
		t.Errorf("%q", got)
	}
	_, err := f.Write([]byte("late"))
	for _, err := range []error{err, f.Sync(), f.Close(), lock.Release()} {
		if !errors.Is(err, fs.ErrClosed) {
			t.Errorf("after the kill: %v", err)
		}
	}
	lock = gametest.Must(d.Lock("lock"))(t)
	gametest.OK(t, lock.Release())
	if got := d.Files("/"); len(got) != 1 {
		t.Errorf("%v", got)
	}
}

// dies returns whether do panics with a value.
func dies(value any, do func()) (died bool) {
	defer func() { died = recover() == value }()
	do()
	return false
}

// A process can be killed at each operation, also when a part of a write is done. After that its operations do nothing.
func TestKilledAt(t *testing.T) {
	parts := map[string]bool{}
	for seed := range uint64(50) {
		d := newDisk(seed)
		f := write(t, d, "x", "")
		d.KillAt(d.Operations + 2)
		if !dies(durabletest.ErrKilled, func() { _, _ = f.Write([]byte("text")) }) || !dies(durabletest.ErrKilled, func() { _ = d.Remove("x") }) {
			t.Fatal("the process was not killed")
		}
		d.Kill()
		parts[string(gametest.Must(d.ReadFile("x"))(t))] = true
	}
	if len(parts) != 4 {
		t.Errorf("%v, want each part of the text", parts)
	}
	d, value := newDisk(0), errors.New("mine")
	var ops []string
	d.Hook = func(op durabletest.Op) {
		if ops = append(ops, op.Name+" "+op.Path); op.Name == "sync" {
			panic(value)
		}
	}
	if !dies(value, func() { write(t, d, "/x", "text") }) {
		t.Error("the process was not killed")
	}
	if want := []string{"open /x", "write /x", "write middle /x", "sync /x"}; !slices.Equal(ops, want) || d.Operations != len(want) {
		t.Errorf("%d operations %q", d.Operations, ops)
	}
}

// A full disk takes a part of a write and nothing new. What is there can be changed and removed.
func TestFull(t *testing.T) {
	d := newDisk(5)
	f := write(t, d, "x", "text")
	write(t, d, "y", "old")
	d.Full = true
	n, err := f.Write([]byte(" and more"))
	_, create := d.OpenFile("z", os.O_CREATE, 0o644)
	_, locked := d.Lock("lock")
	for _, err := range []error{err, create, locked, d.Mkdir("folder", 0o755)} {
		if !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("on a full disk: %v", err)
		}
	}
	gametest.OK(t, errors.Join(d.Rename("y", "x2"), d.Remove("x2"), f.Sync()))
	if got := d.Files("/"); len(got) != 1 || got["x"] != "text"+" and more"[:n] {
		t.Errorf("%q, of which %d bytes are new", got, n)
	}
	d.Full = false
	gametest.Must(f.Write([]byte("!")))(t)
}

func TestFlip(t *testing.T) {
	d := newDisk(3)
	if path := d.Flip("/none"); path != "" {
		t.Error(path)
	}
	for _, path := range []string{"/run/a", "/run/b", "/run/empty"} {
		gametest.OK(t, durable.MkdirAllIn(d, "/run"))
		gametest.OK(t, durable.WriteFileIn(d, path, []byte(strings.Repeat("x", 100*(len("/run/empty")-len(path))))))
	}
	flipped := map[string]bool{}
	for range 50 {
		before := d.Files("/")
		path := d.Flip("/run")
		d.PowerCut()
		flipped[path] = true
		ones := 0
		for name, text := range d.Files("/") {
			for i := range text {
				n := bits.OnesCount8(text[i] ^ before[name][i])
				if ones += n; n > 0 && "/"+name != path {
					t.Errorf("%s is changed, and it says %q", name, path)
				}
			}
		}
		if ones != 1 {
			t.Errorf("%d bits are changed", ones)
		}
	}
	if len(flipped) != 2 {
		t.Error(flipped)
	}
}

// Files have the times of the caller's clock.
func TestClock(t *testing.T) {
	now := time.Unix(1000, 0)
	d := newDisk(0)
	d.Clock = func() time.Time { return now }
	f := write(t, d, "x", "text")
	now = now.Add(-time.Hour)
	gametest.Must(f.Write([]byte("back")))(t)
	for _, e := range gametest.Must(d.ReadDir("/"))(t) {
		if info := gametest.Must(e.Info())(t); !info.ModTime().Equal(now) || info.Size() != 8 || info.Mode() != 0o644 {
			t.Errorf("%v, %d bytes, %v", info.ModTime(), info.Size(), info.Mode())
		}
	}
}
