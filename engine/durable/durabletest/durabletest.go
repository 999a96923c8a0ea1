// Package durabletest is for tests: it damages the files of a run and checks the program's reaction, and it simulates a disk.
//
//	durabletest.go  files with a damaged byte
//	disk.go         the disk: kills, power cuts, other faults
//	diskfs.go       the disk as a durable.FS
//	small_linux.go  a small disk of the kernel, which a test fills
//
// engine/durable/LOG.md has the reasons for a simulated disk of our own.
package durabletest

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evald/evald/engine/game/gametest"
)

// flips are the values that are XORed with bytes to damage them, in turn.
var flips = []byte{0x01, 0x20, 0x80, 0xff, 0x02, 0x10}

// Damage changes one byte of a file in a copy of the folder, calls try on the copy, and repeats this with the next byte in a new copy. try
// must return an error that names the file, or the same result as for the undamaged folder. Damage visits the files for which these returns
// true (all if these is nil) and changes one byte in every stride. Outside make soak, unless stride is 1, it changes one byte in every
// 8*stride. Under the race detector Damage skips the rest of the test: try only repeats, with other files, code that the caller has already
// run.
func Damage(t *testing.T, dir string, stride int, these func(name string) bool, try func(dir string) (string, error)) {
	t.Helper()
	if gametest.Race {
		t.Skip("the race detector finds nothing more in repetitions")
	}
	if stride > 1 && !gametest.Soak() {
		stride *= 8
	}
	work := filepath.Join(t.TempDir(), "run")
	fresh := func() {
		if err := os.RemoveAll(work); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(work, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
	}
	fresh()
	want, err := try(work)
	if err != nil {
		t.Fatalf("undamaged: %v", err)
	}
	all, refused, bytes := 0, 0, 0
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if these != nil && !these(name) {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		bytes += len(text)
		for at := 0; at < len(text); at += stride {
			fresh()
			was := text[at]
			text[at] ^= flips[all%len(flips)]
			if err := os.WriteFile(filepath.Join(work, name), text, 0o644); err != nil {
				return err
			}
			got, err := try(work)
			switch all++; {
			case err != nil && !strings.Contains(err.Error(), filepath.Base(name)):
				t.Errorf("%s with %q in place of %q at %d: the error does not name it: %v", name, text[at], was, at, err)
			case err != nil:
				refused++
			case got != want:
				t.Errorf("%s with %q in place of %q at %d: silently different", name, text[at], was, at)
			}
			text[at] = was
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d of %d bytes damaged: %d refused, %d without consequence, none silently different unless said above", all, bytes, refused, all-refused)
	if refused == 0 {
		t.Error("nothing was refused")
	}
}
