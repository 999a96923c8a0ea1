package gametest

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

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
