package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/nn/open"
)

// tunable is the network of tables that ships, in a file whose searches hardly look at its policy.
func tunable(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "mine.safetensors")
	_, n, err := open.Any(open.FastModel)
	gametest.OK(t, err)
	putFile(t, path, string(gametest.Must(n.WithSearch(eval.Search{CPUCT: 0.02, FPU: -2}))(t)))
	return path
}

// --tune finds constants that are better than those of the file, writes them there, and searches read them from then on.
func TestMatchTune(t *testing.T) {
	t.Parallel()
	path := tunable(t)
	search := func() string {
		_, out, _ := evald(t, "-\n", "search", "--model", path, "--visits", "200", "--exact=false")
		return out
	}
	before := search()
	status, out, stderr := evald(t, "", "match", "--tune", "cpuct,fpu", "mcts:model="+path+",visits=24,exact=false", "--games", "240", "--seed", "3", "--json")
	var found tuned
	if err := json.Unmarshal([]byte(out), &found); status != 0 || err != nil {
		t.Fatalf("status %d, %v: %s%s", status, err, out, stderr)
	}
	if found.Written != path || found.Against.Elo < 40 || len(found.Constants) != 2 || found.Constants[0].Usual != 0.02 || found.Games+found.Against.Games != 240 {
		t.Errorf("found %s", out)
	}
	_, n, err := open.File(path)
	gametest.OK(t, err)
	if s := gametest.Must(n.Search())(t); s.CPUCT != found.Constants[0].Value || s.FPU != found.Constants[1].Value {
		t.Errorf("the file has %+v", s)
	}
	if search() == before {
		t.Error("searches do not read the constants")
	}
}

// What cannot be tuned is refused before a game is played, and a file's constants that make no sense when it is opened.
func TestMatchTuneRefuses(t *testing.T) {
	t.Parallel()
	for says, args := range map[string][]string{
		"one agent":             {"mcts:model=default", "mcts:model=any"},
		"must be mcts":          {"uct-bitsquares:sims=10"},
		"without explore=":      {"mcts:model=default,explore=2"},
		"want 60 or more":       {"mcts:model=default", "--games", "20"},
		"does nothing with":     {"mcts:model=default", "--sprt", "0,10"},
		"neither a file":        {"mcts:model=nosuch"},
		`"cpuct","fpu" but got`: {"mcts:model=default", "--tune", "alpha"},
	} {
		refuses(t, map[bool]int{true: 1, false: 2}[strings.HasPrefix(says, "neither")], says, "", append([]string{"match", "--tune", "cpuct"}, args...)...)
	}
	n := smallTables(t)
	for text, says := range map[string]string{
		`{"cpuct": 0, "fpu": 0}`:  "cpuct is 0",
		`{"cpuct": 1, "fpu": -9}`: "fpu is -9",
		`{"cpuct": 1}`:            "must be as",
		`nonsense`:                "must be as",
	} {
		n.Metadata["evald.search"] = text
		path := filepath.Join(t.TempDir(), "bad.safetensors")
		putFile(t, path, string(gametest.Must(n.Marshal())(t)))
		refuses(t, 1, says, "-\n", "search", "--model", path)
	}
}
