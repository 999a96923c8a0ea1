package main

import (
	"bytes"
	"context"
	"flag"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/heuristic"
)

var update = flag.Bool("update", false, "write the golden files anew")

// evald runs the program as the shell would.
func evald(t *testing.T, stdin string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	status = run(t.Context(), args, streams{strings.NewReader(stdin), &out, &err})
	return status, out.String(), err.String()
}

// parsesOnly skips a test under the race detector. One goroutine does all that the test checks, which is to parse command lines
// and to refuse them. The run without the detector checks it.
func parsesOnly(t *testing.T) {
	t.Helper()
	if gametest.Race {
		t.Skip("parses command lines in one goroutine")
	}
}

var fraction = regexp.MustCompile(`\d+\.\d+(e-\d+)?|\d+e-\d+`)

// golden compares with a file of testdata. Fractions are rounded because processors differ in the last digits.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	got = fraction.ReplaceAllStringFunc(got, func(s string) string {
		x, err := strconv.ParseFloat(s, 64)
		if err != nil {
			t.Fatal(err)
		}
		return strconv.FormatFloat(math.Round(x*1e4)/1e4, 'f', -1, 64)
	})
	if *update {
		putFile(t, path, got)
	}
	want := getFile(t, path)
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; go test ./cmd/evald -update writes it anew):\n%s", path, diff)
	}
}

func TestSample(t *testing.T) {
	for _, backend := range heuristic.Names() {
		status, out, stderr := evald(t, "", "eval", "sample.txt", "--backend", backend)
		if status != exitOK || stderr != "" {
			t.Errorf("%s: status %d, errors %q", backend, status, stderr)
		}
		switch backend { // these answers are kept as they were first published
		case "bitsquares", "gameovers", "oddeven", "uniform":
			golden(t, "sample_"+backend+".jsonl", out)
		}
	}
	status, out, _ := evald(t, "", "eval", "sample.txt", "--backend", "bitsquares", "--format", "table")
	table, throughput, found := strings.Cut(out, "\n\n")
	if status != exitOK || !found || !strings.Contains(throughput, "positions/s (terminal 1, bitsquares 9, rules 6, forced 4)") {
		t.Errorf("status %d, below the table %q", status, throughput)
	}
	golden(t, "sample_bitsquares.txt", table+"\n")
}

func TestBadLines(t *testing.T) {
	in := "44554\n448\n\n{\"board\":[1],\"mark\":1}\n-\n20x20x4:1\n\xff\n7x6x4:4444444\n1212121\n44"
	status, out, stderr := evald(t, in, "eval", "--backend", "bitsquares")
	golden(t, "bad_lines.jsonl", out)
	if status != exitBadInput || stderr != "evald: 5 of 9 lines refused; their answers say why\n" {
		t.Errorf("status %d, errors %q; want %d and the count", status, stderr, exitBadInput)
	}
	status, out, _ = evald(t, in, "eval", "--backend", "bitsquares", "--format", "table")
	table, _, _ := strings.Cut(out, "\n\n")
	golden(t, "bad_lines.txt", table+"\n")
	if status != exitBadInput {
		t.Errorf("table: status %d, want %d", status, exitBadInput)
	}
}

func TestWrongUse(t *testing.T) {
	parsesOnly(t)
	dir := t.TempDir()
	half := filepath.Join(dir, "half.safetensors")
	putFile(t, half, "\x40\x00\x00\x00\x00\x00\x00\x00{")
	for _, c := range []struct {
		args   string
		status int
		says   string
	}{
		{"", exitUsage, "expected one of"},
		{"evall", exitUsage, `did you mean "eval"?`},
		{"eval --format xml", exitUsage, `--format must be one of "jsonl","table","parquet" but got "xml"`},
		{"eval --batch x", exitUsage, "--batch"},
		{"score - --visits=-1", exitUsage, "--visits -1: must be 0, for the policy itself, or 2 to"},
		{"score - --visits 0,1", exitUsage, "--visits 1: must be 0, for the policy itself, or 2 to"},
		{"eval no/such/file", exitBadInput, "no/such/file"},
		{"eval " + dir, exitBadInput, "is a directory"},
		{"eval --backend gpu", exitBadInput, "--backend cpu evaluates networks"},
		{"eval --backend bitsquares --mirror", exitUsage, `--backend bitsquares uses no network`},
		{"eval --backend bitsquares --model x", exitUsage, `uses no model, but --model is "x"`},
		{"eval --model nope", exitBadInput, `"nope" is neither a file nor a shipped model (default, default-fast, seeded-2x16)`},
		{"eval --model " + half, exitBadInput, "half.safetensors: parse network: header length is 64, but only 1 bytes follow"},
		{"eval -o " + filepath.Join(dir, "no", "where"), exitBadInput, "no such file or directory"},
		{"solve --plies 3", exitUsage, "--plies does nothing without --build-book"},
		{"solve --rules 4x4x4", exitUsage, "--rules does nothing without --build-book"},
		{"solve --build-book x --scores", exitUsage, "--scores does nothing with --build-book"},
		{"solve --build-book x sample.txt", exitUsage, "--build-book names the file to write, and reads none"},
		{"solve --build-book x --rules 4x4x5", exitUsage, `--rules: inarow "5": nobody can win in rules "4x4x5": must be at most 4`},
		{"search --seed 1", exitUsage, "--seed does nothing without --selection uct|gumbel"},
		{"score x --selection uct", exitUsage, "--selection does nothing without --visits"},
		{"score x --agent uct --model default", exitUsage, "--model does nothing with --agent"},
		{"selfplay -o x --selection gumbel --noise 0.1", exitUsage, "--noise does nothing with --selection gumbel"},
		{"serve --tls-key x", exitUsage, "--tls-key does nothing without --tls-cert"},
		{"train -o x y", exitUsage, "no such file"},
		{"train -o x --test 5 sample.txt", exitUsage, "--test does nothing without --task gameover"},
		{"train -o x --config 6x64", exitUsage, "--config: open 6x64: no such file or directory (it is a file of flags; a network's shape is --network)"},
		{"bench eval --networks 2x8", exitUsage, "--networks does nothing without --backend gpu"},
		{"completion csh", exitUsage, `must be one of "bash","zsh","fish"`},
		{"help nonesuch", exitBadInput, "unexpected argument nonesuch"},
		{"bench eval --peer openvino --backend gpu", exitUsage, "--peer openvino is for --backend cpu"},
		{"bench eval --peer pytorch", exitUsage, "--peer pytorch is for --backend gpu"},
		{"bench eval --peer tensorrt", exitUsage, "--peer tensorrt is for --backend gpu"},
		{"bench eval --peer tensorflow", exitUsage, "--peer must be one of"},
		{"bench eval --kernel tower_64", exitUsage, "--kernel does nothing without --backend gpu"},
		{"bench eval --precision fp16", exitUsage, "--precision does nothing without --peer pytorch|pytorch-compile|tensorrt"},
		{"bench eval --model nope", exitBadInput, "neither a file nor a shipped model"},
	} {
		status, out, stderr := evald(t, "", strings.Fields(c.args)...)
		if status != c.status || !strings.Contains(stderr, c.says) || out != "" {
			t.Errorf("evald %s: status %d, output %q, errors %q; want status %d and %q", c.args, status, out, stderr, c.status, c.says)
		}
	}
	for _, args := range []string{"--help", "eval --help", "bench --help", "--version", "help", "help model import", "version", "version --json", "man", "completion zsh"} {
		if status, out, stderr := evald(t, "", strings.Fields(args)...); status != exitOK || out == "" || stderr != "" {
			t.Errorf("evald %s: status %d, output %q, errors %q", args, status, out, stderr)
		}
	}
}

// A network answers the same by name and by path, and an automatic choice is reported.
func TestModels(t *testing.T) {
	file := getFile(t, "../../models/seeded-2x16.safetensors")
	path := filepath.Join(t.TempDir(), "mine.safetensors")
	putFile(t, path, file)
	_, byName, notes := evald(t, "445\n", "eval", "--model", "seeded-2x16")
	_, byPath, quiet := evald(t, "445\n", "eval", "--backend", "cpu", "--model", path)
	if !strings.Contains(byName, `"source":"cpu","model":"seeded-2x16"`) || !strings.Contains(notes, "not trained") {
		t.Errorf("by name: %s%s", byName, notes)
	}
	if byPath != strings.Replace(byName, "seeded-2x16", "mine", 1) || quiet != "" {
		t.Errorf("by path: %s%s, want the answer by name %s", byPath, quiet, byName)
	}
	_, out, notes := evald(t, "445\n9x5x4:445\n", "eval", "-v")
	trained, other, _ := strings.Cut(out, "\n")
	if !strings.Contains(trained, `"source":"cpu","model":"default"`) || !strings.Contains(other, `"source":"bitsquares"`) ||
		!strings.Contains(notes, "bitsquares on boards that it was not trained on") {
		t.Errorf("without a model: %s%s", out, notes)
	}
	if _, out, _ = evald(t, "9x5x4:445\n", "eval", "--backend", "cpu", "--model", "default"); !strings.Contains(out, `"source":"cpu","model":"default"`) {
		t.Errorf("the default model by name: %s", out)
	}
}

// An output file appears complete or not at all.
func TestOutputFile(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "out.jsonl")
	if status, out, stderr := evald(t, "44\n", "eval", "--backend", "uniform", "-o", name, "-v"); status != exitOK || out != "" || !strings.Contains(stderr, "batch 1024") {
		t.Errorf("status %d, output %q, errors %q", status, out, stderr)
	}
	if text, err := os.ReadFile(name); err != nil || strings.Count(string(text), "\n") != 1 {
		t.Errorf("%q, %v; want one line", text, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	in := &cancelAfterRead{text: strings.NewReader(strings.Repeat("44\n", 100_000)), cancel: cancel}
	var stderr bytes.Buffer
	status := run(ctx, []string{"eval", "--backend", "uniform", "-o", name}, streams{in, new(bytes.Buffer), &stderr})
	if status != exitInterrupted || !strings.HasPrefix(stderr.String(), "evald: interrupted; ") || !strings.HasSuffix(stderr.String(), "the rest was not begun; "+name+" was not written, since it would not be whole\n") {
		t.Errorf("interrupted: status %d, errors %q", status, stderr.String())
	}
	if text, err := os.ReadFile(name); err != nil || strings.Count(string(text), "\n") != 1 {
		t.Errorf("after an interrupt %d bytes, %v; want the line from before", len(text), err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("files %v, %v; want no temporary ones", files, err)
	}
}

// DuckDB and pandas can read the output of --format parquet.
func TestParquetPeers(t *testing.T) {
	python := os.Getenv("EVALD_PYTHON")
	if python == "" {
		t.Skip("EVALD_PYTHON names no Python with duckdb and pandas (see .ci/requirements.txt)")
	}
	name := filepath.Join(t.TempDir(), "out.parquet")
	if status, _, stderr := evald(t, "44554\n448\n1212121\n9x5x4:44\n", "eval", "--backend", "bitsquares", "--format", "parquet", "-o", name); status != exitBadInput {
		t.Fatalf("status %d, errors %q", status, stderr)
	}
	out, err := exec.Command(python, "testdata/read_parquet.py", name).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	golden(t, "read_parquet.txt", string(out))
}

// The numbers themselves are not tested, only that they exist.
func TestBenchEval(t *testing.T) {
	if testing.Short() {
		t.Skip("rates under the race detector mean nothing, and each takes seconds there")
	}
	status, out, stderr := evald(t, "", "bench", "eval", "--round", "1ms", "--json")
	if status != exitOK {
		t.Fatalf("status %d, errors %q", status, stderr)
	}
	for _, name := range []string{"win test, 1 core", "bitsquares, 1 core", "network seeded-2x16", "eval of a file by bitsquares, parquet"} {
		if !strings.Contains(out, `"name": "`+name) {
			t.Errorf("no figure %q in\n%s", name, out)
		}
	}
	if strings.Contains(out, `"rate": 0`) {
		t.Errorf("a figure is zero:\n%s", out)
	}
}
