package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evald/evald/engine/durable/durabletest"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/sample"
	"github.com/evald/evald/engine/score"
	"github.com/evald/evald/nn/learn"
)

// asProgram makes the test binary run as the program itself, for tests that kill it.
const asProgram = "EVALD_TEST_AS_PROGRAM"

// TestMain leaves the user's cache alone: nothing is measured, and the order of the paths chooses among them.
func TestMain(m *testing.M) {
	os.Setenv("EVALD_CACHE_DIR", os.DevNull)
	if os.Getenv(asProgram) != "" || len(os.Args) > 1 && (os.Args[1] == onnxTrial || os.Args[1] == gpuTrial) { // as the commands start it
		main()
	}
	os.Exit(m.Run())
}

func learnArgs(dir string, more ...string) []string {
	return append(strings.Fields("learn --rules 4x4x3 --network 1x16 --seed 2 --first-games 60 --games 40 --batch 64 --visits 16 --fast-visits 6 "+
		"--gate-visits 8 --gate-games 40 --opponent random --opponent-games 8 --positions 10 -o "+dir), more...)
}

// A run prints a line per generation, draws its curves, continues without its flags, and reports what is wrong.
func TestLearn(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	status, out, stderr := evald(t, "", learnArgs(dir, "--generations", "1")...)
	if status != exitOK || !strings.Contains(out, "0  60 games by bitsquares") || !strings.Contains(out, "promoted") || !strings.Contains(out, "; too few games for a rating, ") {
		t.Fatalf("status %d, output %q, errors %q", status, out, stderr)
	}
	says := func(plan string, changes ...string) {
		t.Helper()
		want := ""
		for _, change := range changes {
			want += regexp.QuoteMeta("evald learn: " + filepath.Join(dir, "changes.jsonl") + ": " + change + "\n")
		}
		want += `evald learn: 4x4x3, network 1x16, seed 2, \d+ threads; ` + plan + `; ` + regexp.QuoteMeta(filepath.Join(dir, "config.json")) + " has all settings\n"
		if !regexp.MustCompile("^" + want + "$").MatchString(stderr) {
			t.Errorf("errors %q, want %s", stderr, want)
		}
	}
	says("1 generation to learn")
	status, out, stderr = evald(t, "", "learn", "-o", dir, "--generations", "2", "--json")
	says("1 generation learnt, 1 to go", "generations is 2 instead of 1")
	if status != exitOK || !strings.HasPrefix(out, `{"generation":1,"player":"000","games":40,`) || strings.Count(out, "\n") != 1 {
		t.Errorf("going on: status %d, output %q, errors %q", status, out, stderr)
	}
	_, _, stderr = evald(t, "", "learn", "-o", dir)
	says("2 generations learnt, none to go")
	_, _, stderr = evald(t, "", "learn", "-o", dir, "--lr", "0.001", "--games", "50", "--seed", "2", "--rules", "4x4x3")
	says("2 generations learnt, none to go", "from generation 2 on, games is 50 instead of 40", "from generation 2 on, lr is 0.001 instead of 0.004")
	_, _, stderr = evald(t, "", "learn", "-o", dir)
	says("2 generations learnt, none to go")
	for name, begins := range map[string]string{
		"curves.svg": "<?xml", "generations.jsonl": `{"generation":0`, "best.safetensors": "", "networks/000.safetensors": "", "positions/random.txt": "# 4x4x3, random play, seed 2",
	} {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !strings.HasPrefix(string(text), begins) {
			t.Errorf("%s: %.40q, error %v", name, text, err)
		}
	}
	checkAccuracies(t, dir)
	// A preset's settings are those of the run, but for the flags beside it.
	exact := filepath.Join(t.TempDir(), "exact")
	status, out, stderr = evald(t, "", learnArgs(exact, "--preset", "fast", "--exact=30", "--generations", "1")...)
	if text, err := os.ReadFile(filepath.Join(exact, "config.json")); status != exitOK || !regexp.MustCompile(`0  60 games by bitsquares, [0-9.]+% ended by proof, `).MatchString(out) ||
		!strings.Contains(string(text), `"preset": "fast"`) || !strings.Contains(string(text), `"exact": 30`) {
		t.Errorf("--preset: status %d, output %q, errors %q, configuration %s, error %v", status, out, stderr, text, err)
	}
	must(t, "", "learn", "-o", exact, "--generations", "1", "--preset", "fast")
	older := regexp.MustCompile(`  "(generations|backend|trainer)": [^\n]*\n|,\n  "crc32": "\w*"`)
	putFile(t, filepath.Join(exact, "config.json"), older.ReplaceAll(getFile(t, filepath.Join(exact, "config.json")), nil))
	gametest.OK(t, os.RemoveAll(filepath.Join(exact, "changes.jsonl")))
	_, _, stderr = evald(t, "", "learn", "-o", exact, "--generations", "1")
	if want := "changes.jsonl: generations is 1 from now on: an older version began this run"; !strings.Contains(stderr, want) {
		t.Errorf("a run of an older version: errors %q, want %q", stderr, want)
	}
	refuses(t, exitBadInput, "selfplay.exact 30, and now it is 0", "", "learn", "-o", exact, "--exact=false")
	refuses(t, exitBadInput, `preset "", and now it is "fast"`, "", "learn", "-o", dir, "--preset", "fast")
	refuses(t, exitUsage, "--preset", "", "learn", "-o", t.TempDir(), "--preset", "slow")
	refuses(t, exitUsage, "--exact", "", "learn", "-o", t.TempDir(), "--exact=many")
	refuses(t, exitBadInput, "config.json: the run has seed", "", "learn", "-o", dir, "--seed", "3")
	refuses(t, exitBadInput, `network "1x16", and now it is "1x8", which cannot change midway: leave it out, or name another folder`, "", "learn", "-o", dir, "--network", "1x8")
	refuses(t, exitUsage, "--rules", "", "learn", "-o", t.TempDir(), "--rules", "7x")
	refuses(t, exitUsage, "opponent: agent", "", "learn", "-o", t.TempDir(), "--opponent", "nobody")
}

// checkAccuracies compares the accuracies of a run's first network with what evald score measures
// on the same positions.
func checkAccuracies(t *testing.T, dir string) {
	t.Helper()
	var learned struct{ Accuracy []learn.Accuracy }
	line, _, _ := strings.Cut(string(getFile(t, filepath.Join(dir, "generations.jsonl"))), "\n")
	gametest.OK(t, json.Unmarshal([]byte(line), &learned))
	args := []string{"score", "--json", "--model", filepath.Join(dir, "000", "train", "network.safetensors")}
	for _, kind := range sample.Kinds() {
		args = append(args, filepath.Join(dir, "positions", string(kind)+".txt"))
	}
	seen := map[string]bool{}
	for player, flags := range map[string]string{"policy": "--raw", "100 visits": "--visits 100", "100 visits, no solver": "--visits 100 --exact=false"} {
		out := must(t, "", append(args, strings.Fields(flags)...)...)
		var reports []score.Report
		gametest.OK(t, json.Unmarshal([]byte(out), &reports))
		want := map[string]score.Summary{learn.AllKinds: reports[0].All}
		for _, kind := range reports[0].Kinds {
			want[kind.Name] = kind
		}
		got := map[string]score.Summary{}
		for _, a := range learned.Accuracy {
			if a.Player() == player {
				got[a.Kind] = a.Summary
			}
		}
		if diff := cmp.Diff(want, got); diff != "" || len(got) != 4 {
			t.Errorf("%s (-evald score +evald learn):\n%s", player, diff)
		}
		seen[fmt.Sprint(got[learn.AllKinds])] = true
	}
	if len(seen) != 3 {
		t.Error("the accuracies with and without a solver do not differ")
	}
}

// Several games have their places in all that a run writes, and their shares are part of its configuration. A run that begins with a
// network of that name keeps a copy, so that it is resumed without it.
func TestLearnGames(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	small := strings.Fields("--seed 2 --games 20 --batch 32 --visits 6 --gate-visits 4 --gate-games 20 --opponent random --opponent-games 4 --positions 20")
	args := append(strings.Fields("learn --rules 4x4x3,3x3x3free=2 --init seeded-2x16 -o "+dir), small...)
	status, out, stderr := evald(t, "", append(args, "--generations", "1")...)
	if status != exitOK || !strings.Contains(stderr, "evald learn: 4x4x3,3x3x3free=2, network 2x16/8/16, seed 2") || !strings.Contains(out, "0  20 games by init, ") ||
		strings.Count(out, "policy") != 1 || !strings.Contains(out, " of 20 against init: ") {
		t.Fatalf("status %d, output %q, errors %q", status, out, stderr)
	}
	for name, has := range map[string][]string{
		"config.json":       {`"rules": "4x4x3,3x3x3free=2"`, `"init": "`, `"network": "2x16/8/16"`, `"first_games": 0`, `"opening_plies": -1`},
		"generations.jsonl": {`{"rules":"4x4x3","kind":"all","visits":0,`, `{"rules":"3x3x3free","kind":"all","visits":100,`, `{"kind":"all","visits":100,`},
		"curves.svg":        {">4x4x3<", ">3x3x3free<", "% good moves, policy", "% good moves, 100 visits"},
	} {
		text := string(getFile(t, filepath.Join(dir, name)))
		for _, want := range has {
			if !strings.Contains(text, want) {
				t.Errorf("%s lacks %s", name, want)
			}
		}
	}
	must(t, "", append(args, "--generations", "1")...)
	status, out, stderr = evald(t, "", "learn", "-o", dir, "--generations", "2")
	if status != exitOK || !strings.HasPrefix(out, "  1  20 games by ") {
		t.Errorf("resumed: status %d, output %q, errors %q", status, out, stderr)
	}
	best := filepath.Join(dir, "best.safetensors")
	refuses(t, exitBadInput, `rules "4x4x3,3x3x3free=2", and now it is "4x4x3,3x3x3free"`, "", "learn", "-o", dir, "--rules", "4x4x3,3x3x3free=1")
	refuses(t, exitBadInput, "config.json: the run has init ", "", "learn", "-o", dir, "--init", "default")
	gametest.OK(t, os.Remove(filepath.Join(dir, "networks", "init.safetensors")))
	refuses(t, exitBadInput, "init.safetensors: is not the network that the run began with", "", "learn", "-o", dir)
	must(t, "", "learn", "-o", dir, "--generations", "2", "--init", "seeded-2x16")

	other := filepath.Join(t.TempDir(), "run")
	must(t, "", append(append(strings.Fields("learn --rules 4x4x3=5 --network 3x16/8/16 --generations 1 -o "+other+" --init"), best), small...)...)
	if text := string(getFile(t, filepath.Join(other, "config.json"))); !strings.Contains(text, `"rules": "4x4x3",`) || !strings.Contains(text, `"network": "3x16/8/16"`) {
		t.Errorf("the share of one game: %s", text)
	}
	refuses(t, exitUsage, "init: network 2x16/8/16 cannot become 1x16/8/16", "", "learn", "-o", t.TempDir(), "--init", best, "--network", "1x16/8/16")
	refuses(t, exitBadInput, `--init: model "nobody" is neither a file nor a shipped model`, "", "learn", "-o", t.TempDir(), "--init", "nobody")
	refuses(t, exitUsage, "--first-games does nothing with --init", "", "learn", "-o", t.TempDir(), "--init", best, "--first-games", "9")
	refuses(t, exitUsage, "for 4x4x3,7x6x4 begin with a network of convolutions", "", "learn", "-o", t.TempDir(), "--rules", "4x4x3,7x6x4", "--init", "default-fast")
	refuses(t, exitUsage, "for 4x4x3,7x6x4 name a shape of convolutions", "", "learn", "-o", t.TempDir(), "--rules", "4x4x3,7x6x4", "--network", "pattern64x16x16")
	refuses(t, exitUsage, "4x4x3 is there twice", "", "learn", "-o", t.TempDir(), "--rules", "4x4x3,4x4x3")
}

// A run of several games that begins with a network, and has a damaged byte, is refused with the file's name, or continues as it would have
// without the damage. Its last generation must be completed once more, so that everything that a run reads is read.
func TestLearnDamaged(t *testing.T) {
	init := filepath.Join(t.TempDir(), "init")
	must(t, "", learnArgs(init, "--generations", "1", "--network", "1x4")...)
	dir := filepath.Join(t.TempDir(), "run")
	args := strings.Fields("learn --network 1x4 --seed 2 --games 12 --batch 32 --visits 6 --fast-visits 4 " +
		"--gate-visits 4 --gate-games 20 --opponent random --opponent-games 4 --positions 8 --generations 2 --rules 4x4x3,3x3x3free --init " + filepath.Join(init, "best.safetensors") + " -o " + dir)
	must(t, "", args...)
	gametest.OK(t, os.Remove(filepath.Join(dir, "001", "generation.json")))
	goesOn := func(dir string) (string, error) {
		if status, _, stderr := evald(t, "", "learn", "-o", dir, "--generations", "2"); status != exitOK {
			return "", errors.New(stderr)
		}
		var result []byte
		for _, name := range []string{"000/generation.json", "001/generation.json", "001/train/network.safetensors", "networks/000.safetensors", "best.safetensors"} {
			text, err := os.ReadFile(filepath.Join(dir, name))
			if errors.Is(err, fs.ErrNotExist) && name == "networks/000.safetensors" {
				continue // it was not promoted
			}
			if err != nil {
				return "", err
			}
			result = append(result, name...)
			result = append(result, withoutTimes.ReplaceAll(text, nil)...)
		}
		return string(result), nil
	}
	read := func(name string) bool {
		return !strings.Contains(name, "events.out") && !strings.HasSuffix(name, ".svg") && !strings.HasSuffix(name, ".safetensors") && filepath.Base(name) != "checkpoint"
	}
	durabletest.Damage(t, dir, 5981, read, goesOn)
	durabletest.Damage(t, dir, 48017, func(name string) bool {
		return strings.HasSuffix(name, ".safetensors") || filepath.Base(name) == "checkpoint"
	}, goesOn)
}

// withoutTimes matches durations, and the checksum that depends on them.
var withoutTimes = regexp.MustCompile(`"seconds": \{[^}]*\}|"(positions_per_second|crc32)": ("\w*"|[0-9.e+-]+)`)
