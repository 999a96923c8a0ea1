package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/evald/evald/cmd/evald/kserve"
	"github.com/evald/evald/engine/game/gametest"
)

// victim is a service in a process of its own.
type victim struct {
	t       *testing.T
	process *os.Process
	address map[string]string

	// The connections of a visitor, which exist before the attackers come.
	api kserve.GRPCInferenceServiceClient
	web *http.Client
}

// TestVictim is that process: it serves with the arguments in the environment until it is interrupted.
func TestVictim(t *testing.T) {
	args := os.Getenv("EVALD_TEST_SERVE")
	if args == "" {
		t.Skip("is the service that other tests attack")
	}
	ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt)
	defer stop()
	run(ctx, strings.Fields(args), streams{strings.NewReader(""), io.Discard, os.Stderr})
}

func newVictim(t *testing.T, args string) *victim {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("memory is read from /proc")
	}
	child := exec.Command(os.Args[0], "-test.run=^TestVictim$")
	if group := os.Getenv("EVALD_CGROUP"); group != "" {
		child = exec.Command("sh", "-c", `echo $$ > "$0/cgroup.procs" && exec "$@"`, group, os.Args[0], "-test.run=^TestVictim$")
	}
	child.Env = append(os.Environ(), "EVALD_TEST_SERVE=serve --http 127.0.0.1:0 --grpc 127.0.0.1:0 --metrics 127.0.0.1:0 "+args)
	log := new(syncBuffer)
	child.Stderr = log
	gametest.OK(t, child.Start())
	v := &victim{t: t, process: child.Process, web: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64, MaxConnsPerHost: 64}}}
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }()
	t.Cleanup(func() {
		_ = child.Process.Signal(os.Interrupt)
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("the service ended with %v:\n%s", err, log)
			}
		case <-time.After(60 * time.Second):
			_ = child.Process.Kill()
			t.Error("the service does not end")
		}
		if n := len(log.String()); n > 1<<20 {
			t.Errorf("the log has %d bytes", n)
		}
	})
	v.address = addresses(t, log)
	conn := gametest.Must(grpc.NewClient("passthrough:///"+v.address["grpc"], grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	t.Cleanup(func() { conn.Close(); v.web.CloseIdleConnections() })
	v.api = kserve.NewGRPCInferenceServiceClient(conn)
	return v
}

// attacked begins attacks by name in a process of their own, which ends after d. The function that it returns waits for that
// end, and returns the number of successful calls and connections. The process has what others leave of this machine's
// processors, because attackers usually have processors of their own.
func (v *victim) attacked(names []string, d time.Duration) (wait func() int) {
	v.t.Helper()
	child := exec.Command("setsid", "nice", "-n", "19", os.Args[0], "-test.run=^TestAttacker$", "-test.v")
	child.Env = append(os.Environ(), "EVALD_TEST_ATTACKS="+strings.Join(names, ";"), "EVALD_TEST_ATTACK_TIME="+d.String(),
		"EVALD_TEST_ATTACKED="+v.address["http"]+" "+v.address["grpc"])
	pipe, err := child.StdoutPipe()
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		v.t.Fatal(err)
	}
	out := bufio.NewReader(pipe)
	for line := ""; !strings.Contains(line, attacking); {
		if line, err = out.ReadString('\n'); err != nil {
			v.t.Fatalf("the attackers did not begin: %v", err)
		}
	}
	// Linux may share processors among sessions first, and by nice only within each. The process has a session of its own
	// now. Before it has one, this would slow down the session of the tests.
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/autogroup", child.Process.Pid), []byte("19"), 0)
	return func() int {
		text, _ := io.ReadAll(out)
		err := child.Wait()
		m := regexp.MustCompile(`(\d+) successful`).FindSubmatch(text)
		if err != nil || m == nil {
			v.t.Fatalf("the attackers ended with %v:\n%s", err, text)
		}
		n, err := strconv.Atoi(string(m[1]))
		if err != nil {
			v.t.Fatal(err)
		}
		return n
	}
}

// attacking is what that process prints when it begins.
const attacking = "attacking now"

// TestAttacker is that process.
func TestAttacker(t *testing.T) {
	names := os.Getenv("EVALD_TEST_ATTACKS")
	if names == "" {
		t.Skip("is the attacker of other tests")
	}
	d := gametest.Must(time.ParseDuration(os.Getenv("EVALD_TEST_ATTACK_TIME")))(t)
	http, grpc, _ := strings.Cut(os.Getenv("EVALD_TEST_ATTACKED"), " ")
	fmt.Println(attacking)
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	var wait sync.WaitGroup
	var seen atomic.Int64
	for name := range strings.SplitSeq(names, ";") {
		wait.Go(func() {
			a := newAttack(map[string]string{"http": http, "grpc": grpc})
			attacks[name](ctx, a)
			a.web.CloseIdleConnections()
			a.web2.CloseIdleConnections()
			seen.Add(a.seen.Load())
		})
	}
	wait.Wait()
	t.Logf("%d successful", seen.Load())
}

// peak is the process's largest resident memory since clear, in MiB; resident is the current one.
func (v *victim) peak() int     { return v.status("VmHWM") }
func (v *victim) resident() int { return v.status("VmRSS") }

func (v *victim) status(name string) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", v.process.Pid))
	if err != nil {
		v.t.Fatal(err)
	}
	m := regexp.MustCompile(name + `:\s+(\d+) kB`).FindSubmatch(text)
	n, err := strconv.Atoi(string(m[1]))
	if err != nil {
		v.t.Fatal(err)
	}
	return n >> 10
}

func (v *victim) clear() {
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", v.process.Pid), []byte("5"), 0); err != nil {
		v.t.Fatal(err)
	}
}

// gauge returns a number from the service's metrics.
func (v *victim) gauge(name string) int {
	reply, err := http.Get("http://" + v.address["metrics"] + "/metrics")
	_, text := answered(v.t, reply, err)
	m := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindStringSubmatch(text)
	if m == nil {
		v.t.Fatalf("no metric %s", name)
	}
	x, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		v.t.Fatal(err)
	}
	return int(x)
}

// visit is the result of a visitor's requests.
type visit struct {
	sent, answered int
	took           []time.Duration
	last           error
}

func (v visit) p99() time.Duration {
	if len(v.took) == 0 {
		return 0
	}
	slices.Sort(v.took)
	return v.took[len(v.took)*99/100]
}

// visitor asks for a few positions a hundred times a second until d is over. It alternates between both transports and the
// health check.
func (v *victim) visitor(d time.Duration) visit {
	ask := positionsRequest("bitsquares", 4)
	const body = `{"inputs":[{"name":"moves","datatype":"BYTES","shape":[4],"data":["4","44","445","4455"]}]}`
	one := func(i int) error {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		path, reader := inferURL, io.Reader(strings.NewReader(body))
		method := http.MethodPost
		switch i % 5 {
		case 0, 1:
			_, err := v.api.ModelInfer(ctx, ask)
			return err
		case 4:
			path, reader, method = "/v2/health/ready", nil, http.MethodGet
		}
		r, err := http.NewRequestWithContext(ctx, method, "http://"+v.address["http"]+path, reader)
		if err != nil {
			return err
		}
		r.Header.Set("Content-Type", "application/json")
		reply, err := v.web.Do(r)
		if err != nil {
			return err
		}
		defer reply.Body.Close()
		text, err := io.ReadAll(reply.Body)
		if err == nil && reply.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %s", reply.Status, text)
		}
		return err
	}
	var out visit
	var mu sync.Mutex
	var wait sync.WaitGroup
	for begin := time.Now(); time.Since(begin) < d; time.Sleep(10 * time.Millisecond) {
		i := out.sent
		out.sent++
		wait.Go(func() {
			start := time.Now()
			err := one(i)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				out.last = err
				return
			}
			out.answered++
			out.took = append(out.took, time.Since(start))
		})
	}
	wait.Wait()
	return out
}

// atRest waits until the service has about the given numbers of goroutines and files, and no memory for requests.
func (v *victim) atRest(goroutines, files int) {
	v.t.Helper()
	v.web.CloseIdleConnections()
	end := time.Now().Add(90 * time.Second)
	for {
		g, f, m := v.gauge("go_goroutines"), v.gauge("process_open_fds"), v.gauge("evald_request_memory_bytes")
		if g <= goroutines+2 && f <= files+1 && m == 0 {
			return
		}
		if time.Now().After(end) {
			v.t.Errorf("at rest: %d goroutines, %d files and %d bytes of requests; %d and %d before", g, f, m, goroutines, files)
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}
