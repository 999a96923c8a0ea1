package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/heuristic"
	"github.com/evald/evald/engine/mcts"
	"github.com/evald/evald/nn/open"
)

func writeText(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	putFile(t, path, text)
	return path
}

func putFile[T string | []byte](t *testing.T, path string, content T) {
	t.Helper()
	gametest.OK(t, os.WriteFile(path, []byte(content), 0o600))
}

func getFile(t *testing.T, path string) []byte {
	t.Helper()
	return gametest.Must(os.ReadFile(path))(t)
}

// The command line takes precedence over the environment, that over the file, and in the file a command's section over the
// top level.
func TestWhereFlagsComeFrom(t *testing.T) {
	file := writeText(t, "evald.yaml", "threads: 1\nbackend: uniform\nbatch: 5\neval:\n  batch: 7\nserve: {model: [default, seeded-2x16]}\nkaggle:\n")
	for _, c := range []struct {
		environment, file bool
		args              string
		want              string
	}{
		{false, false, "", "backend bitsquares: heuristic bitsquares; batch 1024, "},
		{false, true, "", "backend uniform: heuristic uniform; batch 7, batches at once 1, "},
		{true, true, "", "backend oddeven: heuristic oddeven; batch 7, batches at once 1, "},
		{true, true, "--backend gameovers --batch 9 --threads 2", "backend gameovers: heuristic gameovers; batch 9, batches at once 2, "},
	} {
		args := strings.Fields("eval -v " + c.args)
		if !c.file && !c.environment {
			args = append(args, "--backend", "bitsquares")
		}
		if c.environment {
			t.Setenv("EVALD_BACKEND", "oddeven")
		}
		if c.file {
			t.Setenv("EVALD_CONFIG", file)
		}
		if status, _, stderr := evald(t, "44\n", args...); status != exitOK || !strings.HasPrefix(stderr, "evald eval: "+c.want) {
			t.Errorf("%+v: status %d, errors %q", c, status, stderr)
		}
	}
}

// A list in the file is the same as a list in a flag.
func TestConfiguredList(t *testing.T) {
	file := writeText(t, "evald.yaml", "score: {visits: [0, 3], backend: uniform, json: true}\n")
	positions := writeText(t, "positions.txt", "4444445 -1 0 0 -1000 0 0 0\n")
	status, out, stderr := evald(t, "", "score", "--config", file, positions)
	var reports []struct{ Model string }
	if err := json.Unmarshal([]byte(out), &reports); err != nil || status != exitOK || len(reports) != 2 || reports[1].Model != "uniform, puct of 3 visits" {
		t.Errorf("status %d, errors %q, reports %v (%v)", status, stderr, reports, err)
	}
}

func TestConfigErrors(t *testing.T) {
	for text, want := range map[string]string{
		"evl: {batch: 1}":                         "evl: there is no such command",
		"eval: {bach: 1}":                         "eval.bach: no command has the flag --bach",
		"help: true":                              "help: no command has the flag --help",
		"config: x":                               "config: no command has the flag --config",
		"kaggle: {serve: {listn: 1}}":             "kaggle.serve.listn: no command has the flag --listn",
		"eval: {batch: 0}":                        "--batch 0: must be 1 to",
		"eval: {batch: x}":                        "--batch: expected a valid 64 bit int",
		"eval: {batch: 2026-01-01}":               "eval.batch: 2026-01-01 00:00:00 +0000 UTC is no text, number",
		"score: {visits: [[1]]}":                  "score.visits: a list of lists",
		"eval: [":                                 "evald.yaml:1: did not find",
		"eval: {batch: 1}\n---\neval: {batch: 2}": "evald.yaml:2: a second document",
		"#" + strings.Repeat("x", 1<<20):          "has more than 1048576 bytes",
		"- eval":                                  "cannot unmarshal",
		"eval: {format: xml}":                     `--format must be one of "jsonl"`,
		"eval: {batch: 1, batch: 2}":              `mapping key "batch" already defined`,
	} {
		file := writeText(t, "evald.yaml", text+"\n")
		refuses(t, exitUsage, want, "44\n", "eval", "--config", file)
	}
	if runtime.GOOS != "windows" {
		refuses(t, exitUsage, "/dev/zero has more than 1048576 bytes", "", "eval", "--config", "/dev/zero")
	}
	t.Setenv("EVALD_BATCH", "many")
	refuses(t, exitUsage, `from envar EVALD_BATCH="many"`, "", "eval")
}

// Old names of flags still work, and no help shows them.
func TestOldNames(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out.jsonl")
	must(t, "44\n", "eval", "--backend", "uniform", "--output", out)
	getFile(t, out)
	for command, name := range map[string]string{"eval": "--output", "serve": "--board", "match": "--concurrency", "selfplay": "--parallel"} {
		if help := must(t, "", command, "--help"); strings.Contains(help, name) {
			t.Errorf("evald %s --help shows %s", command, name)
		}
	}
}

// Each command that writes answers can write the same answers to a file.
func TestEveryCommandHasOut(t *testing.T) {
	positions := writeText(t, "positions.txt", "4444445 -1 0 0 -1000 0 0 0\n")
	queries := writeText(t, "queries.jsonl", `{"id":"a","moves":"4444445","visits":10}`+"\n")
	for _, args := range []string{
		"eval --backend uniform " + positions, "search --backend uniform --visits 10 " + positions, "solve --format text 4x4x4:-",
		"score --backend uniform --json " + positions, "analyze --backend uniform " + queries,
	} {
		fields := strings.Fields(args)
		if fields[0] == "solve" {
			fields[len(fields)-1] = writeText(t, "solve.txt", fields[len(fields)-1]+"\n")
		}
		_, want, _ := evald(t, "", fields...)
		path := filepath.Join(t.TempDir(), "out")
		status, out, stderr := evald(t, "", append(fields, "-o", path)...)
		got, err := os.ReadFile(path)
		if err != nil || status != exitOK || out != "" || stderr != "" || len(got) == 0 || fields[0] != "analyze" && string(got) != want {
			t.Errorf("evald %s: status %d, output %q, errors %q, file %q (%v), want %q", args, status, out, stderr, got, err, want)
		}
	}
}

func TestComplete(t *testing.T) {
	agents := strings.Join(agent.Names(), " ")
	for line, want := range map[string]string{
		"ev":                                   "eval",
		"model im":                             "import",
		"eval --for":                           "--format",
		"eval --backend g":                     "gpu gameovers",
		"eval --backend ":                      strings.Join(append(open.Backends(), heuristic.Names()...), " "),
		"match ":                               agents,
		"eval --backend=bits":                  "--backend=bitsquares",
		"eval --model s":                       "seeded-2x16",
		"eval -o ":                             anyFile,
		"eval ":                                anyFile,
		"--threads 2 serve --log ":             "text json",
		"match uct-bits":                       "uct-bitsquares",
		"completion ":                          "bash zsh fish",
		"serve --htt":                          "--http",
		"eval -- --for":                        anyFile,
		"nonesuch --back":                      "",
		"analyze --paralle":                    "",
		"positions --kinds ":                   "random plausible openings book",
		"play --agent s":                       "steady strong solver",
		"learn --opponent uct --opponent mc":   "mcts",
		"model export default -o x.onnx --thr": "--threads",
	} {
		words := strings.Split(line, " ")
		status, out, stderr := evald(t, "", append([]string{"complete", "--"}, words...)...)
		var got []string
		for l := range strings.Lines(out) {
			name, _, _ := strings.Cut(strings.TrimSpace(l), "\t")
			got = append(got, name)
		}
		if status != exitOK || stderr != "" || strings.Join(got, " ") != want {
			t.Errorf("%q: status %d, errors %q, candidates %q, want %q", line, status, stderr, got, want)
		}
	}
}

// The shells accept the scripts, and bash completes with its script.
func TestCompletionScripts(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		path, err := exec.LookPath(shell)
		if err != nil {
			t.Logf("%s is not installed", shell)
			continue
		}
		_, script, _ := evald(t, "", "completion", shell)
		if out, err := exec.Command(path, "-n", writeText(t, "script", script)).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", shell, err, out)
		}
	}
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("bash is not installed")
	}
	_, script, _ := evald(t, "", "completion", "bash")
	stub := writeText(t, "evald", "#!/bin/sh\n[ \"$1 $2 $3 $4\" = 'complete -- model im' ] && printf 'import\\tCheck a file\\nimpossible\\t-\\n'\n")
	gametest.OK(t, os.Chmod(stub, 0o755))
	script += "\nCOMP_WORDS=(evald model im)\nCOMP_CWORD=2\n_evald " + stub + "\nprintf '%s,' \"${COMPREPLY[@]}\"\n"
	if out, err := exec.Command(bash, "-c", script).CombinedOutput(); err != nil || string(out) != "import,impossible," {
		t.Errorf("bash completes %q (%v)", out, err)
	}
}

// The manual page has every command and flag, and troff reports nothing.
func TestManual(t *testing.T) {
	_, page, _ := evald(t, "", "man")
	for _, want := range []string{".SS evald eval", ".SS evald model import", `\-\-max\-batch`, `\-o, \-\-out`, "EVALD_MAX_BATCH", ".SS evald bench serve"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q", want)
		}
	}
	if strings.Contains(page, ".SS evald complete\n") {
		t.Error("a hidden command is shown")
	}
	troff, err := exec.LookPath("groff")
	gametest.Need(t, err == nil, "groff is not installed")
	out, err := exec.Command(troff, "-man", "-Tutf8", "-wall", "-z", writeText(t, "evald.1", page)).CombinedOutput()
	complaints := slices.DeleteFunc(strings.Split(string(out), "\n"), func(l string) bool { return l == "" || strings.Contains(l, "adjust") })
	if err != nil || len(complaints) > 0 {
		t.Errorf("groff: %v\n%s", err, strings.Join(complaints, "\n"))
	}
}

// Help fits terminals of 60 columns, except for what must not be broken.
func TestNarrowHelp(t *testing.T) {
	t.Setenv("COLUMNS", "60")
	for _, command := range []string{"", "eval", "search", "analyze", "solve", "positions", "score", "play", "show", "match", "grow-book", "prove", "train", "selfplay", "learn", "serve", "kaggle pack", "model import", "help"} {
		for line := range strings.Lines(must(t, "", append(strings.Fields(command), "--help")...)) {
			if n := len([]rune(strings.TrimRight(line, "\n"))); n > 60 && !strings.HasPrefix(line, "Run ") {
				t.Errorf("evald %s --help: %d columns: %s", command, n, line)
			}
		}
	}
}

func TestVersion(t *testing.T) {
	status, out, _ := evald(t, "", "version", "--json")
	var b built
	if err := json.Unmarshal([]byte(out), &b); err != nil || status != exitOK || !slices.Contains(b.Paths, "go") || !strings.HasPrefix(b.Models[0], "default@") {
		t.Errorf("status %d, %+v (%v)", status, b, err)
	}
}

// Every number of every command has limits. A value beyond them is wrong use, and the message names the flag and the limits.
// Without EVALD_SOAK one value is tried with each, and flags with the same name and limits are tried with one command.
func TestAbsurdFlags(t *testing.T) {
	absurd := map[reflect.Kind][]string{
		reflect.Int:     {"2147483648", "9223372036854775807", "-9223372036854775808", "9223372036854775808", "1e99"},
		reflect.Float64: {"1e300", "-1e300", "NaN", "Inf"},
		reflect.Int64:   {"2562047h", "-2562047h", "1e99h"}, // durations
	}
	tried, known := 0, map[string]bool{}
	commands(t, func(path []string, node *kong.Node) {
		if slices.Contains(path, "complete") {
			return
		}
		args := slices.Clone(path)
		for _, p := range node.Positional {
			if p.Name == "agent" {
				if args = append(args, "random"); p.IsCumulative() {
					args = append(args, "random")
				}
			} else if p.Enum != "" {
				args = append(args, p.EnumSlice()[0])
			} else {
				args = append(args, "flags_test.go") // an existing file, because some arguments require one
			}
		}
		flags := slices.Concat(node.AllFlags(true)...)
		for _, f := range flags {
			if f.Required {
				args = append(args, "--"+f.Name+"=x")
			}
		}
		for _, f := range flags {
			kind := f.Target.Type()
			for kind.Kind() == reflect.Pointer || kind.Kind() == reflect.Slice {
				kind = kind.Elem()
			}
			values := absurd[kind.Kind()]
			if kind == reflect.TypeFor[memory]() {
				values = []string{"1", "0x", "-1MiB", "64MiB", "999999999TiB", "9223372036854775807", "512 bytes"}
			}
			if kind == reflect.TypeFor[mcts.Selection]() {
				values = []string{"", "PUCT", "puct,uct", "3", "\x00"}
			}
			if k := kind.Kind(); k >= reflect.Int && k <= reflect.Float64 && values == nil && f.Name != "seed" {
				t.Errorf("%v --%s is of type %v, which nothing is tried with", path, f.Name, kind)
			}
			if id := f.Name + f.Tag.Get("range"); !gametest.Soak() && len(values) > 0 {
				if known[id] {
					continue
				}
				known[id], values = true, values[len(known)%len(values):][:1]
			}
			for _, value := range values {
				if value == "2147483648" && f.Name == "max-nodes" {
					continue // that many nodes of a solver can be counted
				}
				tried++
				status, out, stderr := evald(t, "", slices.Concat(args, []string{"--" + f.Name + "=" + value})...)
				says := slices.ContainsFunc([]string{"must be", "expected", "want an even number", "more than"}, func(s string) bool { return strings.Contains(stderr, s) })
				if status != exitUsage || out != "" || !strings.Contains(stderr, "--"+f.Name) || !says {
					t.Errorf("%v --%s=%s: status %d, %s", path, f.Name, value, status, stderr)
				}
			}
		}
	})
	if tried < 60 {
		t.Errorf("%d values were tried: are there no flags?", tried)
	}
}

// Tables cannot be larger than the machine's memory.
func TestMemoryFlags(t *testing.T) {
	have := machineMemory()
	if have == 0 {
		t.Skip("this machine's memory is not known")
	}
	mib := strconv.FormatUint(have>>20+1, 10)
	entries := strconv.FormatUint(min(1<<30, have/uint64(eval.CacheEntry)+1), 10)
	for _, args := range [][]string{
		{"solve", "--table-mib", mib},
		{"bench", "solve", "--table-mib", mib},
		{"serve", "--backend", "uniform", "--cache", entries},
		{"selfplay", "--backend", "uniform", "-o", filepath.Join(t.TempDir(), "run"), "--games", "1048576", "--visits", "1000000", "--at-once", "1048576"},
	} {
		if args[len(args)-1] == "1073741824" {
			continue // this machine has enough memory for that
		}
		status, out, stderr := evald(t, "", args...)
		if status != exitUsage || out != "" || !strings.Contains(stderr, args[len(args)-2]+" "+args[len(args)-1]+": takes") || !strings.Contains(stderr, "must be at most") {
			t.Errorf("%q: status %d, %s", args, status, stderr)
		}
	}
}
