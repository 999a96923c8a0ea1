// Package gametest helps tests: ground truth from outside the repository, random positions, and a slow board that is obviously correct.
//
// Read the files in this order:
//
//	naive.go            a board of arrays, to which the real one is compared
//	random.go           random numbers and positions; simulate.go: seeds of simulations
//	data.go             ground truth
//	cases.go            how many cases a test runs (Soak, Today), and the tools that it needs
//	must.go             errors that end a test
//	race.go, norace.go  whether the race detector watches
package gametest

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// Data returns the path of a file of exact ground truth in ../shared/data, beside the repository. If the file is missing, the test skips,
// or fails if EVALD_REQUIRE_DATA=1.
func Data(t testing.TB, name string) string {
	t.Helper()
	_, self, _, _ := runtime.Caller(0)
	path := filepath.Join(filepath.Dir(self), "../../../../shared/data", name)
	if _, err := os.Stat(path); err != nil {
		if os.Getenv("EVALD_REQUIRE_DATA") == "1" {
			t.Fatalf("EVALD_REQUIRE_DATA=1, but ground truth is missing: %v", err)
		}
		t.Skipf("no ground truth beside the repository: %s", name)
	}
	return path
}

// DataLines returns the lines of a ground-truth file without blank lines and comments (#).
func DataLines(t testing.TB, name string) []string {
	t.Helper()
	text, err := os.ReadFile(Data(t, name))
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			lines = append(lines, line)
		}
	}
	return lines
}

// Soak reports whether tests run all cases, as in make soak, instead of one for each property.
func Soak() bool { return os.Getenv("EVALD_SOAK") != "" }

// SoakTime is the duration of a load test: the value of EVALD_SOAK, or else short.
func SoakTime(t testing.TB, short time.Duration) time.Duration {
	if !Soak() {
		return short
	}
	d, err := time.ParseDuration(os.Getenv("EVALD_SOAK"))
	if err != nil {
		t.Fatalf("EVALD_SOAK: %v", err)
	}
	return d
}
