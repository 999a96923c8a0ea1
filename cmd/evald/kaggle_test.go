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

// Only a file goes into an archive; heuristics and shipped networks are in the program.
func TestKaggleModelFile(t *testing.T) {
	for model, want := range map[string]string{"": "", "bitsquares": "", "seeded-2x16": "", "mine.safetensors": "mine.safetensors"} {
		if got := modelFile(model); got != want {
			t.Errorf("model %q: file %q, want %q", model, got, want)
		}
	}
}
