package main

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/nn/ort"
)

// foreign are networks of other programs' shapes, with their descriptions.
var foreign = []string{"alpha_zero_general", "lightzero", "open_spiel", "pgx"}

// needRuntime skips without ONNX Runtime.
func needRuntime(t *testing.T) {
	t.Helper()
	if !ort.Supported {
		t.Skip("this build cannot open ONNX Runtime")
	}
	_, err := ort.Open(ort.Options{})
	gametest.Need(t, err == nil, fmt.Sprint(err))
}

// foreignFile is a copy of such a network in a folder of the test, with another description unless it is "".
func foreignFile(t *testing.T, name, description string) string {
	t.Helper()
	from, to := filepath.Join("..", "..", "nn", "encoding", "testdata", name), filepath.Join(t.TempDir(), name)
	putFile(t, to+".onnx", getFile(t, from+".onnx"))
	if description == "" {
		description = string(getFile(t, from+".yaml"))
	}
	putFile(t, to+".yaml", description)
	return to + ".onnx"
}

// All commands that evaluate take ONNX files of other programs, and what they keep says that ONNX Runtime has answered.
func TestONNXCommands(t *testing.T) {
	needRuntime(t)
	for _, name := range foreign {
		t.Run(name, func(t *testing.T) {
			t.Setenv("EVALD_MODELS", t.TempDir())
			t.Setenv("EVALD_CACHE_DIR", t.TempDir()) // each file is checked once
			file := foreignFile(t, name, "")
			ok := func(want, stdin string, args ...string) {
				t.Helper()
				status, out, stderr := evald(t, stdin, args...)
				if status != exitOK || !regexp.MustCompile(want).MatchString(out+stderr) {
					t.Errorf("evald %s: status %d, %s%s; want %s", strings.Join(args, " "), status, out, stderr, want)
				}
			}
			ok(`"source":"ort-cpu"`, "-\n4453\n", "eval", "--model", file)
			ok(`"source":"ort-cpu"`, "-\n", "eval", "--model", file, "--backend", "ort-cpu", "--mirror")
			ok(`"visits":\[[0-9,]+\].*"best"`, "-\n", "search", "--model", file, "--visits", "40")
			ok(`"id":"a".*"ended":"visits"`, "{\"id\":\"a\",\"moves\":\"44\",\"visits\":40}\n", "analyze", "--model", file)
			positions := filepath.Join(t.TempDir(), "positions.txt")
			putFile(t, positions, "2252576253462244111563365343671351441 -1\n")
			ok(`good`, "", "score", positions, "--model", file)
			ok(`mcts:model=`, "", "match", "mcts:model="+file+",visits=4", "random", "--games", "2")
			dir := filepath.Join(t.TempDir(), "games")
			ok(`of which 2 were played now`, "", "selfplay", "--model", file, "--games", "2", "--visits", "6", "-o", dir)
			ok(`mine@1: onnx, trained on 7x6x4`, "", "model", "import", file, "--name", "mine")
			ok(`(?s)ONNX, opset .*input .*policy: {`, "", "model", "show", "mine")
			ok(`ok +mine`, "", "model", "verify", "mine")
			ok(`"source":"ort-cpu","model":"mine@1"`, "-\n", "eval", "--model", "mine")
			ok(`mine@1: onnx as it is`, "", "model", "export", "mine", "-o", filepath.Join(t.TempDir(), "again.onnx"))
			refuses(t, exitUsage, "can only be exported as .onnx", "", "model", "export", "mine", "-o", filepath.Join(t.TempDir(), "again.safetensors"))
			refuses(t, exitBadInput, "is an ONNX file", "", "model", "int8", "mine", "-o", filepath.Join(t.TempDir(), "x.safetensors"))
			refuses(t, exitBadInput, "an archive for Kaggle has no ONNX Runtime", "", "kaggle", "pack", "--agent", "mcts:model=mine,visits=5", "-o", filepath.Join(t.TempDir(), "x.tar.gz"))
			refuses(t, exitBadInput, "is an ONNX file", "", "train", "--task", "gameover", "--init", file, "-o", filepath.Join(t.TempDir(), "run"))
			refuses(t, exitUsage, "is an ONNX file", "", "learn", "--init", file, "-o", filepath.Join(t.TempDir(), "run"))
			address, _, stop := startServe(t, "--model", "mine")
			ok(`"source":"ort-cpu"`, "-\n", "eval", "--model", "grpc://"+address["grpc"]+"/mine")
			if status := stop(); status != exitOK {
				t.Errorf("serve ended with %d", status)
			}
		})
	}
}

// Each field of a description, wrong, has a message that names it and what would be right.
func TestONNXDescriptions(t *testing.T) {
	needRuntime(t)
	var report strings.Builder
	try := func(name, description string) {
		file := foreignFile(t, name, description)
		status, out, stderr := evald(t, "-\n", "eval", "--model", file)
		fmt.Fprintf(&report, "%s: %s\n", name, strings.ReplaceAll(strings.TrimSpace(description), "\n", "; "))
		if status == exitOK {
			t.Errorf("%s: %s answers %s", name, description, out)
		}
		report.WriteString("  " + strings.ReplaceAll(stderr, filepath.Dir(file)+string(filepath.Separator), ""))
	}
	change := func(name, old, text string) {
		t.Helper()
		was := string(getFile(t, filepath.Join("..", "..", "nn", "encoding", "testdata", name+".yaml")))
		_, was, _ = strings.Cut(was, "\n") // its first line is where it comes from
		if !strings.Contains(was, old) {
			t.Fatalf("%s has no %s", name, old)
		}
		try(name, strings.Replace(was, old, text, 1))
	}
	change("pgx", "7x6x4", "8x6x4")
	change("pgx", "7x6x4", "7x6")
	change("pgx", "layout: NHWC", "input: observation\nlayout: NHWC")
	change("pgx", "NHWC", "NCHW")
	change("pgx", "NHWC", "CHW")
	change("alpha_zero_general", "own-other", "[own, other]")
	change("alpha_zero_general", "own-other", "own-foe")
	change("open_spiel", "bottom", "left")
	change("open_spiel", "legals_mask", "legal")
	change("open_spiel", "mask: legals_mask\n", "")
	change("alpha_zero_general", "output: v,", "output: value,")
	change("lightzero", "kind: linear", "kind: wdl")
	change("lightzero", "kind: linear", "kind: elo")
	change("open_spiel", "for: first", "for: red")
	change("alpha_zero_general", "output: pi,", "output: v,")
	change("open_spiel", "kind: probs", "kind: softmax")
	change("open_spiel", "kind: probs", "kind: probs, actions: cells")
	change("pgx", "layout: NHWC", "layout: NHWC\ncolour: red")
	golden(t, "onnx_descriptions.txt", report.String())
}

// A damaged, hostile or foreign file gives one line of error, and the process survives.
func TestONNXRefuses(t *testing.T) {
	needRuntime(t)
	good := getFile(t, foreignFile(t, "pgx", ""))
	for name, content := range map[string][]byte{
		"half.onnx":  good[:len(good)/2],
		"zeros.onnx": append(append([]byte{}, good[:9]...), make([]byte, 4096)...),
		"empty.onnx": {},
		"text.onnx":  []byte("this is not a network"),
	} {
		file := filepath.Join(t.TempDir(), name)
		putFile(t, file, content)
		status, out, stderr := evald(t, "-\n", "eval", "--model", file)
		if status != exitBadInput || out != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, name) {
			t.Errorf("%s: status %d, %q, %q", name, status, out, stderr)
		}
	}
	r := gametest.Rand(9)
	for range 30 { // a few bytes are others
		content := append([]byte{}, good...)
		for range 1 + r.IntN(6) {
			content[r.IntN(len(content))] = byte(r.IntN(256))
		}
		file := filepath.Join(t.TempDir(), "flipped.onnx")
		putFile(t, file, content)
		putFile(t, strings.TrimSuffix(file, ".onnx")+".yaml", "rules: 7x6x4\nlayout: NHWC\n")
		if status, _, stderr := evald(t, "-\n", "eval", "--model", file); status != exitOK && strings.Count(stderr, "\n") != 1 {
			t.Errorf("status %d: %s", status, stderr)
		}
	}
}
