package cluster

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/evald/evald/engine/game/gametest"
)

// mutants are mistakes: in a file of this module, one text in place of another.
var mutants = []struct{ what, file, from, to string }{
	{"a game is confirmed before it is synced", "selfplay/store.go", "if err := s.journal.Sync(); err != nil {", "if err := error(nil); err != nil {"},
	{"a game that the learner has is stored again", "selfplay/store.go", "if !s.Has(g.Number) && ", "if "},
	{"after a failed write, new lines are appended to a torn one", "selfplay/store.go", "		s.broken = true\n", ""},
	{"the journal is written on after a failed sync", "selfplay/store.go", "err := s.journal.Sync(); err != nil {", "err := s.journal.Sync(); err != nil {\n\t\t\ts.broken = false"},
	{"the journal begins anew before the names of files of records are durable", "durable/file.go", "if err == nil {\n\t\terr = w.files.SyncDir(", "if false {\n\t\terr = w.files.SyncDir("},
	{"games are confirmed although the disk refuses them", "cluster/learnerstate.go", "p.reply.Later = err.Error()", ""},
	{"jobs contain games that the learner does not accept yet", "cluster/jobs.go", "jobGames(g.job.All, workers), to)}", "jobGames(g.job.All, workers), g.job.All)}"},
	{"the end of a generation is forgotten", "cluster/learnerstate.go", "		s.last = s.playing.job.Generation\n", ""},
	{"late games of a complete generation are refused temporarily", "cluster/learnerstate.go", "case p.Generation <= s.last:\n\t\treturn reply{}", "case p.Generation <= s.last:\n\t\treturn reply{Later: \"late\"}"},
	{"a worker takes any answer for a confirmation", "cluster/workerstate.go", "case r.ok():", "case r.Refused == \"\":"},
	{"the spool accepts one game too many", "cluster/spool.go", "len(s.games) >= s.most", "len(s.games) > s.most"},
	{"a message contains games of two generations", "cluster/spool.go", " && s.games[n].Settings == s.games[0].Settings", ""},
	{"a network is not compared with its name", "cluster/workerplay.go", "if got == p.job.Network {", "if got != \"\" {"},
	{"a worker starts games that it is already playing", "cluster/workerplay.go", "if p.leases[k] == nil {", "if true {"},
	{"a late answer to an abandoned request is taken for the answer to the next one", "cluster/workerstate.go", "	if i < 0 || number == 0 {\n\t\treturn\n\t}", "	if i < 0 {\n\t\ti = 1\n\t}"},
}

// With EVALD_SOAK: each mistake is found by a seed.
func TestMutants(t *testing.T) {
	if !gametest.Soak() {
		t.Skip("it builds this test with each of 15 mistakes: EVALD_SOAK=1m")
	}
	first := regexp.MustCompile(`seed (\d+) of \d+ from \d+, \S+: (.*)`)
	for _, m := range mutants {
		t.Run(strings.ReplaceAll(m.what, " ", "_"), func(t *testing.T) {
			path := gametest.Must(filepath.Abs(filepath.Join("..", m.file)))(t)
			text := string(gametest.Must(os.ReadFile(path))(t))
			if strings.Count(text, m.from) != 1 {
				t.Fatalf("%s has %q %d times, want once", m.file, m.from, strings.Count(text, m.from))
			}
			dir := t.TempDir()
			changed, overlay := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json")
			gametest.OK(t, os.WriteFile(changed, []byte(strings.Replace(text, m.from, m.to, 1)), 0o644))
			gametest.OK(t, os.WriteFile(overlay, gametest.Must(json.Marshal(map[string]any{"Replace": map[string]string{path: changed}}))(t), 0o644))
			c := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-overlay", overlay, "-run", "TestSimulate$", ".")
			c.Env = append(os.Environ(), "EVALD_SEEDS=10000", "EVALD_SOAK=")
			out, err := c.CombinedOutput()
			found := first.FindSubmatch(out)
			if err == nil || found == nil {
				t.Fatalf("no seed of 10,000 finds it: %v, %.2000s", err, out)
			}
			t.Logf("found by seed %s: %s", found[1], found[2])
		})
	}
}
