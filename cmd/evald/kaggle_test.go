package main

import (
	"strings"
	"testing"
)

func TestKaggleAct(t *testing.T) {
	in := `{"observation":{"board":[0,0,0,1,2,0,1,2,0],"mark":1},"configuration":{"rows":3,"columns":3,"inarow":3}}` + "\nmove!\n"
	want := `{"action":0}` + "\n" + `{"error":"line 2: json \"move!\": invalid character 'm' looking for beginning of value"}` + "\n"
	for _, agent := range []string{"uct-bitsquares:time=20ms", "solver", "alphabeta-bitsquares:time=20ms", "mcts:model=seeded-2x16,visits=100"} {
		if status, out, _ := evald(t, in, "kaggle", "act", "--agent", agent); status != exitBadInput || out != want {
			t.Errorf("%s: status %d, output %q; want %d and %q", agent, status, out, exitBadInput, want)
		}
	}
	first, _, _ := strings.Cut(in, "\n")
	if status, out, stderr := evald(t, first, "kaggle", "act", "--agent", "policy"); status != exitOK || out != `{"action":0}`+"\n" || stderr != "" {
		t.Errorf("one good line: status %d, output %q, errors %q", status, out, stderr)
	}
}

func TestKaggleWrongUse(t *testing.T) {
	parsesOnly(t)
	for _, c := range []struct {
		args   string
		status int
		says   string
	}{
		{"kaggle", exitUsage, "expected one of"},
		{"kaggle pack --fallback", exitUsage, "unknown flag --fallback"},
		{"kaggle serve --agent robot", exitUsage, `agent "robot": there are alphabeta-bitsquares, flat,`},
		{"kaggle serve --agent mcts:model=nope", exitBadInput, `"nope" is neither a file nor a shipped model`},
		{"kaggle serve --listen nowhere", exitBadInput, "--listen nowhere"},
		{"kaggle serve --at-once 0", exitUsage, "--at-once 0: must be 1 to"},
		{"kaggle act --agent uct:time=5", exitUsage, "want a duration such as 200ms"},
		{"kaggle pack --agent robot", exitUsage, `agent "robot"`},
		{"kaggle pack --binary sample.txt -o " + t.TempDir() + "/x", exitBadInput, "is not for linux/amd64"},
		{"kaggle pack --agent mcts:model=nope -o /nowhere/x", exitBadInput, "/nowhere"},
	} {
		status, out, stderr := evald(t, "", strings.Fields(c.args)...)
		if status != c.status || !strings.Contains(stderr, c.says) || out != "" {
			t.Errorf("evald %s: status %d, output %q, errors %q; want status %d and %q", c.args, status, out, stderr, c.status, c.says)
		}
	}
}

// Only a file goes into an archive; heuristics and shipped networks are in the program.
func TestKaggleModelFile(t *testing.T) {
	for model, want := range map[string]string{"": "", "bitsquares": "", "seeded-2x16": "", "mine.safetensors": "mine.safetensors"} {
		if got := modelFile(model); got != want {
			t.Errorf("model %q: file %q, want %q", model, got, want)
		}
	}
}
