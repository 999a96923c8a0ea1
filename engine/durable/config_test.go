package durable_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/game/gametest"
)

type inner struct {
	Visits int `json:"visits"`
	Cores  int `json:"-"`
	Board  string
}

type config struct {
	Seed  uint64   `json:"seed"`
	Games inner    `json:"games"`
	Names []string `json:"names"`
	Rate  float64  `json:"rate,omitempty"`
}

func begun() config {
	return config{Seed: 1<<63 + 1, Games: inner{40, 2, "7x6x4"}, Names: []string{"a", "b"}, Rate: 0.30000000000000004}
}

// A run continues with the configuration that it began with. The error names what differs.
func TestKeep(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.json")
	for range 2 {
		gametest.OK(t, durable.KeepConfig(path, begun()))
	}
	first := gametest.Must(os.ReadFile(path))(t)
	for want, change := range map[string]func(*config){
		"":                                      func(c *config) { c.Games.Cores = 64 },
		"has seed 9223372036854775809, and now": func(c *config) { c.Seed-- },
		"has games.visits 40, and now it is 41": func(c *config) { c.Games.Visits = 41 },
		`has names ["a","b"], and now it is ["a"]`:  func(c *config) { c.Names = c.Names[:1] },
		`has games.Board "7x6x4", and now it is ""`: func(c *config) { c.Games.Board = "" },
		"has rate 0.30000000000000004, and now":     func(c *config) { c.Rate = 0.3 },
	} {
		c := begun()
		change(&c)
		err := durable.KeepConfig(path, c)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), path)) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if now, err := os.ReadFile(path); err != nil || !cmp.Equal(now, first) {
		t.Errorf("the file has changed: %s, error %v", now, err)
	}
}

// A field that the file lacks counts as zero. A file that is not understood stays as it is.
func TestKeepOther(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.json")
	for text, want := range map[string]string{
		`{"seed": 7}`:                   "has games.visits 0, and now it is 40",
		`{"seed": 7, "games": {"visi`:   "unexpected EOF",
		`{"seed": 7, "temperature": 1}`: `unknown field "temperature"`,
		`{"seed": -7}`:                  "seed",
	} {
		gametest.OK(t, os.WriteFile(path, []byte(text), 0o644))
		c := begun()
		c.Seed = 7
		if err := durable.KeepConfig(path, c); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "name another folder") {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
		if now, err := os.ReadFile(path); err != nil || string(now) != text {
			t.Errorf("%s has become %s, error %v", text, now, err)
		}
	}
	gametest.OK(t, os.WriteFile(path, []byte(`{"seed": 7}`), 0o644))
	if err := durable.KeepConfig(path, config{Seed: 7}); err != nil {
		t.Errorf("without what the file lacks: %v", err)
	}
	if err := durable.KeepConfig(t.TempDir(), begun()); err == nil || !strings.Contains(err.Error(), "directory") {
		t.Errorf("a folder in its place: %v", err)
	}
}
