package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/evald/evald/engine/game/gametest"
)

// With EVALD_SOAK: the library for Windows, in Wine, answers bit for bit what this system's library answers.
func TestWine(t *testing.T) {
	if !gametest.Soak() || gametest.Race || runtime.GOOS != "linux" {
		t.Skip("builds the library for two systems: EVALD_SOAK=1m")
	}
	python := gametest.Must(filepath.Abs("bin/wheels/bin/python"))(t)
	if _, err := os.Stat(python); err != nil {
		t.Skipf("%v: make bin/wheels installs Zig", err)
	}
	for _, tool := range []string{"wine", "x86_64-w64-mingw32-gcc", "gcc"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%v: Debian has it in wine64, gcc-mingw-w64-x86-64 and gcc", err)
		}
	}
	folder := t.TempDir()
	in := func(name string) string { return filepath.Join(folder, name) }
	run := func(env []string, name string, args ...string) string {
		t.Helper()
		c := exec.CommandContext(t.Context(), name, args...)
		c.Env = append(os.Environ(), env...)
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", c, err, out)
		}
		return strings.ReplaceAll(string(out), "\r", "")
	}
	source := func(name string) string { return filepath.Join("cmd", "evald", "deploy", "dist", "testdata", name) } // TestMain goes to the root
	answers := map[string]string{}
	for _, p := range []platform{{"linux", runtime.GOARCH}, {"windows", "amd64"}} {
		env := compiler(python, p)
		if p.system == "linux" { // as a user builds it, without the GPU's path
			env = []string{"CGO_ENABLED=1"}
		}
		library := gametest.Must(filepath.Abs(in(p.library())))(t)
		build := append([]string{"build", "-o", library}, asLibrary(nil)...)
		run(append(env, "GOOS="+p.system, "GOARCH="+p.processor), "go", append(build, "./cmd/evald")...)
		if p.system == "linux" {
			run(nil, "gcc", "-O2", "-o", in("evaluate"), source("evaluate.c"), "-ldl")
			answers[p.system] = run(nil, in("evaluate"), library)
			continue
		}
		prefix := []string{"WINEPREFIX=" + in("wine"), "WINEDEBUG=-all"}
		run(prefix, "wine", "wineboot", "--init")
		run(nil, "x86_64-w64-mingw32-gcc", "-O2", "-o", in("evaluate.exe"), source("evaluate.c"))
		// Go loads it from the system's folder alone.
		run(nil, "x86_64-w64-mingw32-gcc", "-shared", "-O2", "-o", in("wine/drive_c/windows/system32/bcryptprimitives.dll"), source("bcryptprimitives.c"), "-ladvapi32")
		out := run(prefix, "wine", in("evaluate.exe"), library)
		answers[p.system] = out[strings.Index(out, "wrong rules"):] // before it wine may speak of itself
	}
	if answers["windows"] != answers["linux"] || !strings.Contains(answers["linux"], "parse: 0") {
		t.Errorf("the library for Windows answers\n%s\nthe one for Linux\n%s", answers["windows"], answers["linux"])
	}
}
