package open_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Another module's program builds against the packages here, and does what it says. It is built in a copy that has this
// module's versions and sums of all dependencies, as go get would write them, so that nothing is asked of the network that the
// tests here do not need.
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
	run := func(in string, args ...string) string {
		t.Helper()
		c := exec.CommandContext(t.Context(), "go", args...)
		c.Dir, c.Env, c.Stderr = in, append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -mod=mod", "GOWORK=off"), t.Output()
		out, err := c.Output()
		if err != nil {
			t.Fatalf("go %v: %v", args, err)
		}
		return string(out)
	}
	var module struct {
		Require []struct{ Path, Version string }
	}
	if err := json.Unmarshal([]byte(run(root, "mod", "edit", "-json")), &module); err != nil {
		t.Fatal(err)
	}
	edit := []string{"mod", "edit", "-replace", "github.com/evald/evald=" + root}
	for _, r := range module.Require {
		edit = append(edit, "-require", r.Path+"@"+r.Version)
	}
	run(folder, edit...)
	const want = `model default, a network true: true
the first row adds up to 1.000, the second is [1 0 0] by rules
the search begins with column 4
`
	if got := run(folder, "run", "."); got != want {
		t.Errorf("it says %s, want %s", got, want)
	}
}
