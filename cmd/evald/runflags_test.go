package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/evald/evald/engine/game/gametest"
)

// What a resumed run does with its flags. A command that resumes must have all its flags here.
const (
	fixed  = "fixed"      // kept; another value is an error
	change = "change"     // kept; may change
	again  = "again"      // must be given again; another value is an error
	free   = "free"       // must be given again; may change
	apart  = "not a part" // of the run, such as devices and the form of the output
)

// runFlagsOf classifies the flags of the commands that resume. With fixed and change, a flag may
// have another value than the tested run's.
var runFlagsOf = map[string]map[string]string{
	"learn": {
		apart:  "out preset gpus ort cluster listen nats nats-creds tls-ca worker-password tls-cert tls-key metrics json",
		fixed:  "rules=5x4x4 init=seeded-2x16 network=1x8 seed=3 first-games=7 first-factor=2 labels=solver policy=true exact=30 gate-visits=9 opponent=negamax positions=41 continuous cpu-path=go",
		change: "generations=0 games=41 visits=17 fast-visits=7 full-share=0.5 selection=puct window=70 passes=2 batch=32 lr=0.001 q-share=0.25 gate-games=42 opponent-games=10 backend=cpu trainer=torch",
	},
	"train": {
		apart:  "out",
		fixed:  "task=gameover network=1x8 init= rules=5x4x4 batch=16 steps=9 lr=0.1 warmup=3 optimizer=adamw ema=0.5 clip=2 l2=0.5 seed=9 q-share=0.5 heuristics=false taste=default validate=0.25 without=",
		change: "trainer=torch test=7 save=2m plot=",
	},
	"selfplay": {
		again: "backend model mirror rules visits fast-visits full-share selection explore noise alpha discount openings opening-plies temperature temperature-plies resign policy seed exact cpu-path",
		free:  "games",
		apart: "out copy-to gpus ort at-once batch remember join nats-creds tls-ca spool",
	},
	"match": {
		again: "rules openings opening-plies seed", free: "games sprt",
		apart: "out tune grow-book plot json gpus ort cpu-path",
	},
	"prove": {
		again: "side rules from sample", apart: "out memory book json gpus ort cpu-path",
	},
	"positions": {
		again: "seed count rules plies nodes importance", free: "kinds train", apart: "out book part",
	},
	"puzzles": {again: "count seed rules", apart: "out json"},
}

// samples returns the flags of a class with the values to test.
func samples(command, class string) (names, values []string) {
	for _, f := range strings.Fields(runFlagsOf[command][class]) {
		name, value, _ := strings.Cut(f, "=")
		names, values = append(names, name), append(values, value)
	}
	return names, values
}

// Every flag of every command that resumes is classified.
func TestRunFlags(t *testing.T) {
	parser := newParser(new(cli), streams{}, func(int) {})
	found := 0
	for _, command := range parser.Model.Leaves(true) {
		if !slices.ContainsFunc(command.Flags, func(f *kong.Flag) bool { return f.Name == "out" && strings.Contains(f.Help, "resume") }) {
			continue
		}
		found++
		classes := map[string]string{"help": apart}
		for class := range runFlagsOf[command.Name] {
			names, _ := samples(command.Name, class)
			for _, name := range names {
				if classes[name] != "" {
					t.Errorf("%s --%s is %s and %s", command.Name, name, classes[name], class)
				}
				classes[name] = class
			}
		}
		for _, f := range command.Flags {
			if classes[f.Name] == "" {
				t.Errorf("%s --%s: what does a resumed run do with it? Add it to runFlagsOf", command.Name, f.Name)
			}
			tag := map[string]string{"fixed": fixed, "flag": fixed, "change": change, "-": apart}[f.Tag.Get("run")]
			if command.Name == "train" && tag != classes[f.Name] && f.Name != "help" {
				t.Errorf("train --%s has the tag run:%q and is %s", f.Name, f.Tag.Get("run"), classes[f.Name])
			}
			delete(classes, f.Name)
		}
		if delete(classes, "help"); len(classes) > 0 {
			t.Errorf("%s has no flags %v", command.Name, classes)
		}
	}
	if found != len(runFlagsOf) {
		t.Errorf("%d commands resume, want %d", found, len(runFlagsOf))
	}
}

// A run of evald learn keeps its flags: another value is an error with both values, or it is kept
// from then on.
func TestLearnKeepsFlags(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	must(t, "", learnArgs(dir, "--generations", "0", "--cpu-path", "go")...)
	names, values := samples("learn", fixed)
	for i, name := range names {
		args := []string{"learn", "-o", dir, "--" + name + "=" + values[i]}
		switch name {
		case "cpu-path":
			continue // TestRunsKeepPath
		case "continuous":
			args = []string{"learn", "-o", dir, "--cluster", "--listen", "127.0.0.1:0", "--continuous"}
		}
		field := strings.NewReplacer("exact", "selfplay.exact", "policy", "selfplay.policy", "-", "_").Replace(name)
		refuses(t, exitBadInput, "the run has "+strings.Replace(field, "opponent", "opponents", 1), "", args...)
		refuses(t, exitBadInput, "which cannot change midway", "", args...)
	}
	names, values = samples("learn", change)
	for i, name := range names {
		value := values[i]
		switch name {
		case "generations":
			continue // the run has none, and TestLearn changes the number
		case "trainer":
			continue // it needs PyTorch
		}
		record := filepath.Join(dir, "changes.jsonl")
		_, _, stderr := evald(t, "", "learn", "-o", dir, "--"+name+"="+value)
		if !strings.Contains(stderr, record+": ") || !strings.Contains(strings.ReplaceAll(stderr, `"`, ""), " is "+value+" instead of ") {
			t.Errorf("--%s %s: errors %q", name, value, stderr)
		}
		lines := strings.Count(string(getFile(t, record)), "\n")
		_, _, stderr = evald(t, "", "learn", "-o", dir)
		if again := strings.Count(string(getFile(t, record)), "\n"); again != lines || strings.Contains(stderr, record) {
			t.Errorf("without --%s: %d lines after %d, errors %q", name, again, lines, stderr)
		}
	}
}

// A run of evald train keeps its flags and files: another value is an error with both values, and a
// flag that is left out has the run's.
func TestTrainKeepsFlags(t *testing.T) {
	path := recordsFile(t, 400, nil)
	dir := filepath.Join(t.TempDir(), "run")
	args := []string{"train", path, "-o", dir, "--network", "1x4/4/6", "--batch", "32", "--steps", "8", "--seed", "4", "--heuristics", "--save", "1h"}
	out := must(t, "", args...)
	status, again, stderr := evald(t, "", "train", "-o", dir)
	if status != exitOK || again != out || !strings.Contains(stderr, "8 steps of 32 positions; muon, rate 0.002, cosine after 0 steps; seed 4; in "+dir+", which has 8 steps") || strings.Contains(stderr, "with --heuristics they do") {
		t.Errorf("without flags: status %d, output %q, errors %q", status, again, stderr)
	}
	names, values := samples("train", fixed)
	for i, name := range names {
		value := values[i]
		switch name {
		case "init":
			value = filepath.Join(dir, "network.safetensors")
		case "without":
			value = writeText(t, "set.txt", "1 0 0 0 0 0 0 0\n")
		case "task", "rules":
			continue // the files are of another kind or game, which is reported first
		}
		status, _, stderr := evald(t, "", "train", "-o", dir, "--"+name+"="+value)
		if status == exitOK || !strings.Contains(stderr, ", and now it is ") {
			t.Errorf("--%s %s: status %d, errors %q", name, value, status, stderr)
		}
	}
	must(t, "", "train", "-o", dir, "--save", "2m", "--plot", filepath.Join(t.TempDir(), "f.svg"))
	for name, want := range map[string]string{"save": "2m0s", "test": "100000", "seed": "4", "heuristics": "true"} {
		if kept := gametest.Must(readFlags(dir))(t); fmt.Sprint(kept.Flags[name]) != "["+want+"]" {
			t.Errorf("--%s is kept as %q, want %s", name, kept.Flags[name], want)
		}
	}
	putFile(t, filepath.Join(dir, flagsFile), strings.Replace(string(getFile(t, filepath.Join(dir, flagsFile))), `"2m0s"`, `"3m0s"`, 1))
	refuses(t, exitUsage, flagsFile+": is damaged", "", "train", "-o", dir)
}
