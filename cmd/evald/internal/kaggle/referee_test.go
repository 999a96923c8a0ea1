package kaggle

import (
	"bufio"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/evald/evald/engine/game/gametest"
)

// refereed is the agent under test. It plays with each colour against each opponent: half of the games packed, half behind a URL.
const refereed = "uct-bitsquares:time=50ms"

// verdict is a line of referee.py.
type verdict struct {
	Opponent string
	Status   []string // the agent's and the opponent's
	Reward   *float64 // 1, 0 or -1 for the agent
	Moves    string
	Slowest  float64  // the agent's slowest move in seconds
	Left     float64  // its remaining overage time, in seconds
	Said     []string // its output, or the trace of its error
}

// Kaggle's own package plays the games, measures the time and decides who won.
func TestReferee(t *testing.T) {
	if testing.Short() {
		t.Skip("a minute of games")
	}
	python := gametest.Python(t, "kaggle_environments")
	games := 2 // with each colour against each opponent
	atLeast := map[string]float64{"random": 0.5, "negamax": 0.5}
	if gametest.Soak() {
		games, atLeast = 50, map[string]float64{"random": 0.98, "negamax": 0.95}
	}
	url := serveProgram(t)
	var verdicts [2][]verdict
	var routes sync.WaitGroup
	for i, agent := range []string{filepath.Join(unpacked(t, refereed), mainFile), url} {
		routes.Go(func() { verdicts[i] = referee(t, python, agent, games/2) })
	}
	routes.Wait()
	all := append(verdicts[0], verdicts[1]...)
	for opponent, want := range atLeast {
		points, n := 0.0, 0
		for _, v := range all {
			if v.Opponent == opponent && v.Reward != nil {
				points, n = points+(1+*v.Reward)/2, n+1
			}
		}
		t.Logf("%g of %d points against %s", points, n, opponent)
		if points < want*float64(n) || n == 0 {
			t.Errorf("%g of %d points against %s, want %g%%", points, n, opponent, 100*want)
		}
	}
}

// referee runs the package on an agent, and checks that all games were played to their end in time.
func referee(t *testing.T, python, agent string, games int) (all []verdict) {
	var failed strings.Builder
	slowest := 0.0
	c := exec.CommandContext(t.Context(), python, "testdata/referee.py", agent, strconv.Itoa(games))
	c.Stderr = &failed
	out, err := c.Output()
	if err != nil {
		t.Errorf("%s: %v\n%s", agent, err, failed.String())
	}
	for line := range strings.Lines(string(out)) {
		if !strings.HasPrefix(line, "{") {
			continue // the package prints what it could not load
		}
		var v verdict
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		all, slowest = append(all, v), max(slowest, v.Slowest)
		if !slices.Equal(v.Status, []string{"DONE", "DONE"}) || v.Reward == nil || len(v.Said) > 0 {
			t.Errorf("%s against %s: %+v", agent, v.Opponent, v)
		}
	}
	if len(all) != 4*games {
		t.Errorf("%s: %d games, want %d", agent, len(all), 4*games)
	}
	t.Logf("%s: slowest move %.3f s", agent, slowest)
	return all
}

// serveProgram starts the agent behind a URL. At the end of the test the agent is interrupted, which must not be an error.
func serveProgram(t *testing.T) (url string) {
	c := exec.Command(program(t), "kaggle", "serve", "--agent", refereed, "--listen", "127.0.0.1:0")
	notes := gametest.Must(c.StderrPipe())(t)
	gametest.OK(t, c.Start())
	lines := bufio.NewReader(notes)
	first, err := lines.ReadString('\n')
	t.Cleanup(func() {
		if err := c.Process.Signal(syscall.SIGINT); err != nil {
			t.Error(err)
		}
		for line, err := lines.ReadString('\n'); err == nil; line, err = lines.ReadString('\n') {
			t.Errorf("the server says: %s", line)
		}
		if err := c.Wait(); err != nil {
			t.Errorf("evald kaggle serve: %v", err)
		}
	})
	_, url, found := strings.Cut(strings.TrimSpace(first), " plays at ")
	if err != nil || !found {
		t.Fatalf("evald kaggle serve says %q, %v", first, err)
	}
	return url
}
