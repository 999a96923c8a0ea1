package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// Everything that CI downloads is pinned by a hash.
func TestPinned(t *testing.T) {
	files, err := filepath.Glob("../../.ci/*.txt")
	if err != nil || len(files) < 3 {
		t.Fatalf("%q, %v: want the lists of Python packages", files, err)
	}
	for _, file := range files {
		text := getFile(t, file)
		packages := 0
		for line := range strings.Lines(strings.ReplaceAll(string(text), "\\\n", "")) {
			if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
				continue
			}
			packages++
			if !regexp.MustCompile(`^[A-Za-z0-9._-]+==[^ ]+( +--hash=sha256:[0-9a-f]{64})+$`).MatchString(line) {
				t.Errorf("%s: %.80s: has no version or no hash", file, line)
			}
		}
		if packages == 0 {
			t.Errorf("%s has no packages", file)
		}
	}
	for _, list := range []string{"requirements", "kserve"} {
		asked, pinned := getFile(t, "../../.ci/"+list+".in"), getFile(t, "../../.ci/"+list+".txt")
		for line := range strings.Lines(string(asked)) {
			line = regexp.MustCompile(`\[.*\]`).ReplaceAllString(strings.TrimSpace(line), "")
			if !strings.HasPrefix(line, "#") && !strings.Contains(string(pinned), "\n"+line+" ") {
				t.Errorf("%s.txt is not that of %[1]s.in: no %s; make pin", list, line)
			}
		}
	}
	script := getFile(t, "../../.ci/run")
	for line := range strings.Lines(string(script)) {
		if strings.Contains(line, "pip\" install") && !strings.Contains(line, "--require-hashes") {
			t.Errorf(".ci/run: %s installs without hashes", strings.TrimSpace(line))
		}
	}
	if strings.Count(string(script), "npm pack") != strings.Count(string(script), "sha512sum --quiet --check") {
		t.Error(".ci/run: a package of npm has no checksum")
	}
	workflows, err := filepath.Glob("../../.github/workflows/*.yml")
	if err != nil || len(workflows) == 0 {
		t.Fatalf("%q, %v: want the workflows", workflows, err)
	}
	for _, file := range workflows {
		for _, action := range regexp.MustCompile(`uses: (.*)`).FindAllStringSubmatch(string(getFile(t, file)), -1) {
			if !regexp.MustCompile(`^(\./|[^ ]+@[0-9a-f]{40} # v\d)`).MatchString(action[1]) {
				t.Errorf("%s: %s: has no hash, or no version as a comment", file, action[1])
			}
		}
	}
}

// The program that make builds is loaded at another address each time, its relocations are read-only, and its stacks are not
// executable.
func TestHardened(t *testing.T) {
	program := os.Getenv("EVALD_PROGRAM")
	if program == "" || runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("EVALD_PROGRAM names no program for linux/amd64 that make has built; make test does")
	}
	readelf, err := exec.LookPath("readelf")
	if err != nil {
		t.Skip("readelf is not installed")
	}
	out, err := exec.Command(readelf, "--wide", "--file-header", "--program-headers", "--dynamic", "--symbols", program).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for what, has := range map[string]string{
		"PIE": `Type: +DYN`, "RELRO": `GNU_RELRO`, "binding at the start": `BIND_NOW|Flags: .*NOW`, "a stack that is not run": `GNU_STACK .* RW +0x`,
		"checked stacks": `__stack_chk_fail`,
	} {
		if !regexp.MustCompile(has).Match(out) {
			t.Errorf("%s lacks %s (%s)", program, what, has)
		}
	}
}
