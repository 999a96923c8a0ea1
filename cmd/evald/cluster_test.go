package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/evald/evald/engine/cluster"
	"github.com/evald/evald/engine/game/gametest"
)

// clusteredAt starts a learner with workers' URL, in a process of its own.
func clusteredAt(t *testing.T, listen string, args ...string) (learner *exec.Cmd, url string) {
	t.Helper()
	learner = beginProgram(t, append(args, "--cluster", "--listen", listen)...)
	return learner, startLearner(t, learner)
}

// startLearner starts a learner and returns the workers' URL.
func startLearner(t *testing.T, learner *exec.Cmd) (url string) {
	t.Helper()
	said, err := learner.StderrPipe()
	if err == nil {
		err = learner.Start()
	}
	gametest.OK(t, err)
	lines := bufio.NewReader(said)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("the learner says no URL: %v", err)
		}
		if _, rest, ok := strings.Cut(line, "workers join by the URL in "); ok {
			path, _, _ := strings.Cut(rest, ": ")
			text := getFile(t, path)
			go func() { _, _ = io.Copy(io.Discard, lines) }()
			return strings.TrimSpace(string(text))
		}
	}
}

// unused returns an address of this machine on which no program listens.
func unused(t *testing.T) string {
	t.Helper()
	l := gametest.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	return l.Addr().String()
}

// beginProgram is evald in a process of its own.
func beginProgram(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	p := exec.CommandContext(t.Context(), os.Args[0], args...)
	p.Env = append(os.Environ(), asProgram+"=1")
	return p
}

// joined starts n workers of the learner at url.
func joined(t *testing.T, n int, spool, url string) (workers []*exec.Cmd) {
	t.Helper()
	for range n {
		w := beginProgram(t, "selfplay", "--spool", spool)
		w.Env = append(w.Env, "EVALD_JOIN="+url)
		gametest.OK(t, w.Start())
		workers = append(workers, w)
	}
	return workers
}

// A run of several games on three workers, of which one is killed, ends with the files of one machine: records, networks, results.
// Workers compute by the learner's path of the CPU.
func TestLearnCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("some seconds of runs")
	}
	one, many, spool := filepath.Join(t.TempDir(), "run"), filepath.Join(t.TempDir(), "run"), t.TempDir()
	games := []string{"--generations", "2", "--cpu-path", "go", "--rules", "4x4x3,5x4x4=2"}
	must(t, "", learnArgs(one, games...)...)
	metrics := unused(t)
	learner, url := clusteredAt(t, "127.0.0.1:0", learnArgs(many, append(games, "--metrics", metrics)...)...)
	workers := joined(t, 3, spool, url)
	kill := time.AfterFunc(300*time.Millisecond, func() { _ = workers[0].Process.Kill() })
	defer kill.Stop()
	status, out, stderr := evald(t, "", "cluster", "status", url, "--json")
	var s cluster.Status
	if err := json.Unmarshal([]byte(out), &s); status != exitOK || err != nil || s.Run == "" {
		t.Errorf("status %d, output %q, errors %q", status, out, stderr)
	}
	if status, out, stderr := evald(t, "", "cluster", "status", url); status != exitOK || !strings.HasPrefix(out, "generation ") || !strings.Contains(out, " workers play ") {
		t.Errorf("status %d, output %q, errors %q", status, out, stderr)
	}
	for path, want := range map[string]string{"/": "Networks in use", "/healthz": "", "/metrics": "evald_cluster_networks "} {
		answer := gametest.Must(http.Get("http://" + metrics + path))(t)
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != http.StatusOK || !strings.Contains(string(text), want) {
			t.Errorf("%s: %v, %s %q, want %q", path, err, answer.Status, text, want)
		}
	}
	wrong := strings.Replace(url, "worker:", "worker:x", 1)
	if status, _, stderr := evald(t, "", "selfplay", "--join", wrong, "--spool", spool); status != exitBadInput || !strings.Contains(stderr, "Authorization Violation") {
		t.Errorf("a wrong password: status %d, errors %q", status, stderr)
	}
	gametest.OK(t, learner.Wait())
	for i, w := range workers {
		_ = w.Process.Signal(os.Interrupt) // the first has ended
		if err := w.Wait(); i > 0 && w.ProcessState.ExitCode() != exitInterrupted {
			t.Errorf("worker %d: %v", i, err)
		}
	}
	for _, name := range []string{"000/games/4x4x3/games-000000-000019.parquet", "001/games/5x4x4/games-000000-000026.parquet", "000/train/network.safetensors", "001/train/network.safetensors", "best.safetensors"} {
		want := getFile(t, filepath.Join(one, name))
		if got, err := os.ReadFile(filepath.Join(many, name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is another one, error %v", name, err)
		}
	}
	if text, err := os.ReadFile(filepath.Join(many, "cluster", "join")); err != nil || !strings.HasPrefix(string(text), "nats://worker:") {
		t.Errorf("join: %q, %v", text, err)
	}
	if info, err := os.Stat(filepath.Join(many, "cluster", "join")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("join: %v, %v", info.Mode(), err)
	}
}

// A learner and its workers are replaced by another build, one after the other, while they play. No worker ends by itself, and the run
// has the files of one machine.
func TestTwoBuilds(t *testing.T) {
	if !gametest.Soak() {
		t.Skip("links the program; make soak does")
	}
	other := filepath.Join(t.TempDir(), "evald")
	if out, err := exec.Command("go", "build", "-ldflags=-X main.release=v9.9.9", "-o", other, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	one, many, spool, listen := filepath.Join(t.TempDir(), "run"), filepath.Join(t.TempDir(), "run"), t.TempDir(), unused(t)
	games := []string{"--generations", "2", "--cpu-path", "go", "--first-games", "2000"}
	must(t, "", learnArgs(one, games...)...)
	learner, url := clusteredAt(t, listen, learnArgs(many, games...)...)
	workers := joined(t, 3, spool, url)
	// played waits until the learner of a version has stored a number of games.
	played := func(version string, least int) {
		for {
			s, err := cluster.Ask(t.Context(), cluster.Connection{URL: url})
			if err != nil || !strings.HasPrefix(s.Version, version) {
				t.Fatalf("%+v %v, want version %s", s, err, version)
			}
			if s.Generation > 0 || s.Games >= least {
				return
			}
		}
	}
	played("", 200)
	gametest.OK(t, learner.Process.Kill())
	_ = learner.Wait() // killed
	learner = beginProgram(t, append(learnArgs(many, games...), "--cluster", "--listen", listen)...)
	learner.Path = other
	startLearner(t, learner)
	for i, w := range workers {
		played("v9.9.9", 400*(i+1))
		gametest.OK(t, w.Process.Signal(os.Interrupt))
		if err := w.Wait(); w.ProcessState.ExitCode() != exitInterrupted {
			t.Errorf("worker %d: %v", i, err)
		}
		workers[i] = beginProgram(t, "selfplay", "--spool", spool)
		workers[i].Path, workers[i].Env = other, append(workers[i].Env, "EVALD_JOIN="+url)
		gametest.OK(t, workers[i].Start())
	}
	gametest.OK(t, learner.Wait())
	for i, w := range workers {
		gametest.OK(t, w.Process.Signal(os.Interrupt))
		if err := w.Wait(); w.ProcessState.ExitCode() != exitInterrupted {
			t.Errorf("worker %d of the other build: %v", i, err)
		}
	}
	files := gametest.Must(filepath.Glob(filepath.Join(one, "00[01]", "games", "*.parquet")))(t)
	if len(files) < 2 {
		t.Errorf("one machine has %q", files)
	}
	for _, file := range append(files, filepath.Join(one, "best.safetensors")) {
		name := gametest.Must(filepath.Rel(one, file))(t)
		if !bytes.Equal(getFile(t, filepath.Join(many, name)), getFile(t, file)) {
			t.Errorf("%s is another one", name)
		}
	}
}
