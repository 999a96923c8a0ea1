package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/evald/evald/engine/game/gametest"
)

// The systemd unit is valid, both as it is and with its optional lines, and evald knows its flags.
func TestSystemdUnit(t *testing.T) {
	text := getFile(t, "deploy/evald.service")
	unit := string(text)
	offered := regexp.MustCompile(`(?m)^#([A-Z]\w+=)`)
	if n := len(offered.FindAllString(unit, -1)); n != 4 {
		t.Errorf("%d lines that are offered, want 2 for tokens and 2 for GPUs", n)
	}
	for name, unit := range map[string]string{"as it is": unit, "with all that is offered": offered.ReplaceAllString(unit, "$1")} {
		t.Run(name, func(t *testing.T) {
			systemdVerify(t, strings.ReplaceAll(unit, "/usr/local/bin/evald", "/bin/true"))
			dir := t.TempDir()
			putFile(t, filepath.Join(dir, "tokens"), "nobody x\n")
			for _, v := range regexp.MustCompile(`(?m)^Environment=(EVALD_\w+)=(.*)$`).FindAllStringSubmatch(unit, -1) {
				t.Setenv(v[1], strings.ReplaceAll(v[2], "%d", dir))
			}
			for name, value := range map[string]string{"BACKEND": "uniform", "HTTP": "256.0.0.1:1", "GRPC": "", "METRICS": ""} { // as serve.env would
				t.Setenv("EVALD_"+name, value)
			}
			command := regexp.MustCompile(`(?m)^ExecStart=/usr/local/bin/evald (.*)$`).FindStringSubmatch(unit)
			says := "--http 256.0.0.1:1"
			if name != "as it is" {
				says = "--tokens " + dir + "/tokens: tokens: line 1"
			}
			status, _, stderr := evald(t, "", strings.Fields(command[1])...)
			if status != exitBadInput || !strings.Contains(stderr, says) {
				t.Errorf("evald %s: status %d, errors %s", command[1], status, stderr)
			}
		})
	}
}

// systemdVerify checks a unit with systemd, if that is installed.
func systemdVerify(t *testing.T, unit string) {
	t.Helper()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Log("systemd does not check the unit: ", err)
		return
	}
	path := filepath.Join(t.TempDir(), "evald.service")
	putFile(t, path, unit)
	if out, err := exec.Command("systemd-analyze", "verify", "--man=no", path).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}

// The program of an image has the version that the image is built with. make soak links it.
func TestImageVersion(t *testing.T) {
	flags := regexp.MustCompile(`'(-ldflags=[^']*)'`).FindStringSubmatch(string(getFile(t, "deploy/Dockerfile")))
	if flags == nil {
		t.Fatal("the Dockerfile gives no -ldflags")
	}
	if !strings.Contains(flags[1]+" ", " -X main.release=$VERSION ") {
		t.Errorf("the Dockerfile gives %s, want the variable release", flags[1])
	}
	t.Cleanup(func() { release = "" })
	release = "v1.2.3-4-gabcdef"
	if _, out, _ := evald(t, "", "--version"); !strings.HasPrefix(out, release+" ") {
		t.Errorf("with %s --version prints %s", release, out)
	}
	if !gametest.Soak() {
		return
	}
	program := filepath.Join(t.TempDir(), "evald")
	build := exec.Command("go", "build", os.Expand(flags[1], func(name string) string { return map[string]string{"VERSION": "v1.2.3-4-gabcdef"}[name] }), "-o", program, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out := string(gametest.Must(exec.Command(program, "--version").Output())(t)); !strings.HasPrefix(out, "v1.2.3-4-gabcdef ") {
		t.Errorf("--version prints %s", out)
	}
}
