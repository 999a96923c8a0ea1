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

// refuses runs a command that must end with a status, say why, and write no answer.
func refuses(t *testing.T, status int, says, stdin string, args ...string) {
	t.Helper()
	if got, out, stderr := evald(t, stdin, args...); got != status || !strings.Contains(stderr, says) || out != "" {
		t.Errorf("evald %s: status %d, output %q, errors %q; want status %d and %q", strings.Join(args, " "), got, out, stderr, status, says)
	}
}

// byProgram compares what a program prints with a file of testdata.
func byProgram(t *testing.T, goldenName, program string, args ...string) {
	t.Helper()
	out, err := exec.Command(program, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	golden(t, goldenName, string(out))
}

var fraction = regexp.MustCompile(`\d+\.\d+(e-\d+)?|\d+e-\d+`)

// golden compares with a file of testdata. Fractions are rounded because processors differ in the last digits.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	got = fraction.ReplaceAllStringFunc(got, func(s string) string {
		x := gametest.Must(strconv.ParseFloat(s, 64))(t)
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
	_, exact, _ := evald(t, "", "eval", "sample.txt", "--backend", "bitsquares", "--exact")
	golden(t, "sample_exact.jsonl", exact)
	status, out, _ := evald(t, "", "eval", "sample.txt", "--backend", "bitsquares", "--format", "table")
	table, throughput, found := strings.Cut(out, "\n\n")
	if status != exitOK || !found || !strings.Contains(strings.Join(strings.Fields(throughput), " "), "positions/s (terminal 1, bitsquares 9, rules 6, forced 4)") {
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

// A file can be named like a position.
func TestFileNamedLikeAPosition(t *testing.T) {
	t.Chdir(t.TempDir())
	putFile(t, "44554", "334\n")
	if out := must(t, "", "eval", "44554", "--backend", "bitsquares"); !strings.Contains(out, `"position":"334"`) {
		t.Error(out)
	}
}

func TestWrongUse(t *testing.T) {
	dir := t.TempDir()
	half := filepath.Join(dir, "half.safetensors")
	putFile(t, half, "\x40\x00\x00\x00\x00\x00\x00\x00{")
	for _, c := range []struct {
		args   string
		status int
		says   string
	}{
		{"", exitUsage, "\n  eval          Evaluate positions: "},
		{"evall", exitUsage, `did you mean "eval"?`},
		{"eval --format xml", exitUsage, `--format must be one of "jsonl","table","parquet" but got "xml"`},
		{"score - --visits 0,1", exitUsage, "--visits 1: must be 0, for the policy itself, or 2 to"},
		{"eval no/such/file", exitBadInput, "no/such/file: no such file or directory\n"},
		{"eval 44554", exitBadInput, "open 44554: no such file or directory; for the position itself: echo 44554 | evald eval\n"},
		{"search 9x5x4:4455", exitBadInput, "echo 9x5x4:4455 | evald search\n"},
		{`solve {"board":[0,0,0,0],"mark":1,"rows":2,"columns":2,"inarow":2}`, exitBadInput, `echo '{"board":[0,0,0,0],"mark":1,"rows":2,"columns":2,"inarow":2}' | evald solve` + "\n"},
		{"analyze 44554", exitBadInput, `echo '{"id":"a","moves":"44554"}' | evald analyze` + "\n"},
		{"score 44554", exitBadInput, "echo 44554 | evald solve --scores | evald score -\n"},
		{"eval " + dir, exitBadInput, "is a directory"},
		{"eval --backend gpu", exitBadInput, "--backend cpu evaluates networks"},
		{"eval --backend bitsquares --mirror", exitUsage, `--backend bitsquares uses no network`},
		{"eval --backend bitsquares --model x", exitUsage, `uses no model, but --model is "x"`},
		{"eval --model nope", exitBadInput, `"nope" is neither a file nor a shipped model (default, default-fast, any, seeded-2x16)`},
		{"eval --model " + half, exitBadInput, "half.safetensors: parse network: header length is 64, but only 1 bytes follow"},
		{"eval -o " + filepath.Join(dir, "no", "where"), exitBadInput, "no such file or directory"},
		{"solve --plies 3", exitUsage, "--plies does nothing without --build-book"},
		{"solve --rules 4x4x4", exitUsage, "--rules does nothing without --build-book"},
		{"solve --build-book x --scores", exitUsage, "--scores does nothing with --build-book"},
		{"solve --build-book x sample.txt", exitUsage, "--build-book names the file to write, and reads none"},
		{"solve --pack-book x", exitUsage, "--pack-book does nothing without --book"},
		{"solve --pack-book x --book y --scores", exitUsage, "--pack-book does nothing with --scores"},
		{"solve --pack-book x --book y sample.txt", exitUsage, "--pack-book names the file to write, and reads only the file of --book"},
		{"solve --pack-book x --book none", exitUsage, "leave the positions, -o and --book none out"},
		{"solve --build-book x --rules 4x4x5", exitUsage, `--rules: inarow "5": nobody can win in rules "4x4x5": must be at most 4`},
		{"search --seed 1", exitUsage, "--seed does nothing without --selection uct|gumbel|flat"},
		{"score x --selection uct", exitUsage, "--selection does nothing without --visits"},
		{"score x --agent uct --model default", exitUsage, "--model does nothing with --agent"},
		{"selfplay -o x --selection gumbel --noise 0.1", exitUsage, "--noise does nothing with --selection gumbel"},
		{"serve --tls-cert x", exitUsage, "--tls-cert needs --tls-key, the key of that certificate"},
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
		{"analyze no/such/file", exitBadInput, "no/such/file"},
		{"kaggle", exitUsage, "expected one of"},
		{"kaggle pack --fallback", exitUsage, "unknown flag --fallback"},
		{"kaggle serve --agent robot", exitUsage, `agent "robot": there are alphabeta-bitsquares, flat,`},
		{"kaggle serve --agent mcts:model=nope", exitBadInput, `"nope" is neither a file nor a shipped model`},
		{"kaggle serve --listen nowhere", exitBadInput, "--listen nowhere"},
		{"kaggle act --agent uct:time=5", exitUsage, "want a duration such as 200ms"},
		{"kaggle pack --agent robot", exitUsage, `agent "robot"`},
		{"kaggle pack --binary sample.txt -o " + dir + "/x", exitBadInput, "is not for linux/amd64"},
		{"kaggle pack --agent mcts:model=nope -o /nowhere/x", exitBadInput, "/nowhere"},
		{"match", exitUsage, `expected "<agent> ..."`},
		{"match random", exitUsage, "2 agents or more, not only random"},
		{"match random robot", exitUsage, `agent "robot": there are alphabeta-bitsquares`},
		{"match random uct:visits=2", exitUsage, `uct has no "visits"`},
		{"match random mcts:model=nope", exitBadInput, `"nope" is neither a file nor a shipped model`},
		{"match random random --games 7", exitUsage, "--games 7: want an even number, as each opening is played twice: 8"},
		{"match random random --games=-2", exitUsage, "want an even number, as each opening is played twice: 2"},
		{"match random random --games 1000000000000", exitUsage, "more than 10000000 games"},
		{"match random random --rules 7x6", exitUsage, "--rules"},
		{"match random random --rules 70x60x4", exitUsage, "--rules"},
		{"match random random --opening-plies 42", exitUsage, "--opening-plies: openings of 42 plies: want 0 to 41"},
		{"match random random --openings match.go --opening-plies 4", exitUsage, "--openings does nothing with --opening-plies"},
		{"match random random --openings match.go", exitBadInput, "--openings"},
		{"match random random --openings no/such", exitUsage, "no such file"},
		{"match random random --sprt 5", exitUsage, "want ELO0,ELO1 and two agents"},
		{"match random random random --sprt 0,5", exitUsage, "with 3 agents: want ELO0,ELO1 and two agents"},
		{"match random random --sprt 5,0", exitUsage, "want elo0 less than elo1"},
		{"match random random -o " + dir, exitBadInput, "is not a regular file: name another one"},
		{"match random random -o match.go", exitBadInput, "is there already and is no record of a match: name another file"},
		{"match random random -o no/such/dir", exitBadInput, "no such file or directory"},
		{"play --side third", exitUsage, `--side must be one of`},
		{"play --agent robot", exitUsage, `--agent: agent "robot": there are`},
		{"play --agent stong", exitUsage, `uct-oddeven, and the levels beginner, novice, casual, fair, steady, good, strong, expert, master, perfect, instinct, proven; did you mean strong?`},
		{"match random polcy:model=default", exitUsage, `did you mean policy?`},
		{"play --agent random --agent random", exitUsage, "2 agents: one plays against you"},
		{"play --agent random --side both", exitUsage, "--side both is for two people"},
		{"play --agent mcts:model=nope", exitBadInput, `"nope" is neither a file nor a shipped model`},
		{"play --evaluate nope", exitBadInput, "--evaluate: "},
		{"play --rules 7x6", exitUsage, `--rules: rules "7x6"`},
		{"play --rules 20x20x4", exitUsage, "at most 128"},
		{"play --position 7x6:1", exitUsage, `--position: rules "7x6"`},
		{"play --position 448", exitUsage, `--position: moves "448": move 3 is "8"`},
		{"play --position 12121212", exitUsage, "move 8 comes after the game was won"},
		{"play --position 9x5x4:1 --rules 7x6x4", exitUsage, "two different games"},
		{"selfplay --games 3", exitUsage, "missing flags: --out=DIR, or --join=URL"},
		{"selfplay --join x --model y", exitUsage, "--model does nothing with --join"},
		{"selfplay --join x --visits 9", exitUsage, "--visits does nothing with --join"},
		{"selfplay --join x -o y", exitUsage, "--out does nothing with --join"},
		{"selfplay --join x --backend bitsquares", exitUsage, "--backend bitsquares does nothing with --join"},
		{"selfplay -o x --spool y", exitUsage, "--spool does nothing without --join"},
		{"learn --listen :0 -o " + dir, exitUsage, "--listen does nothing without --cluster"},
		{"learn --cluster --tls-key x -o " + dir, exitUsage, "--tls-key does nothing without --tls-cert"},
		{"eval --backend cpu --gpus=0,2", exitUsage, "--backend cpu uses no GPUs, but --gpus is 0,2"},
		{"eval --backend bitsquares --gpus=1", exitUsage, "--backend bitsquares uses no GPUs, but --gpus is 1"},
		{"eval --gpus=1,x", exitUsage, `--gpus: "1,x": must be numbers from 0 on, such as 0,2`},
		{"eval --gpus=-1", exitUsage, `"-1": must be numbers from 0 on, such as 0,2`},
		{"eval --gpus=0,", exitUsage, `"0,": must be numbers from 0 on, such as 0,2`},
		{"eval --gpus=", exitUsage, `"": must be numbers from 0 on, such as 0,2`},
		{"bench eval --model nope", exitBadInput, "neither a file nor a shipped model"},
	} {
		refuses(t, c.status, c.says, "", strings.Fields(c.args)...)
	}
	if _, err := os.Stat("match.go.part"); err == nil {
		t.Error("match.go.part is left behind")
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
	if _, out, _ := evald(t, "9x5x4:445\n", "eval", "--backend", "cpu", "--model", "default"); !strings.Contains(out, `"source":"cpu","model":"default"`) {
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
	python := gametest.Python(t, "duckdb", "pandas")
	name := filepath.Join(t.TempDir(), "out.parquet")
	if status, _, stderr := evald(t, "44554\n448\n1212121\n9x5x4:44\n", "eval", "--backend", "bitsquares", "--format", "parquet", "-o", name); status != exitBadInput {
		t.Fatalf("status %d, errors %q", status, stderr)
	}
	byProgram(t, "read_parquet.txt", python, "testdata/read_parquet.py", name)
}

// The numbers themselves are not tested, only that they exist.
func TestBench(t *testing.T) {
	for command, names := range map[string][]string{
		"bench eval --round 1ms --json":                      {"win test, 1 core", "bitsquares, 1 core", "network seeded-2x16", "eval of a file by bitsquares, parquet"},
		"bench serve --round 5ms --json --model seeded-2x16": {"bitsquares over gRPC, requests of 256", "requests of 1", "64 clients of one position"},
	} {
		out := must(t, "", strings.Fields(command)...)
		for _, name := range names {
			if !strings.Contains(out, name) {
				t.Errorf("%s: no figure %q in\n%s", command, name, out)
			}
		}
		if strings.Contains(out, `"rate": 0`) {
			t.Errorf("%s: a figure is zero:\n%s", command, out)
		}
	}
}
