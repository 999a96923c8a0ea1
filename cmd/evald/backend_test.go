package main

import (
	"strings"
	"testing"
)

// -v says who evaluates and how; EVALD_CPU_PATH chooses the path, and one that is not there is an error.
func TestCPUPath(t *testing.T) {
	for _, c := range []struct {
		path, backend string
		status        int
		want          string
	}{
		{"go", "cpu", exitOK, "evald eval: backend cpu: network seeded-2x16 on the cpu, path go, "},
		{"go", "auto", exitOK, "evald eval: backend auto: network seeded-2x16 on the cpu, path go, "},
		{"", "cpu", exitOK, " threads; batch 1024, "},
		{"mmx", "cpu", exitBadInput, `environment variable EVALD_CPU_PATH: pack network: CPU path "mmx": this machine and build have `},
	} {
		t.Setenv(pathVariable, c.path)
		status, out, stderr := evald(t, "44554\n", "eval", "-v", "--backend", c.backend, "--model", "seeded-2x16")
		if status != c.status || !strings.Contains(stderr, c.want) {
			t.Errorf("path %q: status %d, messages %q, want %q", c.path, status, stderr, c.want)
		}
		if status == exitOK && !strings.Contains(out, `"best":2,"source":"cpu","model":"seeded-2x16"`) {
			t.Errorf("path %q: answer %s", c.path, out)
		}
	}
	if _, _, stderr := evald(t, "44554\n", "eval", "-v", "--backend", "bitsquares"); !strings.Contains(stderr, "backend bitsquares: heuristic bitsquares; ") {
		t.Errorf("messages %q do not name the heuristic", stderr)
	}
}
