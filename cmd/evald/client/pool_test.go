package client_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/evald/evald/cmd/evald/client"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

// counted counts the calls to each address.
type counted struct {
	mu    sync.Mutex
	calls map[string]int
	begun func(address string)
}

func (c *counted) intercept(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	c.mu.Lock()
	c.calls[conn.Target()]++
	begun := c.begun
	c.mu.Unlock()
	if begun != nil {
		begun(conn.Target())
	}
	return call(ctx, method, req, reply, conn, opts...)
}

// of is how many calls an address had.
func (c *counted) of(address string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[address]
}

// A pool answers as one server does while one is left, and asks the one with the fewest rows under way. It repeats nothing that
// would fail again.
func TestPool(t *testing.T) {
	addresses, stops := make([]string, 3), make([]func(), 3)
	for i := range addresses {
		var stop func()
		addresses[i], stop = serve()
		stops[i] = sync.OnceFunc(stop)
		defer stops[i]()
	}
	count := &counted{calls: map[string]int{}}
	options := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithUnaryInterceptor(count.intercept)}
	pool, err := client.DialPool(addresses, "bitsquares", options...)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	board := game.MustBoard(game.Connect4)
	batch := func(n int) *eval.Batch {
		b := eval.NewBatch(board, n)
		copy(b.Pos, gametest.Positions(gametest.Rand(5), board, n, true))
		return b
	}
	want := batch(64)
	if err := pool.Compute(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	ask := func() {
		t.Helper()
		b := batch(64)
		if err := pool.Compute(t.Context(), b); err != nil {
			t.Error(err)
		} else if !slices.Equal(b.WDL, want.WDL) || !slices.Equal(b.Policy, want.Policy) || !slices.Equal(b.Source, want.Source) {
			t.Error("another answer")
		}
	}
	// While a call is held, the next ones go to the others.
	hold, held := make(chan struct{}), make(chan struct{})
	var first atomic.Bool
	count.mu.Lock()
	clear(count.calls)
	count.begun = func(string) {
		if first.CompareAndSwap(false, true) {
			close(held)
			<-hold
		}
	}
	count.mu.Unlock()
	var all sync.WaitGroup
	all.Go(ask)
	<-held
	for range 4 {
		ask()
	}
	count.mu.Lock()
	busy := 0
	for _, n := range count.calls {
		if n == 1 {
			busy++
		}
	}
	if busy == 0 || len(count.calls) < 2 {
		t.Errorf("calls %v: one server had a call under way", count.calls)
	}
	count.mu.Unlock()
	close(hold)
	all.Wait()

	for i := range 2 { // two of three servers end
		stops[i]()
		for range 4 {
			ask()
		}
	}
	if n := count.of(addresses[0]); n > 10 {
		t.Errorf("a server that has ended was asked %d times", n)
	}
	stops[2]()
	if err := pool.Compute(t.Context(), batch(1)); status.Code(err) != codes.Unavailable {
		t.Errorf("no server is left: %v", err)
	}
	if _, err := client.DialPool(nil, "bitsquares", options...); err == nil {
		t.Error("a pool of no servers")
	}
}

// What would fail at every server is asked once.
func TestPoolRefused(t *testing.T) {
	a, stopA := serve()
	defer stopA()
	b, stopB := serve()
	defer stopB()
	count := &counted{calls: map[string]int{}}
	pool, err := client.DialPool([]string{a, b}, "nobody", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithUnaryInterceptor(count.intercept))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	err = pool.Compute(t.Context(), eval.NewBatch(game.MustBoard(game.Connect4), 1))
	if status.Code(err) != codes.NotFound || count.of(a)+count.of(b) != 1 {
		t.Errorf("%v after %d calls", err, count.of(a)+count.of(b))
	}
}
