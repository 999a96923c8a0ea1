package open_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/evald/evald/engine/game/gametest"
)

// Another module's program builds against the packages here, and does what it says. It is built in a copy that has this
// module's versions and sums of all dependencies, as go get would write them, so that nothing is asked of the network that the
// tests here do not need.
func TestImporter(t *testing.T) {
	folder := t.TempDir()
	gametest.OK(t, os.CopyFS(folder, os.DirFS("testdata/importer")))
	root := gametest.Must(filepath.Abs("../.."))(t)
	sums := gametest.Must(os.ReadFile(filepath.Join(root, "go.sum")))(t)
	gametest.OK(t, os.WriteFile(filepath.Join(folder, "go.sum"), sums, 0o644))
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
	gametest.OK(t, json.Unmarshal([]byte(run(root, "mod", "edit", "-json")), &module))
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
