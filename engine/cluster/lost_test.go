package cluster_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/evald/evald/engine/cluster"
	"github.com/evald/evald/engine/game/gametest"
)

// A worker that is silent for too long is lost, which the log says once, also while no games are played. One that leaves by
// itself is not.
func TestLostWorker(t *testing.T) {
	within(t, time.Minute)
	var log lockedBuffer
	o := cluster.Options{Version: "v", Dir: t.TempDir(), Log: slog.New(slog.NewTextHandler(&log, nil)), Server: cluster.Server{Listen: "127.0.0.1:0"}}
	l := gametest.Must(cluster.Open(t.Context(), o.Forgetful()))(t)
	t.Cleanup(l.Close)
	conn := wire(t, l)
	for _, report := range []string{`{"worker":"killed","spool":3}`, `{"worker":"honest"}`, `{"worker":"honest","left":true}`} {
		gametest.OK(t, conn.Publish(cluster.WorkerSubject, []byte(report)))
	}
	for !strings.Contains(log.String(), "a worker is lost") {
		time.Sleep(time.Millisecond)
	}
	said := log.String()
	if !strings.Contains(said, "worker=killed") || !strings.Contains(said, "spool=3") || strings.Count(said, "is lost") != 1 || !strings.Contains(said, `"a worker has left" worker=honest`) {
		t.Errorf("the log says\n%s", said)
	}
	if s := l.Status(); len(s.Workers) != 0 {
		t.Errorf("workers %v", s.Workers)
	}
}

// Programs of the same protocol play the same games of a configuration. If this test finds other games, a new protocol is due.
func TestProtocol(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("other processors round the heuristic's values differently")
	}
	sum := sha256.New()
	for generation := range 2 {
		for _, g := range played(t, small(generation), 8)[:8] {
			sum.Write(gametest.Must(json.Marshal(g))(t))
		}
	}
	got := fmt.Sprintf("%s %x", cluster.Protocol, sum.Sum(nil)[:6])
	if want := "protocol 1 4421d9b4c478"; got != want {
		t.Errorf("games %s, want %s", got, want)
	}
}

// A worker of another program joins if the protocol is the learner's. One of another protocol is told which program to install.
func TestPrograms(t *testing.T) {
	within(t, time.Minute)
	l := open(t, cluster.Options{Version: cluster.Protocol, Program: "evald v9.9.9"})
	if s := gametest.Must(cluster.Ask(t.Context(), connection(l)))(t); s.Version != "evald v9.9.9" {
		t.Errorf("the status has version %q", s.Version)
	}
	for _, version := range []string{"evald v0.1.0 (abcdef, go1.26.8)", "", "protocol 2"} { // the first is of a time before protocols
		err := cluster.Work(t.Context(), cluster.WorkerOptions{Connection: connection(l), Version: version, Dir: t.TempDir(), Parallel: 8, Batch: 8, Log: quiet(), Evaluator: bitsquares})
		if want := fmt.Sprintf(`its version is %q, and the learner's "protocol 1": install evald v9.9.9`, version); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", version, err, want)
		}
	}
}
