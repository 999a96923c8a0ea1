package models

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evald/evald/engine/game/gametest"
)

func add(t testing.TB, s Store, name, content string) Entry {
	t.Helper()
	e, added, err := s.Add(Entry{Name: name, Config: "1x2", Note: "n"}, []byte(content))
	if err != nil || !added {
		t.Fatalf("add %s: added %v, %v", name, added, err)
	}
	return e
}

func TestStore(t *testing.T) {
	s := Store{filepath.Join(t.TempDir(), "not", "yet")}
	if list, err := s.List(); list != nil || err != nil {
		t.Errorf("a store that does not exist has %v, %v", list, err)
	}
	created := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	first, added, err := s.Add(Entry{Name: "mine", Config: "6x64", Trained: true, Rules: []string{"7x6x4"}, Note: "a note", Created: created}, []byte("one"))
	want := Entry{
		Name: "mine", Version: 1, File: "model.safetensors", SHA256: "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed",
		Config: "6x64", Trained: true, Rules: []string{"7x6x4"}, Note: "a note", Created: created,
	}
	if diff := cmp.Diff(want, first); err != nil || !added || diff != "" {
		t.Fatalf("added %v, %v, %s", added, err, diff)
	}
	second, other := add(t, s, "mine", "two"), add(t, s, "Other-1.5_b", "one")
	if second.Version != 2 || other.Version != 1 {
		t.Errorf("versions are %d and %d, want 2 and 1", second.Version, other.Version)
	}
	same, added, err := s.Add(Entry{Name: "mine", Note: "n", Created: created}, []byte("two"))
	if diff := cmp.Diff(second, same); err != nil || added || diff != "" {
		t.Errorf("the same bytes again: added %v, %v, %s", added, err, diff)
	}
	third, added, err := s.Add(Entry{Name: "mine", Note: "n", Trained: true, Rules: []string{"7x6x4"}}, []byte("two"))
	if err != nil || !added || third.Version != 3 {
		t.Errorf("the same bytes with rules: version %d, added %v, %v", third.Version, added, err)
	}
	list, err := s.List()
	if diff := cmp.Diff([]Entry{other, first, second, third}, list); err != nil || diff != "" {
		t.Errorf("list: %v, %s", err, diff)
	}
	for ref, want := range map[string]string{"mine": "two", "mine@1": "one", "mine@2": "two", "Other-1.5_b": "one"} {
		e, ok, err := s.Find(ref)
		if err != nil || !ok {
			t.Fatalf("find %s: %v, %v", ref, ok, err)
		}
		if file, err := s.Read(e); err != nil || string(file) != want {
			t.Errorf("read %s: %q, %v", ref, file, err)
		}
	}
	for _, ref := range []string{"mine@4", "nobody", "nobody@1", "MINE"} {
		if _, ok, err := s.Find(ref); ok || err != nil {
			t.Errorf("find %s: %v, %v, want neither", ref, ok, err)
		}
	}
}

// What is removed is gone at once, and nothing else changes.
func TestRemove(t *testing.T) {
	dir := t.TempDir()
	s := Store{dir}
	for _, model := range []string{"a", "b", "b", "b", "c", "c"} {
		add(t, s, model, s.Names())
	}
	for _, c := range []struct {
		ref     string
		removed []string
		left    string
	}{
		{"b@2", []string{"b@2"}, "a@1, b@1, b@3, c@1, c@2"},
		{"c", []string{"c@1", "c@2"}, "a@1, b@1, b@3"},
		{"b@3", []string{"b@3"}, "a@1, b@1"},
		{"b@1", []string{"b@1"}, "a@1"},
	} {
		size := int64(0)
		for _, ref := range c.removed {
			name, version, _ := ParseRef(ref)
			size += s.size(name, version)
		}
		got, err := s.Remove(c.ref)
		if diff := cmp.Diff(Removed{c.removed, size}, got); err != nil || diff != "" || size < 200*int64(len(c.removed)) {
			t.Errorf("remove %s: %v, %s", c.ref, err, diff)
		}
		want := fmt.Sprintf("model %q is not in the store %s, which has: %s", c.ref, dir, c.left)
		if _, err := s.Remove(c.ref); err == nil || err.Error() != want {
			t.Errorf("removed a second time: %v, want %s", err, want)
		}
	}
	if e := add(t, s, "b", "again"); e.Version != 1 {
		t.Errorf("added after all versions were removed: version %d", e.Version)
	}
	damaged := add(t, s, "damaged", "x")
	gametest.OK(t, os.Remove(filepath.Join(s.folder("damaged", 1), manifestFile)))
	if got, err := s.Remove("damaged"); err != nil || !slices.Equal(got.Refs, []string{damaged.Ref()}) {
		t.Errorf("a damaged model: %+v, %v", got, err)
	}
	for ref, want := range map[string]string{
		"../a": "model name ", "a@0": "is not a number from 1", "": "model name ", "A": `"A" is not in the store`,
	} {
		if _, err := s.Remove(ref); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("remove %q: %v", ref, err)
		}
	}
	if left := leftIn(t, dir); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
	if _, err := (Store{filepath.Join(dir, "none")}).Remove("a"); err == nil || !strings.HasSuffix(err.Error(), "which has: nothing") {
		t.Errorf("a store that does not exist: %v", err)
	}
}

// A process killed while it removes leaves every model whole or not at all, and its temporary folders are removed later.
func TestRemoveKilled(t *testing.T) {
	dir := t.TempDir()
	s := Store{dir}
	const models = 40
	for i := range models {
		add(t, s, "a", fmt.Sprint(i, strings.Repeat("x", 1<<20)))
	}
	killAfter(t, dir, "removing", 5)
	list, err := s.List()
	if err != nil || len(list) > models-4 {
		t.Errorf("%d models, %v", len(list), err)
	}
	for _, e := range list {
		if _, err := s.Read(e); err != nil {
			t.Error(err)
		}
	}
}

// No name leads out of the store.
func TestBadNames(t *testing.T) {
	dir := t.TempDir()
	s := Store{filepath.Join(dir, "store")}
	for _, name := range []string{
		"", ".", "..", "../x", "/etc/x", "a/b", `a\b`, ".hidden", "-x", "a b", "a\x00", "a\n", "ü", "a@1", "a:b", "a,b", strings.Repeat("x", 65),
	} {
		if _, _, err := s.Add(Entry{Name: name}, []byte("x")); err == nil || !strings.HasPrefix(err.Error(), "model name ") {
			t.Errorf("add %q: %v", name, err)
		}
		if _, _, err := s.Find(name); err == nil && name != "a@1" {
			t.Errorf("find %q is no error", name)
		}
	}
	for _, version := range []string{"", "0", "-1", "01", "+1", "1 ", "x", "99999999999", "1/../../x"} {
		if _, _, err := s.Find("a@" + version); err == nil || !strings.Contains(err.Error(), "is not a number from 1") {
			t.Errorf("version %q: %v", version, err)
		}
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 0 {
		t.Errorf("files were made: %v, %v", files, err)
	}
}

// Damage to the files is found and named, and does not hide other models.
func TestDamagedStore(t *testing.T) {
	for _, c := range []struct {
		name, file, content, want string
	}{
		{"flipped", OwnFile, "twp", "but the manifest says "},
		{"no model", OwnFile, "-", "no such file"},
		{"no manifest", manifestFile, "-", "no such file"},
		{"no JSON", manifestFile, "x", "manifest.json: invalid character"},
		{"empty", manifestFile, "", "manifest.json: unexpected end of JSON input"},
		{"no format", manifestFile, "{}", "manifest.json: format is 0, want 1"},
		{"too new", manifestFile, `{"format":2,"name":["unlike","today"]}`, "is of format 2, this evald reads 1: use a newer evald"},
		{"other file", manifestFile, `{"format":1,"file":"../../../etc/passwd"}`, `file is "../../../etc/passwd", want model.safetensors or model.onnx`},
		{"no sum", manifestFile, `{"format":1,"file":"model.safetensors"}`, `sha256 is "", want 64 hexadecimal digits`},
		{"other name", manifestFile, `{"format":1,"file":"model.safetensors","version":1,"name":"b","sha256":"` + strings.Repeat("0", 64) + `"}`, "its manifest is that of b@1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := Store{t.TempDir()}
			good, bad := add(t, s, "a", "one"), add(t, s, "a", "two")
			path := filepath.Join(s.folder("a", 2), c.file)
			gametest.OK(t, os.Remove(path))
			if c.content != "-" {
				gametest.OK(t, os.WriteFile(path, []byte(c.content), 0o644))
			}
			list, err := s.List()
			if c.file == OwnFile {
				if _, err = s.Read(bad); len(list) != 2 {
					t.Errorf("%d models are listed, want both", len(list))
				}
			} else if diff := cmp.Diff([]Entry{good}, list); diff != "" {
				t.Errorf("list: %s", diff)
			} else if _, ok, err := s.Find("a"); ok || err == nil {
				t.Errorf("find of the damaged version: %v, %v", ok, err)
			}
			if err == nil || !strings.HasPrefix(err.Error(), "model ") || !strings.Contains(err.Error(), c.want) || !strings.HasSuffix(err.Error(), "remove the folder "+s.folder("a", 2)+", or import the model again") {
				t.Errorf("error %v, want %q", err, c.want)
			}
			if third := add(t, s, "a", "two"); third.Version != 3 { // the advice in the error works
				t.Errorf("imported again as version %d, want 3", third.Version)
			}
		})
	}
}

func TestReadOnly(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	gametest.OK(t, os.WriteFile(file, nil, 0o644))
	_, _, err := Store{filepath.Join(file, "store")}.Add(Entry{Name: "a"}, []byte("x"))
	if err == nil || !strings.HasSuffix(err.Error(), "set EVALD_MODELS to a folder that can be written") {
		t.Errorf("a store in a file: %v", err)
	}
	if _, err := (Store{file}).List(); err == nil || !strings.HasPrefix(err.Error(), "model store: ") {
		t.Errorf("a file as a store: %v", err)
	}
}

// Concurrent writers each get versions of their own, and a reader never sees half a model.
func TestConcurrentAdds(t *testing.T) {
	s := Store{t.TempDir()}
	const writers, each = 8, 5
	var adding, reading sync.WaitGroup
	var added atomic.Bool
	reading.Go(func() {
		for last := false; !last && !t.Failed(); {
			last = added.Load()
			list, err := s.List()
			for _, e := range list {
				_, readErr := s.Read(e)
				err = errors.Join(err, readErr)
			}
			if err != nil {
				t.Error(err)
			}
		}
	})
	for w := range writers {
		adding.Go(func() {
			for i := range each {
				if _, added, err := s.Add(Entry{Name: "a"}, fmt.Appendf(nil, "%d of %d", i, w)); err != nil || !added {
					t.Errorf("added %v, %v", added, err)
				}
			}
		})
	}
	adding.Wait()
	added.Store(true)
	reading.Wait()
	list, err := s.List()
	if err != nil || len(list) != writers*each {
		t.Fatalf("%d models, %v; want %d", len(list), err, writers*each)
	}
	sums := map[string]bool{}
	for i, e := range list {
		if e.Version != i+1 {
			t.Errorf("version %d comes as number %d", e.Version, i+1)
		}
		sums[e.SHA256] = true
	}
	if len(sums) != writers*each {
		t.Errorf("%d different files, want %d", len(sums), writers*each)
	}
}

// TestChild is the other process of the tests of kills: it removes every model, or adds until it is killed.
func TestChild(t *testing.T) {
	s, removes := Store{os.Getenv("MODELS_TEST_DIR")}, os.Getenv("MODELS_TEST_WORD") == "removing"
	if s.dir == "" {
		t.Skip("part of TestKilled and TestRemoveKilled")
	}
	list := gametest.Must(s.List())(t)
	for i := 0; removes && i < len(list); i++ {
		fmt.Println("removing")
		if _, err := s.Remove(list[i].Ref()); err != nil {
			t.Error(err)
		}
	}
	for i := 0; !removes; i++ {
		add(t, s, "a", fmt.Sprint(os.Getpid(), strings.Repeat("x", 1<<20), i))
		fmt.Println("added")
	}
}

// killAfter runs TestChild in its own process, and kills it after count lines with a word, "removing" or "added". It
// returns how many such lines there were.
func killAfter(t *testing.T, dir, word string, count int) (seen int) {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run=^TestChild$", "-test.v")
	child.Env = append(os.Environ(), "MODELS_TEST_DIR="+dir, "MODELS_TEST_WORD="+word)
	out := gametest.Must(child.StdoutPipe())(t)
	gametest.OK(t, child.Start())
	for lines := bufio.NewScanner(out); seen < count && lines.Scan(); {
		if lines.Text() == word {
			seen++
		}
	}
	gametest.OK(t, child.Process.Kill())
	_ = child.Wait() // killed, as intended, or finished
	return seen
}

// A process killed at any moment leaves every model whole or not at all, and does not block the next process.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	added := 0
	for round := range 4 {
		added += killAfter(t, dir, "added", round+1)
	}
	s := Store{dir}
	list, err := s.List()
	if err != nil || len(list) < added {
		t.Fatalf("%d models, %v; %d were added", len(list), err, added)
	}
	for i, e := range list {
		if _, err := s.Read(e); err != nil || e.Version != i+1 {
			t.Errorf("%s as number %d: %v", e.Ref(), i+1, err)
		}
	}
	add(t, s, "a", "after all that")

	// Abandoned temporary folders are removed at once, whatever the result of the next import; folders in use are not.
	for _, parent := range []string{dir, filepath.Join(dir, "a")} {
		gametest.OK(t, os.MkdirAll(filepath.Join(parent, temporary+"left", "removed"), 0o755))
	}
	used, done, err := makeTemporary(filepath.Join(dir, "a"))
	if err != nil {
		t.Fatal(err)
	}
	if _, added, err := s.Add(Entry{Name: "a", Note: "n"}, []byte("after all that")); err != nil || added {
		t.Errorf("added %v, %v", added, err)
	}
	if left := leftIn(t, dir); !slices.Equal(left, []string{used}) {
		t.Errorf("temporary folders are %v, want %s alone", left, used)
	}
	done()
	if left := leftIn(t, dir); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// leftIn lists the temporary folders of a store.
func leftIn(t *testing.T, dir string) (all []string) {
	t.Helper()
	for _, pattern := range []string{temporary + "*", filepath.Join("*", temporary+"*")} {
		some := gametest.Must(filepath.Glob(filepath.Join(dir, pattern)))(t)
		all = append(all, some...)
	}
	return all
}

func TestUserStore(t *testing.T) {
	for _, c := range []struct{ models, data, home, want string }{
		{"/m", "/d", "/h", "/m"},
		{"", "/d", "/h", "/d/evald/models"},
		{"", "relative", "/h", "/h/.local/share/evald/models"},
		{"", "", "/h", "/h/.local/share/evald/models"},
		{"", "", "", ""},
	} {
		t.Setenv("EVALD_MODELS", c.models)
		t.Setenv("XDG_DATA_HOME", c.data)
		t.Setenv("HOME", c.home)
		got, err := UserStore()
		if got.Dir() != c.want || (err == nil) == (c.want == "") {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
	}
}

func FuzzManifest(f *testing.F) {
	f.Add([]byte(`{"format":1,"name":"a","version":1,"file":"model.safetensors","sha256":"` + strings.Repeat("0", 64) + `","rules":["7x6x4"],"created":"2026-01-02T03:04:05Z"}`))
	f.Add([]byte(`{"format":2}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		e, err := parseManifest(text)
		if err == nil && (checkName(e.Name) != nil || !slices.Contains(modelFiles, e.File) || len(e.SHA256) != 64) {
			t.Errorf("accepted %+v", e)
		}
	})
}
