package service

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/evald/evald/cmd/evald/kserve"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

// front is a load balancer for TCP: it passes each new connection to the server that is ready, and
// never moves one.
type front struct {
	net.Listener
	to atomic.Pointer[string] // the server's address
}

func newFront(t *testing.T) *front {
	f := &front{Listener: gametest.Must(net.Listen("tcp", "127.0.0.1:0"))(t)}
	ctx, closeAll := context.WithCancel(context.Background())
	var copying sync.WaitGroup
	t.Cleanup(func() {
		f.Close()
		closeAll() // also connections that both sides have forgotten
		copying.Wait()
	})
	copying.Go(func() {
		for {
			in, err := f.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", *f.to.Load())
			if err != nil {
				in.Close()
				continue
			}
			for _, pair := range [][2]net.Conn{{in, out}, {out, in}} {
				context.AfterFunc(ctx, func() { pair[0].Close() })
				copying.Go(func() {
					_, _ = io.Copy(pair[0], pair[1])
					_ = pair[0].(*net.TCPConn).CloseWrite()
				})
			}
		}
	})
	return f
}

// restClient asks without repeating anything, over one connection until an answer says that it is the last.
func restClient(address string, from net.Dialer) func() error {
	var conn net.Conn
	return func() (err error) {
		if conn == nil {
			if conn, err = from.Dial("tcp", address); err != nil {
				return err
			}
		}
		fmt.Fprintf(conn, "POST /v2/models/stub/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(aMove), aMove)
		got, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			return err
		}
		text, err := io.ReadAll(got.Body)
		if err == nil && got.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %s", got.Status, text)
		}
		if got.Close {
			conn.Close()
			conn = nil
		}
		return err
	}
}

// withoutRetries is a client whose failed calls are not repeated.
func withoutRetries(t *testing.T, address string, options []grpc.DialOption) kserve.GRPCInferenceServiceClient {
	options = append(options, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableRetry())
	conn := gametest.Must(grpc.NewClient(address, options...))(t)
	t.Cleanup(func() { conn.Close() })
	return kserve.NewGRPCInferenceServiceClient(conn)
}

// grpcClient asks over gRPC, without repeating anything.
func grpcClient(t *testing.T, address string, options ...grpc.DialOption) func() error {
	api, ask := withoutRetries(t, address, options), bitboardRequest(connect4, game.Position{})
	return func() error {
		_, err := api.ModelInfer(context.Background(), ask)
		return err
	}
}

// streamClient asks over a stream, without repeating anything, until an answer asks it to end the stream.
func streamClient(t *testing.T, address string, options ...grpc.DialOption) func() error {
	api, ask := withoutRetries(t, address, options), bitboardRequest(connect4, game.Position{})
	var stream grpc.BidiStreamingClient[kserve.ModelInferRequest, kserve.ModelStreamInferResponse]
	return func() (err error) {
		if stream == nil {
			if stream, err = api.ModelStreamInfer(context.Background()); err != nil {
				return err
			}
		}
		if err := stream.Send(ask); err != nil {
			return err
		}
		got, err := stream.Recv()
		if err == nil && got.ErrorMessage != "" {
			err = errors.New(got.ErrorMessage)
		}
		if err != nil || !got.InferResponse.Parameters[endParameter].GetBoolParam() {
			return err
		}
		old := stream
		stream = nil
		if err := old.CloseSend(); err != nil {
			return err
		}
		if _, err := old.Recv(); !errors.Is(err, io.EOF) {
			return fmt.Errorf("after the stream's end: %v", err)
		}
		return nil
	}
}

// askAll lets each client ask at most once in the time pace until stop is called, and reports each request that fails. asked counts the
// others.
func askAll(t *testing.T, clients []func() error, pace time.Duration) (asked *atomic.Int64, stop func()) {
	asked = new(atomic.Int64)
	over := make(chan struct{})
	var all sync.WaitGroup
	for i, ask := range clients {
		all.Go(func() {
			tick := time.NewTicker(max(pace, 1))
			defer tick.Stop()
			for {
				select {
				case <-over:
					return
				case <-tick.C:
				}
				if err := ask(); err != nil {
					t.Errorf("client %d, after %d requests of all: %v", i, asked.Load(), err)
					return
				}
				asked.Add(1)
			}
		})
	}
	stop = sync.OnceFunc(func() { close(over); all.Wait() })
	t.Cleanup(stop)
	return asked, stop
}

// Servers follow one another behind a balancer that passes connections on, and no request is lost: a server that is told to end
// says so on its connections, and answers what still comes over them.
func TestRestarts(t *testing.T) {
	c := testConfig(&evaltest.Stub{})
	c.DrainDelay = 100 * time.Millisecond
	rest, calls := newFront(t), newFront(t)
	begin := func() *serving {
		s := serve(t, c)
		http := s.rest[len("http://"):]
		rest.to.Store(&http)
		calls.to.Store(&s.grpc)
		return s
	}
	old := begin()
	var clients []func() error
	for range 4 {
		clients = append(clients, restClient(rest.Addr().String(), net.Dialer{}), grpcClient(t, calls.Addr().String()), streamClient(t, calls.Addr().String()))
	}
	asked, stop := askAll(t, clients, time.Millisecond)
	for range 3 {
		before := asked.Load()
		waitFor(t, "requests", func() bool { return asked.Load() > before+100 || t.Failed() })
		next := begin()
		old.end(t)
		old = next
	}
	stop()
	t.Logf("%d requests", asked.Load())
}

// A server that is added gets its share of the clients that have been there before, once their connections are old.
func TestNewServer(t *testing.T) {
	c := testConfig(&evaltest.Stub{})
	c.Limits.Age = 50 * time.Millisecond
	rest, calls, streams := newFront(t), newFront(t), newFront(t)
	old, added := serve(t, c), serve(t, c)
	asks := []func() error{restClient(rest.Addr().String(), net.Dialer{}), grpcClient(t, calls.Addr().String()), streamClient(t, streams.Addr().String())}
	for i, f := range []*front{rest, calls, streams} {
		at := func(s *serving) *string {
			if f != rest {
				return &s.grpc
			}
			return new(strings.TrimPrefix(s.rest, "http://"))
		}
		f.to.Store(at(old))
		gametest.OK(t, asks[i]())
		f.to.Store(at(added))
		answered := func() uint64 { return gametest.Must(added.models.find("stub", ""))(t).stats.now().success.count }
		before := answered()
		waitFor(t, "a request to the new server", func() bool {
			gametest.OK(t, asks[i]())
			return answered() > before
		})
	}
}
