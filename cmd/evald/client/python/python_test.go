// Package python has the tests of the Python package evald. README.md is for its users.
package python

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/evald/evald/engine/game/gametest"
)

// The tests in Python pass. They need EVALD_LIBRARY, which make test sets, and a Python with numpy;
// those of frameworks skip what that Python has not. make soak runs all of them by the program too.
func TestPython(t *testing.T) {
	if gametest.Race {
		t.Skip("the library is built without the race detector")
	}
	library, python := os.Getenv("EVALD_LIBRARY"), gametest.Python(t, "numpy")
	gametest.Need(t, library != "", "EVALD_LIBRARY names no library: make library builds bin/libevald.so")
	here := gametest.Must(os.Getwd())(t)
	files := gametest.Must(filepath.Glob("tests/test_*.py"))(t)
	if len(files) == 0 {
		t.Fatal("there are no tests")
	}
	args := []string{"-W", "ignore::DeprecationWarning"}
	if os.Getenv("PYTHONPYCACHEPREFIX") == "" {
		args = append(args, "-B") // the checkout is no place for bytecode
	}
	suite := func(t *testing.T, set ...string) {
		for _, file := range files {
			t.Run(filepath.Base(file), func(t *testing.T) {
				t.Parallel() // they start processes of their own, and wait for them
				c := exec.CommandContext(t.Context(), python, append(slices.Clone(args), filepath.Base(file), "-v")...)
				c.Dir, c.Env = filepath.Join(here, "tests"), append(append(os.Environ(), "PYTHONPATH="+here), set...)
				out, err := c.CombinedOutput()
				t.Logf("%s", out)
				if err != nil {
					t.Errorf("%s on %s: %v", file, runtime.GOOS, err)
				}
			})
		}
	}
	suite(t)
	if gametest.Soak() { // the library is a program too
		t.Run("program", func(t *testing.T) {
			suite(t, "EVALD_LIBRARY=", "EVALD_PROGRAM="+cmp.Or(os.Getenv("EVALD_PROGRAM"), library))
		})
	}
}
