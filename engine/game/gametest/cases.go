package gametest

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Today reports whether a test runs case number i today. It selects every n-th case, with an offset that changes each day (UTC), so that n
// days cover all cases. make soak runs all. EVALD_DAY=d, which the test logs, repeats the choice of a day.
func Today(t testing.TB, i, n int) bool {
	t.Helper()
	if Soak() {
		return true
	}
	d := day(t)
	if i%n != d%n {
		return false
	}
	if i < n {
		t.Logf("case %d is of the day EVALD_DAY=%d", i, d) // log once
	}
	return true
}

// day is EVALD_DAY, or the number of days since 1970.
func day(t testing.TB) int {
	t.Helper()
	text := os.Getenv("EVALD_DAY")
	if text == "" {
		return int(time.Now().Unix() / (24 * 60 * 60))
	}
	d, err := strconv.Atoi(text)
	if err != nil || d < 0 {
		t.Fatalf("EVALD_DAY=%q: must be a number of days, from 0", text)
	}
	return d
}

// OneGoroutine skips a test under the race detector, which cannot find anything in a single goroutine.
func OneGoroutine(t testing.TB) {
	t.Helper()
	if Race {
		t.Skip("one goroutine works here, and the run without the race detector tests the same")
	}
}

// Need skips a test if something is missing that .ci/run installs, or fails if EVALD_REQUIRE_TOOLS=1.
func Need(t testing.TB, there bool, missing string) {
	t.Helper()
	switch {
	case there:
	case os.Getenv("EVALD_REQUIRE_TOOLS") == "1":
		t.Fatal("EVALD_REQUIRE_TOOLS=1, but", missing)
	default:
		t.Skip(missing)
	}
}

// Python returns EVALD_PYTHON, the path of a Python that needs modules of .ci/requirements.txt.
func Python(t testing.TB, modules ...string) string {
	t.Helper()
	python, why := withModules(modules)
	Need(t, why == "", why)
	return python
}

// Framework is Python for modules that are too large for .ci/requirements.txt: without them the test
// skips.
func Framework(t testing.TB, modules ...string) string {
	t.Helper()
	python, why := withModules(modules)
	if why != "" {
		t.Skip(why)
	}
	return python
}

// withModules returns EVALD_PYTHON, and why it is none with these modules.
func withModules(modules []string) (python, why string) {
	if python = os.Getenv("EVALD_PYTHON"); python == "" {
		return "", "EVALD_PYTHON names no Python with " + strings.Join(modules, ", ") + " (see .ci)"
	}
	const lacking = `import sys; from importlib.util import find_spec; sys.exit(", ".join(m for m in sys.argv[1:] if not find_spec(m)) or 0)`
	if out, err := exec.Command(python, append([]string{"-c", lacking}, modules...)...).CombinedOutput(); err != nil {
		return "", fmt.Sprintf("EVALD_PYTHON=%s lacks %s: %v", python, out, err)
	}
	return python, ""
}
