package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/evald/evald/engine/agent"
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
	if want := fmt.Sprintf("mcts:model=%s,visits=24,explore=%v,fpu=%v,exact=false", path, found.Constants[0].Value, found.Constants[1].Value); found.Best != want {
		t.Errorf("the agent is %s, want %s", found.Best, want)
	}
}

// Numbers of any agent are tuned, and the answer is an agent that can be typed: a sigmoid that hardly sees the score becomes narrower.
func TestMatchTuneHeuristic(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ text, best, games string }{
		{"uct-bitsquares:sims=30,width=900", `^uct-bitsquares:sims=30,width=([\d.]+)$`, "120"},
		{"mcts:model=bitsquares:width=900,visits=20", `^mcts:model=bitsquares:width=([\d.]+),visits=20$`, "60"},
	} {
		status, out, stderr := evald(t, "", "match", "--tune", "width=1:1000", test.text, "--games", test.games, "--seed", "1", "--json")
		var found tuned
		if err := json.Unmarshal([]byte(out), &found); status != 0 || err != nil {
			t.Fatalf("status %d, %v: %s%s", status, err, out, stderr)
		}
		width := regexp.MustCompile(test.best).FindStringSubmatch(found.Best)
		if width == nil || width[1] != fmt.Sprint(found.Constants[0].Value) || found.Constants[0].Usual != 900 || found.Written != "" {
			t.Errorf("%s: %s", test.text, out)
		}
		if test.games == "120" && (found.Constants[0].Value > 300 || found.Against == nil || found.Against.Elo < 20) {
			t.Errorf("%s: %s", test.text, out)
		}
		if _, err := agent.Parse(found.Best); err != nil {
			t.Error(err)
		}
	}
	out := must(t, "", "match", "--tune", "power,width", "uct-bitsquares:sims=4", "--games", "60", "--seed", "2")
	if !regexp.MustCompile(`^power [\d.]+ \(90%.*\), usual 1.75\nwidth [\d.]+ \(90%.*\), usual 7\n(?s:.*)\nthe agent with these constants: uct-bitsquares:sims=4[^ ]*\n$`).MatchString(out) {
		t.Error(out)
	}
}

// What cannot be tuned is refused before a game is played, and a file's constants that make no sense when it is opened.
func TestMatchTuneRefuses(t *testing.T) {
	t.Parallel()
	for says, args := range map[string][]string{
		"one agent": {"mcts:model=default", "mcts:model=any"},
		"agent random has no number \"cpuct\", but none to tune":                          {"random"},
		"has no number \"cpuct\", but power":                                              {"alphabeta-bitsquares"},
		"cpuct is named twice":                                                            {"mcts:model=bitsquares", "--tune", "cpuct"},
		"want at most 2":                                                                  {"uct-bitsquares:sims=3", "--tune", "power,width"},
		"width is \"3\", want LOW:HIGH within 0.01 and 1000":                              {"uct-bitsquares:sims=3", "--tune", "width=3"},
		"want LOW:HIGH within 0 and 8":                                                    {"uct-bitsquares:sims=3", "--tune", "power=3:9"},
		"\"width=8:9\": the agent's own value, 7, must be in the range":                   {"uct-bitsquares:sims=3", "--tune", "width=8:9"},
		"forced_playouts is 0, so that its range must be given: forced_playouts=LOW:HIGH": {"mcts:model=bitsquares", "--tune", "forced_playouts"},
		"want 60 or more":                                                                 {"mcts:model=default", "--games", "20"},
		"does nothing with":                                                               {"mcts:model=default", "--sprt", "0,10"},
		"neither a file":                                                                  {"mcts:model=nosuch"},
		"has no number \"nosuch\", but leaves, explore, fpu, ":                            {"mcts:model=bitsquares", "--tune", "nosuch"},
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
