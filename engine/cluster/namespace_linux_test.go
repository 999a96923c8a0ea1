package cluster_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/evald/evald/engine/game/gametest"
)

// hosts are a learner and workers, each in a network namespace of its own as on a machine of its own. A line goes from the
// learner to each worker.
type hosts struct {
	t       *testing.T
	learner string // namespaces
	workers []string
}

// ip runs the program that sets up networks.
func ip(args ...string) error {
	out, err := exec.Command("ip", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// newHosts makes them. The test is skipped if this user may not, or if there is no program ip.
func newHosts(t *testing.T, workers int) hosts {
	t.Helper()
	name := func(n int) string { return fmt.Sprintf("evald-%d-%d", os.Getpid(), n) }
	h := hosts{t: t, learner: name(0)}
	add := func(name string) error {
		err := ip("netns", "add", name)
		if err == nil {
			t.Cleanup(func() { _ = ip("netns", "del", name) }) // its lines go with it
		}
		return err
	}
	if err := add(h.learner); err != nil {
		t.Skip("no network namespaces, which need Linux, root and iproute2: ", err)
	}
	for n := 1; n <= workers; n++ {
		w := name(n)
		h.workers = append(h.workers, w)
		gametest.OK(t, add(w))
		line, subnet := fmt.Sprint("line", n), fmt.Sprintf("10.99.%d.", n)
		for _, args := range [][]string{
			{"-n", h.learner, "link", "add", line, "type", "veth", "peer", "name", "eth0", "netns", w},
			{"-n", h.learner, "address", "add", subnet + "1/24", "dev", line},
			{"-n", w, "address", "add", subnet + "2/24", "dev", "eth0"},
			{"-n", w, "link", "set", "eth0", "up"},
		} {
			gametest.OK(t, ip(args...))
		}
		h.line(n-1, "up")
	}
	return h
}

// inNamespace is the command that begins a process in a namespace.
func inNamespace(name string) []string { return []string{"ip", "netns", "exec", name} }

// line takes the line of a worker "up" or "down". No program is notified: packets are lost, as on a disconnected cable.
func (h hosts) line(worker int, state string) {
	h.t.Helper()
	gametest.OK(h.t, ip("-n", h.learner, "link", "set", fmt.Sprint("line", worker+1), state))
}

// Three machines, of which the lines of the two workers are cut: both together, and in a soak also one after the other. A
// worker plays on without its line, and what it has played arrives when the line is back. In the end the files are those of
// one machine.
func TestHosts(t *testing.T) {
	within(t, 3*time.Minute+6*soak(t))
	h := newHosts(t, 2)
	games, rate, cut, cuts := 300, 8000., time.Second, [][]int{{0, 1}}
	if soak(t) > 0 {
		games, rate, cut, cuts = 4000, 4000, time.Minute, [][]int{{0}, {1}, {0, 1}}
	}
	dir := t.TempDir()
	learner := &process{role: "learner", before: inNamespace(h.learner), arguments: arguments{Listen: "0.0.0.0:4222", Dir: filepath.Join(dir, "run"), Games: []int{games}}}
	var lists []string // of what workers were told
	for n, namespace := range h.workers {
		lists = append(lists, filepath.Join(dir, fmt.Sprint("told", n)))
		w := &process{role: "worker", before: inNamespace(namespace), arguments: arguments{
			URL: learner.workersURL(t, fmt.Sprintf("10.99.%d.1:4222", n+1)), Dir: filepath.Join(dir, fmt.Sprint("worker", n)), Told: lists[n], Rate: rate,
		}}
		w.start(t)
		defer w.kill()
	}
	learner.start(t)
	defer func() {
		if learner.ProcessState == nil {
			learner.kill()
		}
	}()

	told := func(worker int) int { return new(ledger).readTold(t, lists[worker]) }
	more := func(worker, than int) { // waits
		for told(worker) <= than {
			select {
			case err := <-learner.ended:
				t.Fatalf("worker %d was told of %d games, and the run is over: %v", worker, told(worker), err)
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	more(0, 0)
	more(1, 0)
	for _, workers := range cuts {
		for _, w := range workers {
			h.line(w, "down")
		}
		<-time.After(cut / 2) // what was on its way has arrived
		var before []int
		for _, w := range workers {
			before = append(before, told(w))
		}
		<-time.After(cut / 2)
		for i, w := range workers {
			if n := told(w); n != before[i] {
				t.Errorf("worker %d was told of %d games without its line", w, n-before[i])
			}
			h.line(w, "up")
		}
		for i, w := range workers {
			more(w, before[i])
		}
		t.Logf("cut %v for %v and back; told of %d and %d games", workers, cut, told(0), told(1))
	}
	gametest.OK(t, <-learner.ended)
	checkRun(t, learner.arguments, lists)
}
