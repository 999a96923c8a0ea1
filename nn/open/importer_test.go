package open_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Another module's program builds against the packages here, with no dependency of its own, and does what it says. It is built
// in a copy, so that go may write the versions of this module's dependencies into its go.mod.
func TestImporter(t *testing.T) {
	folder := t.TempDir()
	if err := os.CopyFS(folder, os.DirFS("testdata/importer")); err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "go.sum"), sums, 0o644); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) string {
		t.Helper()
		var said []byte
		c := exec.CommandContext(t.Context(), "go", args...)
		c.Dir, c.Env = folder, append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
		out, err := c.Output()
		if failed, ok := err.(*exec.ExitError); ok {
			said = failed.Stderr
		}
		if err != nil {
			t.Fatalf("go %v: %v\n%s", args, err, said)
		}
		return string(out)
	}
	run("mod", "edit", "-replace", "github.com/evald/evald="+root)
	const want = `model default, a network true: true
the first row adds up to 1.000, the second is [1 0 0] by rules
the search begins with column 4
`
	if got := run("run", "."); got != want {
		t.Errorf("it says %s, want %s", got, want)
	}
}
