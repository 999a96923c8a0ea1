package kaggle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/mcts/opening"
)

var folder string // of the program that build builds

var build = sync.OnceValues(func() (out []byte, err error) {
	if folder, err = os.MkdirTemp("", "evald-kaggle-"); err != nil {
		return nil, err
	}
	return exec.Command("go", "build", "-o", folder, "github.com/evald/evald/cmd/evald").CombinedOutput()
})

// program is the path of evald itself: the program of EVALD_PROGRAM, or else one that is built once for all tests.
func program(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("needs the program")
	}
	if path := os.Getenv("EVALD_PROGRAM"); path != "" {
		return path
	}
	if out, err := build(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return filepath.Join(folder, "evald")
}

func TestMain(m *testing.M) {
	os.Setenv("EVALD_CACHE_DIR", os.DevNull) // the program does not measure then
	code := m.Run()
	_ = os.RemoveAll(folder)
	os.Exit(code)
}

func write(t *testing.T, path string, text []byte, mode os.FileMode) {
	t.Helper()
	gametest.OK(t, os.WriteFile(path, text, mode))
}

func spec(t testing.TB, text string) agent.Spec {
	t.Helper()
	return gametest.Must(agent.Parse(text))(t)
}

func read1(t *testing.T, path string) []byte {
	t.Helper()
	return gametest.Must(os.ReadFile(path))(t)
}

// The same input gives the same bytes, whenever its files were written.
func TestPackAgain(t *testing.T) {
	model := filepath.Join(t.TempDir(), "model")
	var archives [2]bytes.Buffer
	for i := range archives {
		write(t, model, []byte("the same"), 0o600)
		later := time.Now().Add(time.Duration(i) * time.Hour)
		gametest.OK(t, os.Chtimes(model, later, later))
		s := Submission{Agent: spec(t, "mcts:visits=5"), Model: model, Program: "/bin/true"}
		gametest.OK(t, s.write(&archives[i], s.Agent))
	}
	if !bytes.Equal(archives[0].Bytes(), archives[1].Bytes()) {
		t.Error("the same submission gave two different archives")
	}
}

// An archive has the program, main.py and the model.
func TestPack(t *testing.T) {
	dir := t.TempDir()
	model := filepath.Join(dir, "a, strange: name")
	write(t, model, read1(t, "../../../../models/seeded-2x16.safetensors"), 0o600)
	var written bytes.Buffer
	gametest.OK(t, opening.New(game.MustBoard(game.Connect4)).Write(&written))
	book := filepath.Join(dir, "some.book")
	write(t, book, written.Bytes(), 0o600)
	s := Submission{Agent: spec(t, "mcts:visits=5"), Model: model, Book: book, Program: program(t)}
	s.Agent.Model, s.Agent.Book = model, book
	one := filepath.Join(dir, "one.tar.gz")
	p := gametest.Must(Pack(t.Context(), s, one))(t)
	if want := "mcts:model=model.safetensors,visits=5,book=opening.book"; p.Agent.String() != want || p.Time <= 0 || p.Bytes != int64(len(read1(t, one))) {
		t.Errorf("packed %+v, want agent %s and its file's %d bytes", p, want, len(read1(t, one)))
	}
	zipped := gametest.Must(gzip.NewReader(bytes.NewReader(read1(t, one))))(t)
	modes, contents := map[string]int64{}, map[string][]byte{}
	for archive := tar.NewReader(zipped); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		gametest.OK(t, err)
		modes[h.Name] = h.Mode
		if contents[h.Name], err = io.ReadAll(archive); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(map[string]int64{"main.py": 0o644, "evald": 0o755, "model.safetensors": 0o644, "opening.book": 0o644}, modes); diff != "" {
		t.Errorf("files and modes (-want +got):\n%s", diff)
	}
	if !bytes.Equal(contents["evald"], read1(t, s.Program)) || !bytes.Equal(contents["model.safetensors"], read1(t, model)) || !bytes.Equal(contents["opening.book"], written.Bytes()) {
		t.Error("the program, the model or the book has changed on its way")
	}
	if line := `AGENT = "mcts:model=model.safetensors,visits=5,book=opening.book"`; strings.Count(string(contents["main.py"]), line) != 1 || bytes.Contains(contents["main.py"], []byte("@AGENT@")) {
		t.Errorf("no line %s in main.py", line)
	}
}

// What would fail at Kaggle fails here with an error that names it, and leaves no file.
func TestPackRefuses(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, text []byte) string {
		path := filepath.Join(dir, name)
		write(t, path, text, 0o755)
		return path
	}
	real := read1(t, "/bin/true") // small, so that it is packed at once
	changed := func(name string, at int, to byte) string {
		text := bytes.Clone(real)
		text[at] = to
		return file(name, text)
	}
	good := spec(t, "policy")
	model := spec(t, "policy:model=x")
	for _, c := range []struct {
		what string
		s    Submission
		says string
	}{
		{"no program", Submission{Agent: good, Program: filepath.Join(dir, "nowhere")}, "nowhere: no such file or directory"},
		{"a script", Submission{Agent: good, Program: file("script", []byte("#!/bin/sh\necho '{\"action\":3}'\n"))}, "script: is not for linux/amd64: bad magic number"},
		{"another processor", Submission{Agent: good, Program: changed("arm", 18, 183)}, "arm: is for EM_AARCH64 (ELFOSABI_NONE), not for linux/amd64"},
		{"another system", Submission{Agent: good, Program: changed("bsd", 7, 9)}, "bsd: is for EM_X86_64 (ELFOSABI_FREEBSD), not for linux/amd64"},
		{"an object file", Submission{Agent: good, Program: changed("object", 16, 1)}, "object: is no program, but ET_REL"},
		{"half a program", Submission{Agent: good, Program: file("half", real[:len(real)/2])}, "half"},
		{"one that fails", Submission{Agent: good, Program: "/bin/false"}, "evald: exit status 1"},
		{"one that says nothing", Submission{Agent: good, Program: "/bin/true"}, `evald has answered "", not a move`},
		{"too large", Submission{Agent: good, Program: "/bin/true", limit: 1}, "more than the 0 MiB that a submission may have"},
		{"one that says why it fails", Submission{Agent: good, Program: "/usr/bin/env"}, "the first move of a game: evald: exit status 127: /"},
		{"no model", Submission{Agent: model, Program: "/bin/true", Model: filepath.Join(dir, "model")}, "model: no such file or directory"},
	} {
		name := filepath.Join(dir, "out.tar.gz")
		if _, err := Pack(t.Context(), c.s, name); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: error %v, want %s", c.what, err, c.says)
		}
		if left, err := filepath.Glob(filepath.Join(dir, "*out.tar.gz*")); err != nil || len(left) != 0 {
			t.Errorf("%s: left %v, %v", c.what, left, err)
		}
	}
}

// python is the Python of EVALD_PYTHON, or python3 in the PATH.
func python(t *testing.T) string {
	t.Helper()
	if p := os.Getenv("EVALD_PYTHON"); p != "" {
		return p
	}
	p, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 here; main.py needs one")
	}
	return p
}

// unpacked returns the folder of an unpacked agent.
func unpacked(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, mainFile), mainWith(spec(t, text)), 0o644)
	write(t, filepath.Join(dir, programFile), read1(t, program(t)), 0o755)
	return dir
}

// main.py plays, survives the death of its child, and says why it cannot play.
func TestMainPy(t *testing.T) {
	dir, py := unpacked(t, "policy"), python(t)
	drive := func(scenario string) []string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), py, "testdata/drive.py", dir, scenario).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", scenario, err, out)
		}
		return strings.Split(strings.TrimSpace(string(out)), "\n")
	}
	const wins = `{"action": 0}` // the first column wins; one stone earlier the other side would win there
	for scenario, want := range map[string][]string{
		"plays":    {wins},
		"nameless": {wins},
		"killed":   {wins, wins},
		"finished": {wins, `{"error": "RuntimeError: evald: line 2: observation.board \"loss\": is how the game has ended for the side to move: there is no move"}`, wins},
		"stopped":  {wins, `{"error": "TimeoutError: evald has not answered within 1.1 s: status -9; no message"}`, wins},
	} {
		if diff := cmp.Diff(want, drive(scenario)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", scenario, diff)
		}
	}

	evald := filepath.Join(dir, "evald")
	if err := os.Chmod(evald, 0o644); err != nil { // a careless unpacker may do this
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{wins}, drive("plays")); diff != "" {
		t.Errorf("not executable (-want +got):\n%s", diff)
	}
	for _, c := range []struct {
		what string
		text string // of the program; "" removes it
		says string
	}{
		{"fails", "#!/bin/sh\necho out of order >&2\nexit 7\n", "RuntimeError: evald ended twice without an answer: status 7; out of order"},
		{"half an answer", "#!/bin/sh\nread line\nprintf '{\"act'\n", "RuntimeError: evald ended twice without an answer: status"},
		{"no program", "\x7fELF nonsense", "RuntimeError: cannot start " + evald + ": [Errno 8] Exec format error"},
		{"none", "", "FileNotFoundError: the program evald is in none of " + dir},
	} {
		gametest.OK(t, os.Remove(evald))
		if c.text != "" {
			write(t, evald, []byte(c.text), 0o755)
		}
		if got := drive("plays"); len(got) != 1 || !strings.HasPrefix(got[0], `{"error": "`+c.says) {
			t.Errorf("%s: %q, want %s", c.what, got, c.says)
		}
	}
}
