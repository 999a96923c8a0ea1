package cluster_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/evald/evald/engine/cluster"
	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/selfplay"
)

// roleVariable makes the test binary one process of a cluster, for tests that kill it. Its arguments are in roleArguments.
const (
	roleVariable  = "CLUSTER_TEST_ROLE"
	roleArguments = "CLUSTER_TEST_ARGUMENTS"
)

// arguments of a process.
type arguments struct {
	URL    string // of a server elsewhere; a learner without one has a server at Listen
	Listen string
	Dir    string
	Told   string  // file of a worker
	Games  []int   // of a learner, by generation
	Rate   float64 // of a worker's evaluator, rows a second; 0: as fast as it can
}

// inRole is one process of a cluster; it ends the process.
func inRole(role string) {
	go func() { // a test that ends in any way leaves no process
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	var a arguments
	err := json.Unmarshal([]byte(os.Getenv(roleArguments)), &a)
	switch {
	case err != nil:
	case role == "learner":
		err = roleLearner(a)
	case role == "worker":
		err = roleWorker(a)
	case role == "server":
		err = roleServer(a)
	case role == "clock":
		err = roleClock()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, role+":", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func roleLearner(a arguments) error {
	o := cluster.Options{Version: "v", Dir: filepath.Join(a.Dir, "cluster"), Log: quiet(), Server: cluster.Server{Listen: a.Listen}}.Hurried()
	if a.URL != "" {
		o.Outside = new(to(a.URL))
	}
	l, err := cluster.Open(context.Background(), o)
	if err != nil {
		return err
	}
	for generation, games := range a.Games {
		c := small(generation)
		err := l.Play(context.Background(), selfplay.Batch{Generation: generation, Config: c, Dir: filepath.Join(a.Dir, fmt.Sprint(generation)), Games: games})
		if err != nil {
			return err
		}
	}
	return nil
}

// told is a line of what a worker was told.
type told struct {
	Generation int   `json:"generation"`
	Numbers    []int `json:"numbers"`
}

func roleWorker(a arguments) error {
	file, err := os.OpenFile(a.Told, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return cluster.Work(context.Background(), cluster.WorkerOptions{
		Connection: to(a.URL), Version: "v", Dir: a.Dir, Parallel: 24, Batch: 16, Log: quiet(),
		Evaluator: func(file, name, _ string) (*eval.Evaluator, func(), error) {
			e, done, err := bitsquares(file, name, "")
			if a.Rate > 0 {
				e = evaltest.Raw(&paced{Backend: e.Backend(), rate: a.Rate})
			}
			return e, done, err
		},
		Kept: func(generation int, numbers []int) {
			text, err := durable.Marshal(told{generation, numbers})
			if err == nil {
				_, err = file.Write(append(text, '\n'))
			}
			if err != nil {
				panic(err)
			}
		},
	})
}

// roleServer is a NATS server elsewhere.
func roleServer(a arguments) error {
	host, port, err := net.SplitHostPort(a.Listen)
	if err != nil {
		return err
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	s, err := server.NewServer(&server.Options{Host: host, Port: number, NoSigs: true, NoLog: true})
	if err != nil {
		return err
	}
	s.Start()
	select {}
}

// freePort returns an address of this machine on which no program listens.
func freePort(t *testing.T) string {
	t.Helper()
	l := gametest.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	return l.Addr().String()
}

// process is one of a cluster that is killed and begun again.
type process struct {
	role string
	arguments
	program string   // empty: this test
	before  []string // a command that begins the program and becomes it; or empty
	env     []string // more than this test has
	*exec.Cmd
	ended chan error
}

func (p *process) start(t *testing.T) {
	t.Helper()
	text := gametest.Must(json.Marshal(p.arguments))(t)
	command := append(p.before, cmp.Or(p.program, os.Args[0]))
	p.Cmd = exec.Command(command[0], command[1:]...)
	p.Env = append(append(os.Environ(), p.env...), roleVariable+"="+p.role, roleArguments+"="+string(text))
	p.Stderr = os.Stderr
	gametest.Must(p.StdinPipe())(t) // closed when this test ends
	gametest.OK(t, p.Start())
	p.ended = make(chan error, 1)
	go func(c *exec.Cmd, ended chan error) { ended <- c.Wait() }(p.Cmd, p.ended)
}

// workersURL writes the workers' password into the folder of a learner that has not begun, and returns their URL.
func (p *process) workersURL(t *testing.T, listen string) string {
	t.Helper()
	dir := filepath.Join(p.arguments.Dir, "cluster")
	gametest.OK(t, os.MkdirAll(dir, 0o755))
	gametest.OK(t, os.WriteFile(filepath.Join(dir, "password"), []byte("secret"), 0o600))
	return "nats://worker:secret@" + listen
}

func (p *process) kill() {
	_ = p.Process.Kill() // it may have ended
	<-p.ended
}

// soak is how long the long forms of tests take; 0 is their short form.
func soak(t *testing.T) time.Duration { return gametest.SoakTime(t, 0) }

// readTold adds what a worker's processes wrote to a ledger, without a last line that a kill has torn. It returns how many
// games the file has.
func (l *ledger) readTold(t *testing.T, path string) (games int) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var told told
		if err := durable.Unmarshal([]byte(line), &told); err == nil {
			l.kept(told.Generation, told.Numbers)
			games += len(told.Numbers)
		}
	}
	return games
}

// Workers, the learner and the server are killed at random moments. In the end the files are those of one machine, and have
// each game that a worker was told of once.
func TestKilled(t *testing.T) {
	within(t, 5*time.Minute+2*soak(t))
	for _, outside := range []bool{false, true} {
		if testing.Short() && !outside { // TestSameFiles has the learner's own server
			continue
		}
		t.Run(fmt.Sprintf("server outside %t", outside), func(t *testing.T) {
			games, roles := []int{520, 60}, 2
			if soak(t) > 0 {
				games = []int{1700, 600}
			}
			if outside {
				roles = 3 // the server too
			}
			start, kills := time.Now(), map[string]int{}
			random := rand.New(rand.NewPCG(1, 2))
			// A fast machine ends a run before each role was killed: then there is another run.
			for len(kills) < roles || time.Since(start) < soak(t)/2 {
				killRound(t, outside, games, random, kills)
			}
			t.Logf("killed %v", kills)
		})
	}
}

// killRound is one run whose processes are killed.
func killRound(t *testing.T, outside bool, games []int, random *rand.Rand, kills map[string]int) {
	dir, listen := t.TempDir(), freePort(t)
	learner := &process{role: "learner", arguments: arguments{Listen: listen, Dir: filepath.Join(dir, "run"), Games: games}}
	url, victims := "nats://"+listen, []*process{}
	if outside {
		learner.URL = url
		s := &process{role: "server", arguments: arguments{Listen: listen}}
		s.start(t)
		defer func() { s.kill() }()
		victims = append(victims, s)
		waitFor(t, listen)
	} else {
		url = learner.workersURL(t, listen)
	}
	for n := range 2 {
		w := &process{role: "worker", arguments: arguments{URL: url, Dir: filepath.Join(dir, "worker"), Told: filepath.Join(dir, fmt.Sprint("told", n))}}
		w.start(t)
		defer func() { w.kill() }()
		victims = append(victims, w)
	}
	learner.start(t)
	victims = append(victims, learner)
	// After this number of kills the run may end.
	for left := 6; ; left-- {
		moment := time.NewTimer(time.Duration(random.IntN(300)) * time.Millisecond)
		if left <= 0 {
			moment.Stop()
		}
		select {
		case err := <-learner.ended:
			moment.Stop()
			learner.ended <- err
			if err == nil {
				goto over
			}
			if !outside { // the server outside may be away at its start
				t.Fatal(err)
			}
			waitFor(t, listen)
			learner.start(t)
			continue
		case <-moment.C:
		}
		v := victims[random.IntN(len(victims))]
		v.kill()
		kills[v.role]++
		v.start(t)
	}
over:
	checkRun(t, learner.arguments, []string{filepath.Join(dir, "told0"), filepath.Join(dir, "told1")})
}

// checkRun compares the files of a learner's run with those of one machine, and with what workers wrote into some files.
func checkRun(t *testing.T, learner arguments, told []string) {
	t.Helper()
	var l ledger
	for _, path := range told {
		l.readTold(t, path)
	}
	for generation, games := range learner.Games {
		dir := filepath.Join(learner.Dir, fmt.Sprint(generation))
		same(t, alone(t, small(generation), games), files(t, dir))
		l.check(t, generation, dir, games)
	}
}

// waitFor waits until somebody listens.
func waitFor(t *testing.T, address string) {
	t.Helper()
	for {
		if c, err := net.Dial("tcp", address); err == nil {
			c.Close()
			return
		}
		if t.Context().Err() != nil {
			t.Fatal("no program listens there")
		}
	}
}

// relay passes connections on to a server, and can be cut.
type relay struct {
	l  net.Listener
	to string

	mu    sync.Mutex
	rate  float64 // bytes a second of each connection and direction; 0: as fast as it can
	cut   bool
	conns []net.Conn
	seen  bytes.Buffer // what went either way
}

// Write sees what goes either way.
func (r *relay) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen.Write(p)
}

func newRelay(t *testing.T, to string) *relay {
	t.Helper()
	l := gametest.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	r := &relay{l: l, to: to}
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			r.pass(from)
		}
	}()
	t.Cleanup(func() { l.Close(); r.set(true) })
	return r
}

// set cuts the line and all connections, or mends the line.
func (r *relay) set(cut bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cut = cut; cut {
		for _, c := range r.conns {
			c.Close()
		}
		r.conns = nil
	}
}

// slowly reads rate bytes per second, or as fast as possible if rate is 0.
func slowly(from io.Reader, rate float64) io.Reader {
	if rate == 0 {
		return from
	}
	return readFunc(func(p []byte) (int, error) {
		n, err := from.Read(p[:min(len(p), 1024)])
		<-time.After(time.Duration(float64(n) / rate * float64(time.Second)))
		return n, err
	})
}

// readFunc is a function that is an io.Reader.
type readFunc func(p []byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

func (r *relay) pass(from net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	to, err := net.Dial("tcp", r.to)
	if r.cut || err != nil {
		from.Close()
		if err == nil {
			to.Close()
		}
		return
	}
	r.conns = append(r.conns, from, to)
	for _, c := range [][2]net.Conn{{from, to}, {to, from}} {
		from := slowly(c[1], r.rate)
		go func() {
			_, _ = io.Copy(io.MultiWriter(c[0], r), from)
			c[0].Close()
			c[1].Close()
		}()
	}
}
