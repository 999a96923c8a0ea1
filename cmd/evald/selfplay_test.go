package main

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/selfplay"
	kernel "github.com/evald/evald/kernels/cpu"
)

// Records appear, the run continues, and errors are reported.
func TestSelfplay(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	args := strings.Fields("selfplay --backend bitsquares --visits 20 --fast-visits 5 --seed 3 -o " + dir + " --games")
	status, out, stderr := evald(t, "", append(args, "6")...)
	if status != exitOK || !strings.HasPrefix(out, "6 games, of which 6 were played now") || !strings.Contains(stderr, "7x6x4 by bitsquares, 6 games; 20 visits for 0.25") {
		t.Errorf("status %d, output %q, errors %q", status, out, stderr)
	}
	if status, out, _ = evald(t, "", append(args, "8")...); status != exitOK || !strings.HasPrefix(out, "8 games, of which 2 were played now") {
		t.Errorf("two more: status %d, output %q", status, out)
	}
	refuses(t, exitBadInput, "visits 20, and now it is 21", "", append(args, "8", "--visits", "21")...)
	refuses(t, exitBadInput, "exact 0, and now it is 1000", "", append(args, "8", "--exact")...)
	args[len(args)-2] += "-exact"
	if status, out, stderr = evald(t, "", append(args, "20", "--exact")...); status != exitOK || !regexp.MustCompile(`^20 games, of which 20 were played now, in .*s, [1-9][0-9.]*% ended by proof\n$`).MatchString(out) {
		t.Errorf("--exact: status %d, output %q, errors %q", status, out, stderr)
	}
}

// Several games have a directory each, and their shares of the games. What depends on the size of the board follows from it, unless it is given.
func TestSelfplayMix(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	args := strings.Fields("selfplay --backend bitsquares --rules 7x6x4,3x3x3free=2 --visits 4 --full-share 1 --seed 3 -o " + dir + " --games")
	lines := regexp.MustCompile(`^7x6x4: (\d) games, of which (\d) were played now, in .*\n3x3x3free: (\d) games, of which (\d) were played now, in .*\n$`)
	for _, run := range []struct{ games, counts string }{{"6", "2 2 4 4"}, {"9", "3 1 6 2"}} {
		status, out, stderr := evald(t, "", append(args, run.games)...)
		if counts := lines.FindStringSubmatch(out); status != exitOK || counts == nil || strings.Join(counts[1:], " ") != run.counts {
			t.Errorf("%s games: status %d, output %q, errors %q", run.games, status, out, stderr)
		}
	}
	for rules, want := range map[string][2]int{"7x6x4": {6, 12}, "3x3x3free": {1, 2}} {
		var c selfplay.Config
		gametest.OK(t, json.Unmarshal(getFile(t, filepath.Join(dir, rules, selfplay.ConfigFile)), &c))
		if got := [2]int{c.OpeningPlies, c.TemperaturePlies}; c.Rules != rules || got != want {
			t.Errorf("%s: %+v, want opening and temperature plies %v", rules, c, want)
		}
	}
	if status, out, _ := evald(t, "", append(args, "1", "-o", filepath.Join(t.TempDir(), "one"))...); status != exitOK || !strings.HasPrefix(out, "3x3x3free: 1 games") {
		t.Errorf("one game: status %d, output %q", status, out)
	}
	refuses(t, exitBadInput, "opening_plies 6, and now it is 5", "", append(args, "9", "--opening-plies", "5")...)
	refuses(t, exitUsage, "7x6x4 is there twice", "", append(args, "9", "--rules", "7x6x4,7x6x4")...)
}

// The configuration of a run includes whether a network's answers are mirrored.
func TestSelfplayMirror(t *testing.T) {
	args := strings.Fields("selfplay --model seeded-2x16 --backend cpu --visits 4 --full-share 1 --games 1 -o " + filepath.Join(t.TempDir(), "run"))
	if status, _, stderr := evald(t, "", append(args, "--mirror")...); status != exitOK || !strings.Contains(stderr, "by seeded-2x16, mirrored, 1 games; 4 visits a move;") {
		t.Errorf("status %d, errors %q", status, stderr)
	}
	refuses(t, exitBadInput, `network "seeded-2x16, mirrored", and now it is "seeded-2x16"`, "", args...)
}

// A run keeps the path of the CPU that it was begun by, also if another is measured or named in the meantime.
func TestRunsKeepPath(t *testing.T) {
	first := string(kernel.Float32())
	for _, c := range []struct{ args, file, field string }{
		{"selfplay --model seeded-2x16 --backend cpu --rules 4x4x3 --visits 4 --full-share 1 --games", selfplay.ConfigFile, "cpu_path"},
		{strings.Join(learnArgs("DIR", "--backend", "cpu", "--generations"), " "), "config.json", "selfplay.cpu_path"},
	} {
		dir := filepath.Join(t.TempDir(), "run")
		file := filepath.Join(dir, c.file)
		command := func(n string, more ...string) []string {
			return append(append(strings.Fields(strings.ReplaceAll(c.args, "DIR", dir)), n, "-o", dir), more...)
		}
		must(t, "", command("1", "--cpu-path", "go")...)
		begun := getFile(t, file)
		if !strings.Contains(string(begun), `"cpu_path": "go"`) {
			t.Errorf("%s does not name the path: %s", c.file, begun)
		}
		must(t, "", command("2")...)
		if first != "go" {
			refuses(t, exitBadInput, "the run has "+c.field+` "go", and now it is "`+first+`"`, "", command("2", "--cpu-path", first)...)
		}
		refuses(t, exitUsage, `--cpu-path: CPU path "mmx": this machine and build have `, "", command("2", "--cpu-path", "mmx")...)
		var config map[string]any
		gametest.OK(t, json.Unmarshal([]byte(strings.Replace(string(begun), `"cpu_path": "go"`, `"cpu_path": "mmx"`, 1)), &config))
		delete(config, "crc32")
		putFile(t, file, gametest.Must(json.Marshal(config))(t))
		refuses(t, exitBadInput, c.file+`: the run's answers are those of one path, and CPU path "mmx": this machine and build have `, "", command("2")...)
	}
	// A new run records what the fixed order chooses, if nothing is measured. A heuristic has no path.
	for backend, want := range map[string]string{"cpu": `"cpu_path": "`, "bitsquares": ""} {
		dir := t.TempDir()
		args := strings.Fields("selfplay --rules 4x4x3 --visits 4 --full-share 1 --games 1 --backend " + backend + " -o " + dir)
		if backend == "cpu" {
			args = append(args, "--model", "seeded-2x16")
		}
		must(t, "", args...)
		if text := string(getFile(t, filepath.Join(dir, selfplay.ConfigFile))); strings.Contains(text, "cpu_path") != (want != "") || !strings.Contains(text, want) {
			t.Errorf("%s: %s", backend, text)
		}
	}
	refuses(t, exitUsage, "--cpu-path", "", learnArgs(t.TempDir(), "--cpu-path", "avx512vnni")...)
}
