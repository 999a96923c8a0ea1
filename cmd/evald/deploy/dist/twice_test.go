package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evald/evald/engine/game/gametest"
)

// With EVALD_SOAK: make dist gives the same bytes in two checkouts of different names, of which the second compiles everything anew. Wheels stay
// below 60 MB.
func TestTwice(t *testing.T) {
	if !gametest.Soak() || gametest.Race {
		t.Skip("builds everything for all systems, twice: EVALD_SOAK=1m")
	}
	var clean []string // the variables with which make runs this test are not those of a user
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		switch name {
		case "GOFLAGS", "CGO_CFLAGS", "CGO_LDFLAGS", "MAKEFLAGS", "MFLAGS", "MAKELEVEL":
		default:
			clean = append(clean, v)
		}
	}
	here := gametest.Must(os.Getwd())(t)
	var sums [2]string
	for i, name := range []string{"a", "another/name"} {
		folder := filepath.Join(t.TempDir(), name)
		for _, c := range []*exec.Cmd{
			exec.CommandContext(t.Context(), "git", "clone", "--quiet", here, folder),
			exec.CommandContext(t.Context(), "make", "-C", folder, "dist"),
		} {
			c.Env = clean
			if i == 1 {
				c.Env = append(c.Env, "GOCACHE="+t.TempDir())
			}
			if out, err := c.CombinedOutput(); err != nil {
				t.Fatalf("%v: %v\n%s", c, err, out)
			} else if c.Args[0] == "make" && !strings.Contains(string(out), "installed, imported and asked") {
				t.Errorf("no wheel was tried:\n%s", out)
			}
		}
		sums[i] = string(gametest.Must(os.ReadFile(filepath.Join(folder, "dist", "SHA256SUMS")))(t))
		wheels := gametest.Must(filepath.Glob(filepath.Join(folder, "dist", "*.whl")))(t)
		if len(wheels) != len(platforms) {
			t.Errorf("%d wheels, want one for each of %v", len(wheels), platforms)
		}
		for _, w := range wheels {
			if size := gametest.Must(os.Stat(w))(t).Size(); size >= 60e6 {
				t.Errorf("%s has %d bytes", filepath.Base(w), size)
			}
		}
	}
	if sums[0] != sums[1] {
		t.Errorf("the checksums differ:\n%s\n%s", sums[0], sums[1])
	}
}
