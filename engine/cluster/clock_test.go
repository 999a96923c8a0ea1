package cluster_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/evald/evald/engine/cluster"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/selfplay"
)

// A worker's clock was set back: all networks in its folder are newer than the one that comes. It is played with all the same.
func TestClockSetBack(t *testing.T) {
	within(t, time.Minute)
	machine, network := t.TempDir(), filepath.Join(t.TempDir(), "network")
	gametest.OK(t, os.WriteFile(network, []byte("a network"), 0o644))
	old, later := filepath.Join(machine, "networks"), time.Now().Add(time.Hour)
	gametest.OK(t, os.Mkdir(old, 0o755))
	for n := range 10 {
		path := filepath.Join(old, fmt.Sprintf("%064x.safetensors", n))
		gametest.OK(t, os.WriteFile(path, nil, 0o644))
		gametest.OK(t, os.Chtimes(path, later, later))
	}
	l := open(t, cluster.Options{})
	work(t, cluster.WorkerOptions{Connection: connection(l), Dir: machine, Evaluator: func(file, name, _ string) (*eval.Evaluator, func(), error) {
		if _, err := os.ReadFile(file); err != nil {
			return nil, nil, err
		}
		return bitsquares(file, name, "")
	}})
	c := small(0)
	c.Network = "net"
	gametest.OK(t, l.Play(t.Context(), selfplay.Batch{Config: c, Dir: t.TempDir(), Games: 60, Network: network}))
	if left, err := filepath.Glob(filepath.Join(old, "*")); err != nil || len(left) != 10 {
		t.Errorf("%d networks are left, want 10; error %v", len(left), err)
	}
}

// aheadVariable is by how many seconds a process's clock is ahead, if it was built by otherClock.
const aheadVariable = "CLUSTER_TEST_AHEAD"

// otherClock builds this test with a standard library whose time.Now is ahead.
func otherClock(t *testing.T) (program string) {
	t.Helper()
	goTool := func(args ...string) string {
		out, err := exec.CommandContext(t.Context(), "go", args...).Output()
		if err != nil {
			t.Fatalf("go %s: %v", strings.Join(args, " "), err)
		}
		return strings.TrimSpace(string(out))
	}
	path := filepath.Join(goTool("env", "GOROOT"), "src", "time", "time.go")
	text := gametest.Must(os.ReadFile(path))(t)
	const first = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	if strings.Count(string(text), first) != 1 || strings.Count(string(text), "import (\n") != 1 {
		t.Fatalf("%s has another time.Now than this test knows", path)
	}
	changed := strings.Replace(string(text), first, first+"\tsec += ahead\n", 1)
	changed = strings.Replace(changed, "import (\n", "import (\n\t\"syscall\"\n", 1) + `
var ahead = func() (seconds int64) {
	text, _ := syscall.Getenv("` + aheadVariable + `")
	sign := int64(1)
	for _, c := range text {
		if c == '-' {
			sign = -1
		} else {
			seconds = 10*seconds + int64(c-'0')
		}
	}
	return sign * seconds
}()
`
	dir := t.TempDir()
	overlay := gametest.Must(json.Marshal(map[string]any{"Replace": map[string]string{path: filepath.Join(dir, "time.go")}}))(t)
	for name, text := range map[string]string{"time.go": changed, "overlay.json": string(overlay)} {
		gametest.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	program = filepath.Join(dir, "cluster.test")
	goTool("test", "-c", "-overlay", filepath.Join(dir, "overlay.json"), "-o", program, ".")
	return program
}

// roleClock says what the clock is, in seconds since 1970.
func roleClock() error {
	_, err := fmt.Println(time.Now().Unix())
	return err
}

// With EVALD_SOAK: one worker's clock is an hour ahead and the other's an hour behind, and the learner's goes from an hour
// ahead to an hour behind when it was killed. Games arrive as they would otherwise, and the status has no odd ages.
func TestClocks(t *testing.T) {
	if soak(t) == 0 {
		t.Skip("it builds the standard library with another clock: EVALD_SOAK=1m")
	}
	within(t, 10*time.Minute)
	program := otherClock(t)
	clock := func(hours int) []string { return []string{aheadVariable + "=" + strconv.Itoa(3600*hours)} }
	const ahead, behind, games = 1, -1, 1200
	for _, hours := range []int{ahead, behind} {
		c := exec.CommandContext(t.Context(), program)
		c.Env = append(append(os.Environ(), clock(hours)...), roleVariable+"=clock", roleArguments+"={}")
		gametest.Must(c.StdinPipe())(t)
		out, err := c.Output()
		seconds, _ := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64) // 0 is wrong too
		if off := time.Until(time.Unix(seconds, 0)) - time.Duration(hours)*time.Hour; err != nil || off.Abs() > time.Minute {
			t.Fatalf("a clock that is %d hours ahead says %q, error %v", hours, out, err)
		}
	}
	dir, listen := t.TempDir(), freePort(t)
	learner := &process{role: "learner", program: program, env: clock(ahead), arguments: arguments{Listen: listen, Dir: filepath.Join(dir, "run"), Games: []int{games}}}
	url := learner.workersURL(t, listen)
	var lists []string
	for n, hours := range []int{ahead, behind} {
		lists = append(lists, filepath.Join(dir, fmt.Sprint("told", n)))
		w := &process{role: "worker", program: program, env: clock(hours), arguments: arguments{URL: url, Dir: filepath.Join(dir, fmt.Sprint("worker", n)), Told: lists[n], Rate: 8000}}
		w.start(t)
		defer w.kill()
	}
	learner.start(t)
	both := func() { // waits until each worker was told of more games, and looks at the status
		for n, path := range lists {
			for before := new(ledger).readTold(t, path); new(ledger).readTold(t, path) == before; {
				select {
				case err := <-learner.ended:
					t.Fatalf("worker %d was told of no more games, and the run is over: %v", n, err)
				case <-time.After(10 * time.Millisecond):
				}
			}
		}
		s, err := cluster.Ask(t.Context(), to(url))
		if err != nil || len(s.Workers) != 2 || s.PerSecond <= 0 {
			t.Fatalf("status %+v, error %v", s, err)
		}
		for _, w := range s.Workers {
			if w.Silent < 0 || w.Silent > 10 {
				t.Errorf("a worker was heard %.1f s ago", w.Silent)
			}
		}
	}
	both()
	learner.kill()
	learner.env = clock(behind)
	learner.start(t)
	both()
	gametest.OK(t, <-learner.ended)
	checkRun(t, learner.arguments, lists)
}
