package main

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/heuristic"
	kernel "github.com/evald/evald/kernels/cpu"
	"github.com/evald/evald/nn/open"
)

// -v prints the evaluator and its path. EVALD_CPU_PATH chooses the path; an unknown one is an error.
func TestCPUPath(t *testing.T) {
	unknown := exitUsage
	if slices.Contains(kernel.Paths(), kernel.AVX512VNNI) {
		unknown = exitBadInput // the path is there, but the network has no ranges
	}
	for _, c := range []struct {
		path, backend string
		status        int
		want          string
	}{
		{"go", "cpu", exitOK, "evald eval: backend cpu: network seeded-2x16 on the cpu, path go, "},
		{"go", "auto", exitOK, "evald eval: backend auto: network seeded-2x16 on the cpu, path go, "},
		{"", "cpu", exitOK, " threads; batch 1024, "},
		{"mmx", "cpu", exitUsage, `evald: --cpu-path: CPU path "mmx": this machine and build have `},
		{"avx512vnni", "auto", unknown, "avx512vnni"},
	} {
		t.Setenv(open.PathVariable, c.path)
		status, out, stderr := evald(t, "44554\n", "eval", "-v", "--backend", c.backend, "--model", "seeded-2x16")
		if status != c.status || !strings.Contains(stderr, c.want) {
			t.Errorf("path %q: status %d, messages %q, want %q", c.path, status, stderr, c.want)
		}
		if status == exitOK && !strings.Contains(out, `"best":2,"source":"cpu","model":"seeded-2x16"`) {
			t.Errorf("path %q: answer %s", c.path, out)
		}
	}
	t.Setenv(open.PathVariable, "mmx")
	if _, _, stderr := evald(t, "44554\n", "eval", "-v", "--cpu-path", "go", "--model", "seeded-2x16"); !strings.Contains(stderr, ", path go, ") {
		t.Errorf("messages %q: the flag does not go before the variable", stderr)
	}
	if _, _, stderr := evald(t, "44554\n", "eval", "-v", "--backend", "bitsquares"); !strings.Contains(stderr, "backend bitsquares: heuristic bitsquares; ") {
		t.Errorf("messages %q do not name the heuristic", stderr)
	}
}

// Without --model the shipped network answers on the board that it knows, and bitsquares on others. Each answer names its
// evaluator. Only -v says that there is no GPU.
func TestWhoAnswered(t *testing.T) {
	for _, command := range []string{"eval", "search --visits 8", "analyze --visits 8"} {
		input := "44\n9x5x4:44\n"
		if command[0] == 'a' {
			input = `{"id":"1","moves":"44"}` + "\n" + `{"id":"2","moves":"9x5x4:44"}` + "\n"
		}
		status, out, stderr := evald(t, input, strings.Fields(command)...)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		if slices.Sort(lines); status != exitOK || len(lines) != 2 || stderr != "" {
			t.Errorf("%s: status %d, messages %q, output %s", command, status, stderr, out)
			continue
		}
		for i, want := range []string{"default", "any"} {
			if !strings.HasSuffix(lines[i], `"model":"`+want+`"}`) {
				t.Errorf("%s: %s is not by %s", command, lines[i], want)
			}
		}
	}
	_, out, stderr := evald(t, "9x5x4:44\n", "eval", "-v")
	if !strings.Contains(out, `"source":"cpu","model":"any"`) || !strings.Contains(stderr, "network any on boards of 3-12x3-13x3-6 and 3-6x3-6x3-6free, bitsquares on others") {
		t.Errorf("messages %q, answer %s", stderr, out)
	}
}

func TestGPUsFlag(t *testing.T) {
	if list := numbers("10,0,2").list(); !slices.Equal(list, []int{10, 0, 2}) || numbers("").list() != nil {
		t.Errorf("10,0,2 is %v", list)
	}
}

// With every evaluator, the rules answer what the next stones decide.
func TestRulesFirst(t *testing.T) {
	backends := map[string]backend{
		"cpu":                 {Backend: "cpu", Model: "seeded-2x16"},
		"cpu, mirrored":       {Backend: "cpu", Model: "seeded-2x16", Mirror: true},
		"auto":                {Backend: "auto", Model: "seeded-2x16"},
		"the shipped network": {Backend: "auto"},
	}
	for _, name := range heuristic.Names() {
		backends[name] = backend{Backend: name}
	}
	for name, from := range backends {
		t.Run(name, func(t *testing.T) {
			c := gametest.Must(from.choose(io.Discard))(t)
			defer c.Close()
			n := 2000
			if gametest.Soak() {
				n = 100_000
			}
			d := evaltest.Rules(t, c.Evaluator, game.MustBoard(game.Connect4), n, 18)
			if d.Won < n/10 || d.Lost < n/200 || d.Forced < n/20 {
				t.Errorf("of %d positions %+v: too few to tell", n, d)
			}
			evaltest.Rules(t, c.Evaluator, game.MustBoard(game.Rules{Columns: 9, Rows: 5, InARow: 4, Gravity: true}), 300, 18)
		})
	}
}
