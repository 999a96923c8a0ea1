package service

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/evald/evald/cmd/evald/kserve"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/nn/cpu"
	nets "github.com/evald/evald/nn/net"
)

// Tests under load. EVALD_SOAK=5m makes each as long as that, with 1,000 reloads; without it they take a second or two.

// usage is what a process holds.
type usage struct {
	goroutines, files int
	resident, heap    int64 // MiB
}

func (u usage) String() string {
	return fmt.Sprintf("%d goroutines, %d files, %d MiB resident, %d MiB of heap", u.goroutines, u.files, u.resident, u.heap)
}

func now(t testing.TB) usage {
	var u usage
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("no /proc here")
	}
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	u.goroutines, u.files, u.resident, u.heap = runtime.NumGoroutine(), len(files), pages*int64(os.Getpagesize())>>20, int64(m.HeapInuse)>>20
	return u
}

// returnsToRest waits until goroutines and files are back to what they were.
func returnsToRest(t *testing.T, before usage) {
	t.Helper()
	http.DefaultClient.CloseIdleConnections()
	waitFor(t, fmt.Sprintf("rest as at the start, %v", before), func() bool {
		u := now(t)
		return u.goroutines <= before.goroutines && u.files <= before.files
	})
	runtime.GC()
	t.Logf("at the start %v, at the end %v", before, now(t))
}

// device takes a time for each batch, as one beside the processor does.
func device(took time.Duration) *evaltest.Stub {
	return &evaltest.Stub{Source: eval.CPU, Before: func(context.Context, *eval.Batch) error {
		time.Sleep(took)
		return nil
	}}
}

func network(t testing.TB, blocks, channels int, seed uint64) *nets.Network {
	t.Helper()
	n, err := nets.NewScrambled(nets.Config{Blocks: blocks, Channels: channels, HeadChannels: nets.DefaultHeadChannels, Hidden: nets.DefaultHidden}, seed)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Three times as many requests as can be answered: what is accepted keeps its deadline, the others hear at once that
// there is too much to do, and the memory stays what it is.
func TestOverloadSoak(t *testing.T) {
	d, long := gametest.SoakTime(t, 1500*time.Millisecond), gametest.Soak()
	onCPU, _ := cpu.New(network(t, 6, 64, 1))
	for name, c := range map[string]struct {
		e        *eval.Evaluator
		rows     int // of a request
		inFlight int
		deadline time.Duration
		capacity float64 // requests a second; 0 is to be measured
	}{
		"device":  {evaltest.Raw(device(40 * time.Millisecond)), 64, 1, time.Second, 256 / 64 / 0.04},
		"network": {evaltest.Raw(onCPU), 128, 2, 2 * time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if c.capacity == 0 && !long {
				t.Skip("what this machine can do is not to be measured in a second: see EVALD_SOAK")
			}
			before := now(t)
			config := testConfig(c.e.Backend())
			config.Batching = Batching{MaxRows: 256, MaxDelay: time.Millisecond, MaxQueued: 4096, InFlight: c.inFlight}
			s := serve(t, config)
			conns := make([]kserve.GRPCInferenceServiceClient, 8)
			var closers []func() error
			for i := range conns {
				conn := s.connect(t)
				closers = append(closers, conn.Close)
				conns[i] = kserve.NewGRPCInferenceServiceClient(conn)
			}
			ask := bitboardRequest(connect4, gametest.Open(gametest.Rand(1), connect4, c.rows)...)
			capacity := c.capacity
			if capacity == 0 {
				capacity = closedLoop(t, conns, ask, 64, d/4)
			}
			l := openLoop(t, conns, ask, 3*capacity, d, c.deadline)
			// A request that ended at its deadline may never have reached the server.
			late := s.failures(t)[1]
			t.Logf("capacity %.0f requests/s; offered %.0f/s for %v: %.0f/s answered; of %d accepted %d late, %d more ended on their way to the server; %d refused, in %v at the median and %v for 99%%; answers in %v, %v; memory %d MiB after a fifth of the time, %d MiB in the last, at most %d MiB",
				capacity, l.offered, d, float64(l.ok)/d.Seconds(), l.ok+int(late), late, l.late-int(late), l.refused, quantileOf(l.refusals, 0.5), quantileOf(l.refusals, 0.99), quantileOf(l.answers, 0.5), quantileOf(l.answers, 0.99), l.early(), l.last(), slices.Max(l.memory))
			if l.other != nil {
				t.Errorf("neither answered nor refused: %v", l.other)
			}
			if l.offered < 1.5*capacity {
				t.Skipf("other programs leave no time for more than %.0f requests a second", l.offered)
			}
			if l.refused == 0 || l.ok == 0 {
				t.Errorf("%d answered, %d refused: this was no overload", l.ok, l.refused)
			}
			if long && late*100 > uint64(l.ok) { // a short one may hit a moment when other programs have the cores
				t.Errorf("%d of those accepted were late, %d in time", late, l.ok)
			}
			if long && l.last() > l.early()+l.early()/4+32 {
				t.Errorf("memory grew from %d to %d MiB", l.early(), l.last())
			}
			for _, c := range closers {
				c()
			}
			s.end(t)
			returnsToRest(t, before)
		})
	}
}

// Sixty-four clients of one position each share batches, on a device that takes as long for one as for many.
func TestBatchesForm(t *testing.T) {
	s := serve(t, testConfig(device(10*time.Millisecond)))
	api := s.dial(t)
	closedLoop(t, []kserve.GRPCInferenceServiceClient{api}, bitboardRequest(connect4, game.Position{}), 64, 400*time.Millisecond)
	m, err := s.models.find("stub", "")
	if err != nil {
		t.Fatal(err)
	}
	if c := m.stats.now(); c.batchRows < 8*c.executions() {
		t.Errorf("%d rows in %d batches; want 8 or more in one; by size, up to 1, 2, 4, .. rows: %v", c.batchRows, c.executions(), c.sizes)
	}
}

// closedLoop is how many requests a second are answered to so many callers who ask again at once.
func closedLoop(t *testing.T, conns []kserve.GRPCInferenceServiceClient, ask *kserve.ModelInferRequest, callers int, d time.Duration) float64 {
	var n atomic.Int64
	var wait sync.WaitGroup
	start := time.Now()
	for i := range callers {
		wait.Go(func() {
			for time.Since(start) < d {
				if _, err := conns[i%len(conns)].ModelInfer(t.Context(), ask); err != nil {
					if status.Code(err) != codes.ResourceExhausted {
						t.Error(err)
					}
					return
				}
				n.Add(1)
			}
		})
	}
	wait.Wait()
	return float64(n.Load()) / time.Since(start).Seconds()
}

// load is what became of requests.
type load struct {
	offered           float64 // a second
	ok, late, refused int
	other             error
	answers, refusals []time.Duration
	memory            []int64 // MiB resident, again and again
}

// early and last are the median of the memory in the second fifth of the time, and in the last.
func (l *load) early() int64 { return medianOf(l.memory[len(l.memory)/5 : 2*len(l.memory)/5+1]) }
func (l *load) last() int64  { return medianOf(l.memory[4*len(l.memory)/5:]) }

func medianOf(values []int64) int64 {
	values = slices.Clone(values)
	slices.Sort(values)
	return values[len(values)/2]
}

// failures are the requests of the stub that failed, by reason.
func (s *serving) failures(t *testing.T) (n [len(reasons)]uint64) {
	m, err := s.models.find("stub", "")
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range m.stats.now().failure {
		n[i] = f.count
	}
	return n
}

// openLoop sends so many requests a second, whatever becomes of them.
func openLoop(t *testing.T, conns []kserve.GRPCInferenceServiceClient, ask *kserve.ModelInferRequest, perSecond float64, d, deadline time.Duration) (l load) {
	var mu sync.Mutex
	var wait sync.WaitGroup
	start := time.Now()
	sent := 0
	const tick = 2 * time.Millisecond
	for time.Since(start) < d {
		for due := int(time.Since(start).Seconds() * perSecond); sent < due; sent++ {
			api := conns[sent%len(conns)]
			wait.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), deadline)
				defer cancel()
				began := time.Now()
				_, err := api.ModelInfer(ctx, ask)
				took := time.Since(began)
				mu.Lock()
				defer mu.Unlock()
				switch status.Code(err) {
				case codes.OK:
					l.ok++
					l.answers = append(l.answers, took)
				case codes.DeadlineExceeded:
					l.late++
				case codes.ResourceExhausted:
					l.refused++
					l.refusals = append(l.refusals, took)
				default:
					l.other = err
				}
			})
		}
		if time.Since(start) > time.Duration(len(l.memory))*d/500 {
			l.memory = append(l.memory, now(t).resident)
		}
		time.Sleep(tick)
	}
	l.offered = float64(sent) / time.Since(start).Seconds()
	wait.Wait()
	slices.Sort(l.answers)
	slices.Sort(l.refusals)
	return l
}

func quantileOf(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))].Round(10 * time.Microsecond)
}

// The end of a server under load, again and again: every request it has counted as answered has reached its client, and
// the others have heard that they were not taken.
func TestDrainSoak(t *testing.T) {
	rounds := 3
	if gametest.Soak() {
		rounds = 100
	}
	before := now(t)
	answered, refused := 0, 0
	for round := range rounds {
		s := serve(t, testConfig(device(time.Millisecond)))
		conn := s.connect(t)
		api := kserve.NewGRPCInferenceServiceClient(conn)
		web := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
		var ok, no atomic.Int64
		var wait sync.WaitGroup
		for range 16 {
			wait.Go(func() {
				for {
					r, err := api.ModelInfer(context.Background(), bitboardRequest(connect4, gametest.Open(gametest.Rand(1), connect4, 4)...))
					if err != nil {
						no.Add(1)
						if status.Code(err) != codes.Unavailable {
							t.Errorf("gRPC: %v, want Unavailable", err)
						}
						return
					}
					if len(raws(r)[wdlOutput]) != 48 {
						t.Error("a torn reply")
					}
					ok.Add(1)
				}
			})
			wait.Go(func() {
				for {
					r, err := web.Post(s.rest+inferPath, "", strings.NewReader(`{"inputs":[{"name":"moves","datatype":"BYTES","shape":[1],"data":["4"]}]}`))
					if err != nil { // the connection was refused, or closed before the request was read
						no.Add(1)
						return
					}
					_, err = io.Copy(io.Discard, r.Body)
					r.Body.Close()
					if err != nil {
						t.Errorf("REST: a torn reply: %v", err)
					}
					if r.StatusCode != http.StatusOK {
						no.Add(1)
						if r.StatusCode != http.StatusServiceUnavailable {
							t.Errorf("REST: status %d, want 503", r.StatusCode)
						}
						return
					}
					ok.Add(1)
				}
			})
		}
		waitFor(t, "load", func() bool { return ok.Load() > int64(50+7*round%100) })
		s.stop()
		wait.Wait()
		s.end(t)
		m, err := s.models.find("stub", "")
		if err != nil {
			t.Fatal(err)
		}
		if c := m.stats.now(); c.success.count != uint64(ok.Load()) || c.pending != 0 {
			t.Errorf("round %d: the server has answered %d requests, the clients have %d answers; %d are under way", round, c.success.count, ok.Load(), c.pending)
		}
		answered, refused = answered+int(ok.Load()), refused+int(no.Load())
		conn.Close()
		web.CloseIdleConnections()
	}
	t.Logf("%d ends under load: %d requests answered, %d clients told to go", rounds, answered, refused)
	returnsToRest(t, before)
}
