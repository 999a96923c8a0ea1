package learn_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/nn/learn"
	"github.com/evald/evald/nn/train"
)

// changedRun begins a run, stops it in the games of generation 1, and resumes it with other
// settings.
func changedRun(t *testing.T, dir string) learn.Config {
	t.Helper()
	c := tiny(t)
	ctx, cancel := context.WithCancel(t.Context())
	err := learnBy(ctx, onGorgonia, dir, c, 2, func(text string) {
		if strings.HasPrefix(text, "generation 1, self-play") {
			cancel()
		}
	})
	if ctx.Err() == nil || err == nil {
		t.Fatalf("generation 1 was not interrupted: %v", err)
	}
	c.LR, c.Games, c.SelfPlay.Visits, c.Generations = c.LR/2, 30, 12, 3
	return c
}

// Settings that a resumed run changes hold from the first generation that has not begun, and the
// run records them. From then on it resumes with them, and ends with the same files however often
// it is interrupted.
func TestChanges(t *testing.T) {
	dir := t.TempDir()
	c := changedRun(t, dir)
	run := gametest.Must(learn.Open(dir, c, onCPU, onGorgonia, func(string) {}))(t)
	var said []string
	for _, change := range run.Changed {
		said = append(said, change.String())
	}
	want := []string{
		"generations is 3 instead of 2", "from generation 2 on, games is 30 instead of 40",
		"from generation 2 on, selfplay.visits is 12 instead of 16", "from generation 2 on, lr is 0.002 instead of 0.004",
	}
	if diff := cmp.Diff(want, said); diff != "" {
		t.Fatalf("changes (-want +got):\n%s", diff)
	}
	gametest.OK(t, run.Learn(t.Context(), nil))
	run.Close()
	for i, g := range generations(t, dir) {
		var config train.Config
		gametest.OK(t, json.Unmarshal(gametest.Must(os.ReadFile(filepath.Join(dir, "00"+string(rune('0'+i)), "train", "config.json")))(t), &config))
		games := []int{60, 40, 30}[i]
		if rate := []float64{0.004, 0.004, 0.002 / 1.4142135623730951}[i]; g.Games != games || config.LR != rate {
			t.Errorf("generation %d: %d games, rate %v; want %d and %v", i, g.Games, config.LR, games, rate)
		}
	}
	now, begun, err := learn.ReadConfig(dir)
	if now.SelfPlay.Parallel, now.SelfPlay.Batch = c.SelfPlay.Parallel, c.SelfPlay.Batch; !begun || err != nil || !cmp.Equal(now, c) {
		t.Errorf("begun %v, error %v, and the configuration differs: %s", begun, err, cmp.Diff(c, now))
	}

	other := t.TempDir()
	changedRun(t, other)
	stops := interrupted(t, func(stops int) int { return 40 + stops }, func(ctx context.Context, progress func(string)) error {
		return learnBy(ctx, onGorgonia, other, c, 3, progress)
	})
	if lines := strings.Count(string(gametest.Must(os.ReadFile(filepath.Join(other, "changes.jsonl")))(t)), "\n"); stops < 3 || lines != 1 {
		t.Errorf("%d interrupts and %d lines of changes", stops, lines)
	}
	again := kept(t, other)
	for name, text := range kept(t, dir) {
		if again[name] != text {
			t.Errorf("%s is another one after %d interrupts", name, stops)
		}
	}
}

// A setting that may not change is an error with both values, and changes nothing. A damaged record
// of changes is one, too.
func TestChangesRefused(t *testing.T) {
	dir := t.TempDir()
	good := tiny(t)
	opens := func(c learn.Config) ([]learn.Change, error) {
		run, err := learn.Open(dir, c, onCPU, train.Compute{Threads: 1}, nil)
		if err != nil {
			return nil, err
		}
		return run.Changed, run.Close()
	}
	if changes, err := opens(good); err != nil || len(changes) > 0 {
		t.Fatalf("a new run: changes %v, error %v", changes, err)
	}
	for want, change := range map[string]func(*learn.Config){
		"has seed 5, and now it is 6, which cannot change midway":  func(c *learn.Config) { c.Seed++; c.LR /= 2 },
		`has rules "4x4x3", and now it is "5x4x4"`:                 func(c *learn.Config) { c.Rules = "5x4x4" },
		`has network "1x16", and now it is "1x8"`:                  func(c *learn.Config) { c.Network = "1x8" },
		`has opponents ["random"], and now it is ["negamax"]`:      func(c *learn.Config) { c.Opponents = []string{"negamax"} },
		`has selfplay.exact 0, and now it is 100, which cannot c`:  func(c *learn.Config) { c.SelfPlay.Exact = 100 },
		`has gate_visits 8, and now it is 9, which cannot change`:  func(c *learn.Config) { c.GateVisits++ },
		`has labels "outcome", and now it is "solver", which cann`: func(c *learn.Config) { c.Labels = learn.Solver },
	} {
		c := good
		change(&c)
		if _, err := opens(c); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), ": leave it out, or name another folder") {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	record := filepath.Join(dir, "changes.jsonl")
	if _, err := os.Stat(record); err == nil {
		t.Error("a refused change was recorded")
	}
	c := good
	c.LR /= 2
	if changes, err := opens(c); err != nil || len(changes) != 1 || changes[0].From != 0 {
		t.Fatalf("changes %v, error %v", changes, err)
	}
	text := gametest.Must(os.ReadFile(record))(t)
	for damage, want := range map[string]string{
		strings.Replace(string(text), "0.002", "0.003", 1):                            "line 1: is damaged",
		strings.TrimSuffix(string(text), "\n"):                                        "line 1: is not complete",
		"{\"changes\":[{\"setting\":\"seed\",\"was\":5,\"is\":6,\"from\":0}]}\n":      `setting "seed" does not change midway`,
		"{\"changes\":[{\"setting\":\"lr\",\"was\":5,\"is\":\"fast\",\"from\":0}]}\n": "setting lr: ",
	} {
		gametest.OK(t, os.WriteFile(record, []byte(damage), 0o644))
		if _, err := opens(c); err == nil || !strings.Contains(err.Error(), record+": ") || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "correct it") {
			t.Errorf("%s: error %v, want %q", damage, err, want)
		}
	}
}

// A run of an older version, whose configuration lacks the number of generations, resumes with a
// number that it then keeps.
func TestOlderRun(t *testing.T) {
	dir, c := t.TempDir(), tiny(t)
	run := gametest.Must(learn.Open(dir, c, onCPU, train.Compute{Threads: 1}, nil))(t)
	run.Close()
	path := filepath.Join(dir, "config.json")
	older := regexp.MustCompile(`  "(generations|backend|trainer)": [^\n]*\n|,\n  "crc32": "\w*"`).ReplaceAll(gametest.Must(os.ReadFile(path))(t), nil)
	gametest.OK(t, os.WriteFile(path, older, 0o644))
	was, begun, err := learn.ReadConfig(dir)
	if !begun || err != nil || was.Generations != learn.NotKept || was.Backend != "auto" || was.Trainer != "gorgonia" {
		t.Fatalf("begun %v, error %v, configuration %+v", begun, err, was)
	}
	run = gametest.Must(learn.Open(dir, c, onCPU, train.Compute{Threads: 1}, nil))(t)
	if run.Close(); len(run.Changed) != 1 || run.Changed[0].String() != "generations is 10 from now on: an older version began this run and did not keep the number" {
		t.Errorf("changes %v", run.Changed)
	}
	if now, _, err := learn.ReadConfig(dir); err != nil || now.Generations != 10 {
		t.Errorf("%d generations, error %v", now.Generations, err)
	}
}
