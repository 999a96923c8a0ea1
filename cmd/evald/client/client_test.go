package client_test

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"

	"github.com/evald/evald/cmd/evald/client"
	"github.com/evald/evald/cmd/evald/kserve"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/heuristic"
)

var plain = grpc.WithTransportCredentials(insecure.NewCredentials())

// bitsquares is the backend of servers under test.
func bitsquares(t testing.TB) eval.Backend {
	e := gametest.Must(heuristic.New(eval.Bitsquares))(t)
	return e.Backend()
}

// dial is a client of the model bitsquares.
func dial(t testing.TB, addresses string, options ...grpc.DialOption) *client.Client {
	t.Helper()
	c := gametest.Must(client.Dial(addresses, "bitsquares", append(options, plain)...))(t)
	t.Cleanup(func() { c.Close() })
	return c
}

// positions is a batch of unfinished games.
func positions(n int) *eval.Batch {
	board := game.MustBoard(game.Connect4)
	b := eval.NewBatch(board, n)
	copy(b.Pos, gametest.Open(gametest.Rand(5), board, n))
	return b
}

// counted counts the calls to each address.
type counted struct {
	mu    sync.Mutex
	calls map[string]int
	begun func()
}

func (c *counted) intercept(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	c.mu.Lock()
	c.calls[conn.Target()]++
	begun := c.begun
	c.mu.Unlock()
	begun()
	return call(ctx, method, req, reply, conn, opts...)
}

// reset forgets the calls so far, and returns them.
func (c *counted) reset(begun func()) map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	calls := c.calls
	c.calls, c.begun = map[string]int{}, begun
	return calls
}

// Several servers answer as one does while one is left, and the one with the fewest rows under way is asked. What would fail
// again is not repeated.
func TestSeveralServers(t *testing.T) {
	addresses, stops := make([]string, 3), make([]func(), 3)
	for i := range addresses {
		address, stop := serve(bitsquares(t))
		addresses[i], stops[i] = address, sync.OnceFunc(stop)
		defer stops[i]()
	}
	var count counted
	count.reset(func() {})
	all, intercept := strings.Join(addresses, "+"), grpc.WithUnaryInterceptor(count.intercept)
	c := dial(t, all, intercept)
	want := positions(64)
	gametest.OK(t, c.Compute(t.Context(), want))
	ask := func() {
		t.Helper()
		b := positions(64)
		if err := c.Compute(t.Context(), b); err != nil {
			t.Error(err)
		} else if !slices.Equal(b.WDL, want.WDL) || !slices.Equal(b.Policy, want.Policy) || !slices.Equal(b.Source, want.Source) {
			t.Error("another answer")
		}
	}
	// While a call is held, the next ones go to the others.
	hold, held := make(chan struct{}), make(chan struct{})
	var first atomic.Bool
	count.reset(func() {
		if first.CompareAndSwap(false, true) {
			close(held)
			<-hold
		}
	})
	var asked sync.WaitGroup
	asked.Go(ask)
	<-held
	for range 4 {
		ask()
	}
	calls := count.reset(func() {})
	close(hold)
	asked.Wait()
	if n := calls[addresses[0]]; n != 1 || len(calls) < 2 {
		t.Errorf("calls %v: the first server had a call under way", calls)
	}

	unknown := gametest.Must(client.Dial(all, "nobody", plain, intercept))(t)
	defer unknown.Close()
	if err, calls := unknown.Compute(t.Context(), positions(1)), count.reset(func() {}); status.Code(err) != codes.NotFound || len(calls) != 1 {
		t.Errorf("an unknown model: %v after the calls %v, want NotFound after one", err, calls)
	}

	for i := range 2 { // two of three servers end
		stops[i]()
		for range 4 {
			ask()
		}
	}
	if n := count.reset(func() {})[addresses[0]]; n > 10 {
		t.Errorf("a server that has ended was asked %d times", n)
	}
	stops[2]()
	if err := c.Compute(t.Context(), positions(1)); status.Code(err) != codes.Unavailable {
		t.Errorf("no server is left: %v", err)
	}
}

// ruled is a server that answers by the rules, whatever it is asked.
type ruled struct {
	kserve.UnimplementedGRPCInferenceServiceServer
}

func (ruled) ModelInfer(context.Context, *kserve.ModelInferRequest) (*kserve.ModelInferResponse, error) {
	return &kserve.ModelInferResponse{RawOutputContents: [][]byte{make([]byte, 12), make([]byte, 28), []byte("\x06\x00\x00\x00forced")}}, nil
}

// A server that does not know raw rows must not be taken for one that does: its answers by the rules would be taken for the
// model's.
func TestServerWithoutRawRows(t *testing.T) {
	g := grpc.NewServer()
	kserve.RegisterGRPCInferenceServiceServer(g, ruled{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	gametest.OK(t, err)
	defer g.Stop()
	go func() { _ = g.Serve(l) }()
	err = dial(t, l.Addr().String()).Compute(t.Context(), positions(1))
	if err == nil || !strings.Contains(err.Error(), `row 0 is answered by source "forced"`) {
		t.Errorf("an answer by the rules: %v", err)
	}
}

// BenchmarkUnequalServers is the rate of two servers, of which the second takes four times as long for a batch, by this client
// and by gRPC's round_robin.
func BenchmarkUnequalServers(b *testing.B) {
	var addresses []string
	for _, took := range []time.Duration{8 * time.Millisecond, 32 * time.Millisecond} {
		address, stop := serve(&evaltest.Stub{Source: eval.CPU, Before: func(context.Context, *eval.Batch) error { time.Sleep(took); return nil }})
		defer stop()
		addresses = append(addresses, address)
	}
	both := manual.NewBuilderWithScheme("both")
	both.InitialState(resolver.State{Addresses: []resolver.Address{{Addr: addresses[0]}, {Addr: addresses[1]}}})
	for name, c := range map[string]*client.Client{
		"client":      dial(b, strings.Join(addresses, "+")),
		"round_robin": dial(b, "both:///", grpc.WithResolvers(both), grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"round_robin":{}}]}`)),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetParallelism(4)
			b.RunParallel(func(p *testing.PB) {
				for batch := positions(256); p.Next(); {
					if err := c.Compute(context.Background(), batch); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(256*float64(b.N)/b.Elapsed().Seconds(), "positions/s")
		})
	}
}
