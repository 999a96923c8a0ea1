package service

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/evald/evald/cmd/evald/deploy/alerttest"
	"github.com/evald/evald/cmd/evald/kserve"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

// scrape is what Prometheus reads now, or nothing if it cannot.
func (s *serving) scrape(t *testing.T) alerttest.Scrape {
	t.Helper()
	reply, err := http.Get(s.watch)
	if err != nil {
		return alerttest.Now("")
	}
	defer reply.Body.Close()
	return alerttest.Now(string(gametest.Must(io.ReadAll(reply.Body))(t)))
}

// watched is a quarter of an hour of a service: each minute something happens to it.
func (s *serving) watched(t *testing.T, happens func(minute int)) (all []alerttest.Scrape) {
	t.Helper()
	for minute := range 16 {
		happens(minute)
		all = append(all, s.scrape(t))
	}
	return all
}

// Each alert fires when what it is about happens to a real service, and no other does. Alerts about
// GPUs have a test beside the command, with the emulated driver.
func TestAlertsFire(t *testing.T) {
	var cases []alerttest.Case
	add := func(name string, fires map[string]string, scrapes []alerttest.Scrape) {
		cases = append(cases, alerttest.Case{Name: name, Scrapes: scrapes, Fires: fires})
	}
	none := func(int) {}
	wants := func(err error, code codes.Code) {
		t.Helper()
		if status.Code(err) != code {
			t.Fatalf("%v, want %v", err, code)
		}
	}
	row := func() *kserve.ModelInferRequest { return bitboardRequest(connect4, game.Position{}) }

	s := serve(t, testConfig(&evaltest.Stub{Source: eval.CPU}))
	add("all is well", nil, s.watched(t, func(int) {
		s.answer(t, row())
		s.post(t, inferPath, nil, []byte(aMove))
	}))
	s.end(t)
	add("it has ended", map[string]string{"EvaldAbsent": ""}, s.watched(t, none))

	var fails atomic.Bool
	s = serve(t, testConfig(&evaltest.Stub{Source: eval.CPU, Before: func(context.Context, *eval.Batch) error {
		if fails.Load() {
			return errors.New("the evaluator fails")
		}
		return nil
	}}))
	for name, ask := range map[string]func(){
		"over REST": func() { s.post(t, inferPath, nil, []byte(aMove)) },
		"over gRPC": func() { _, _ = s.api.ModelInfer(t.Context(), row()) },
	} {
		add("a twentieth of the requests fails "+name, map[string]string{"EvaldErrors": "instance: a"}, s.watched(t, func(int) {
			for i := range 20 {
				fails.Store(i == 0)
				ask()
			}
		}))
	}

	add("requests are slow", map[string]string{"EvaldSlow": "instance: a"}, slowRequests(t))

	stub, entered, open := gate()
	defer open()
	c := testConfig(stub)
	c.Settings.MaxQueued, c.Settings.InFlight = 4, 1
	s = serve(t, c)
	first := s.scrape(t)
	var waiting sync.WaitGroup
	hold := func(ask *kserve.ModelInferRequest) {
		api := s.api
		waiting.Go(func() { _, _ = api.ModelInfer(t.Context(), ask) })
	}
	hold(row())
	<-entered
	hold(bitboardRequest(connect4, make([]game.Position, 10)...)) // more than the queue has room for, but it was empty
	waitFor(t, "the queue", func() bool { return s.metric(`evald_queued_rows{model="stub",version="1"}`) == 10 })
	add("the queue is full", map[string]string{"EvaldRefuses": `instance: a, model: stub, version: "1"`}, append([]alerttest.Scrape{first}, s.watched(t, func(int) {
		_, err := s.api.ModelInfer(t.Context(), row())
		wants(err, codes.ResourceExhausted)
	})...))
	// It is told to end, and waits for the requests under way.
	s.stop()
	waitFor(t, "the end to begin", func() bool { return !s.isReady() })
	add("it drains for long", map[string]string{"EvaldNotReady": "instance: a"}, s.watched(t, none))
	open()
	waiting.Wait()
	s.end(t)

	stub, entered, open = gate()
	defer open()
	c = testConfig(stub)
	c.Limits.Connections = 2
	s = serve(t, c)
	hold(row())
	<-entered
	add("all connections are in use", map[string]string{"EvaldConnectionsRefused": "instance: a, port: gRPC", "EvaldErrors": "instance: a"}, s.watched(t, func(int) {
		conn := s.connect(t)
		_, err := kserve.NewGRPCInferenceServiceClient(conn).ModelInfer(t.Context(), row())
		wants(err, codes.Unavailable)
		conn.Close()
	}))
	open()
	waiting.Wait()

	stub, _, open = gate()
	defer open()
	c = testConfig(stub)
	c.Limits.Body, c.Limits.Memory = 256<<10, LeastMemory(256<<10)
	s = serve(t, c)
	for _, from := range []string{"127.0.0.1", "127.0.0.2"} { // an address can have three quarters
		s.fillMemory(t, from, &waiting)
	}
	add("the memory for requests is full", map[string]string{"EvaldMemoryFull": "instance: a"}, s.watched(t, none))
	open()
	waiting.Wait()

	c = testConfig(&evaltest.Stub{Source: eval.CPU})
	f := &files{tokens: "inference -\n"}
	c.ReadAccess = f.read
	var broken error
	load := c.Load
	c.Load = func(m Model) (Loaded, error) {
		l, err := load(m)
		return l, errors.Join(broken, err)
	}
	s = serve(t, c)
	add("a network is damaged", map[string]string{"EvaldReloadFails": `instance: a, model: stub, version: "1"`}, s.watched(t, func(minute int) {
		if broken = nil; minute == 10 {
			broken = errors.New("damaged")
			s.Reload()
		}
	}))
	broken = nil
	add("the file of tokens is damaged", map[string]string{"EvaldAccessReloadFails": "instance: a"}, s.watched(t, func(minute int) {
		if minute == 10 {
			f.tokens = "nonsense"
			s.Reload()
		}
	}))

	c = testConfig(&evaltest.Stub{Source: eval.CPU})
	text := func(path string) []byte { return gametest.Must(os.ReadFile(path))(t) }
	certificate, key := selfSignedUntil(t, t.TempDir(), "server", time.Now().Add(nearEnd-time.Hour))
	c.Access = gametest.Must(ReadTLS(text(certificate), text(key), nil))(t)
	s = serve(t, c)
	add("a certificate ends in less than a week", map[string]string{"EvaldCertificateEnds": "instance: a, file: tls-cert"}, s.watched(t, none))

	fired := map[string]string{"EvaldGPULost": "", "EvaldGPUMissing": "", "EvaldGPUFails": ""}
	for _, c := range cases {
		maps.Copy(fired, c.Fires)
	}
	var all []string
	for _, rule := range alerttest.Rules(t) {
		all = append(all, rule.Alert)
	}
	slices.Sort(all)
	if diff := cmp.Diff(all, slices.Sorted(maps.Keys(fired))); diff != "" {
		t.Errorf("alerts (-) and those that were made to fire (+):\n%s", diff)
	}
	alerttest.Check(t, cases)
}

// slowRequests is the service of a model that takes two seconds, in virtual time.
func slowRequests(t *testing.T) (all []alerttest.Scrape) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := gametest.Must(New(testConfig(&evaltest.Stub{Source: eval.CPU, Before: func(context.Context, *eval.Batch) error {
			time.Sleep(2 * time.Second) // of the bubble's clock
			return nil
		}})))(t)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Serve(ctx, Listeners{}) }()
		synctest.Wait()
		conn := connectionFrom("10.0.0.1", s.memory)
		for range 16 {
			r := &request{conn: conn, group: inferenceCalls, asked: time.Now()}
			gametest.OK(t, s.readMessage(r, bitboardRequest(connect4, game.Position{})))
			gametest.OK(t, s.infer(ctx, r))
			r.answer.release()
			r.end()
			all = append(all, alerttest.Now((&serving{Server: s}).metricsText()))
		}
		stop()
		gametest.OK(t, <-ended)
	})
	return all
}

// fillMemory sends requests from an address until one is refused for lack of memory. The others
// stay under way.
func (s *serving) fillMemory(t *testing.T, from string, waiting *sync.WaitGroup) {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	conn := s.connect(t, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
		return dialer.DialContext(ctx, "tcp", address)
	}))
	refused := make(chan error, 1)
	for full := false; !full; {
		before := s.memory.inUse()
		waiting.Go(func() {
			_, err := kserve.NewGRPCInferenceServiceClient(conn).ModelInfer(t.Context(), bitboardRequest(connect4, game.Position{}))
			if status.Code(err) == codes.ResourceExhausted {
				refused <- err
			}
		})
		waitFor(t, "a request", func() bool {
			full = len(refused) > 0
			return full || s.memory.inUse() > before
		})
	}
	if err := <-refused; !strings.Contains(err.Error(), "memory for requests") {
		t.Fatal(err)
	}
}
