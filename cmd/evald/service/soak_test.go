package service

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/evald/evald/cmd/evald/kserve"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

// Tests under load. EVALD_SOAK=5m makes each as long as that, with 1,000 reloads; without it they take a second or two.

// usage is what a process holds.
type usage struct{ goroutines, files int }

func now(t testing.TB) usage {
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("no /proc here")
	}
	return usage{runtime.NumGoroutine(), len(files)}
}

// returnsToRest waits until goroutines and files are back to what they were.
func returnsToRest(t *testing.T, before usage) {
	t.Helper()
	http.DefaultClient.CloseIdleConnections()
	waitFor(t, fmt.Sprintf("rest as at the start, %+v", before), func() bool {
		u := now(t)
		return u.goroutines <= before.goroutines && u.files <= before.files
	})
}

// device takes a time for each batch, as one beside the processor does.
func device(took time.Duration) *evaltest.Stub {
	return &evaltest.Stub{Source: eval.CPU, Before: func(context.Context, *eval.Batch) error {
		time.Sleep(took)
		return nil
	}}
}

// There are three times more requests than can be answered. Accepted requests keep their deadlines, and the others are refused
// at once.
func TestOverloadSoak(t *testing.T) {
	d := gametest.SoakTime(t, 1500*time.Millisecond)
	const capacity = 256 / 64 / 0.04 // requests a second, of 64 rows, in batches of 256 rows in 40 ms
	before := now(t)
	config := testConfig(device(40 * time.Millisecond))
	config.Settings.MaxQueued, config.Settings.InFlight = 4096, 1
	s := serve(t, config)
	ask := bitboardRequest(connect4, gametest.Open(gametest.Rand(1), connect4, 64)...)
	var mu sync.Mutex
	var wait sync.WaitGroup
	codesOf, sent, start := map[codes.Code]uint64{}, 0, time.Now() // what became of requests with a deadline of a second each
	for time.Since(start) < d {
		for due := int(time.Since(start).Seconds() * 3 * capacity); sent < due; sent++ {
			wait.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err := s.api.ModelInfer(ctx, ask)
				mu.Lock()
				defer mu.Unlock()
				codesOf[status.Code(err)]++
			})
		}
		time.Sleep(2 * time.Millisecond)
	}
	offered := float64(sent) / time.Since(start).Seconds()
	wait.Wait()
	// A request that ended at its deadline may never have reached the server.
	late := named(s.models.list(), "stub").stats.now().failure[1].count
	t.Logf("offered %.0f requests/s for %v: %v; %d were accepted and late", offered, d, codesOf, late)
	ok, refused := codesOf[codes.OK], codesOf[codes.ResourceExhausted]
	if other := uint64(sent) - ok - refused - codesOf[codes.DeadlineExceeded]; other > 0 {
		t.Errorf("%d were neither answered nor refused nor late", other)
	}
	if offered < 1.5*capacity {
		t.Skipf("other programs leave no time for more than %.0f requests a second", offered)
	}
	if refused == 0 || ok == 0 {
		t.Errorf("%d answered, %d refused: this was no overload", ok, refused)
	}
	if gametest.Soak() && late*100 > ok { // a short one may hit a moment when other programs have the cores
		t.Errorf("%d of those accepted were late, %d in time", late, ok)
	}
	s.end(t)
	returnsToRest(t, before)
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
		var ok, no atomic.Int64
		var wait sync.WaitGroup
		for range 16 {
			wait.Go(func() {
				for {
					r, err := s.api.ModelInfer(context.Background(), bitboardRequest(connect4, gametest.Open(gametest.Rand(1), connect4, 4)...))
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
					r, err := http.Post(s.rest+inferPath, "", strings.NewReader(aMove))
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
		if c := named(s.models.list(), "stub").stats.now(); c.success.count != uint64(ok.Load()) || c.pending != 0 {
			t.Errorf("round %d: the server has answered %d requests, the clients have %d answers; %d are under way", round, c.success.count, ok.Load(), c.pending)
		}
		answered, refused = answered+int(ok.Load()), refused+int(no.Load())
	}
	t.Logf("%d ends under load: %d requests answered, %d clients told to go", rounds, answered, refused)
	returnsToRest(t, before)
}

// A client that asks for nine tenths of its share gets it, none of its requests is refused, and the others, identified by
// tokens or addresses, share the rest. The others ask for all that they can get, half of them in bulk.
func TestSharesSoak(t *testing.T) {
	const batch, took = 64, 10 * time.Millisecond // 6400 rows a second
	for _, clients := range []int{2, 10, 100} {
		for _, byToken := range []bool{true, false} {
			if !gametest.Soak() && (clients != 10 || !byToken) {
				continue
			}
			c := testConfig(device(took))
			c.Settings.MaxRows, c.Settings.InFlight = batch, 1
			file := "health -\n"
			for i := range clients {
				file += fmt.Sprintf("inference t%d\n", i)
			}
			if byToken {
				c.Tokens = tokens(t, file)
			}
			s := serve(t, c)
			// api is the service for client i.
			api := func(i int) kserve.GRPCInferenceServiceClient {
				options := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
				if !byToken {
					from := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(i+1))}}
					options = append(options, grpc.WithContextDialer(func(ctx context.Context, to string) (net.Conn, error) {
						return from.DialContext(ctx, "tcp", to)
					}))
				}
				return kserve.NewGRPCInferenceServiceClient(s.connect(t, options...))
			}
			share := float64(batch) / took.Seconds() / float64(clients)
			ctx, cancel := context.WithCancel(t.Context())
			var wait sync.WaitGroup
			var rows [2]atomic.Int64 // of bulk and of the other greedy clients
			var refused atomic.Int64
			for i := 1; i < clients; i++ {
				n := min(4096, int(share/2)) // half a second's worth in a request
				ask := bitboardRequest(connect4, gametest.Open(gametest.Rand(1), connect4, n)...)
				bulk := i % 2
				setParameter(ask, "priority", 2+bulk)
				to := api(i)
				for range 4 {
					wait.Go(func() {
						ctx := metadata.AppendToOutgoingContext(ctx, "authorization", fmt.Sprint("Bearer t", i))
						for ctx.Err() == nil {
							if _, err := to.ModelInfer(ctx, ask); err == nil {
								rows[bulk].Add(int64(n))
							} else if ctx.Err() == nil {
								refused.Add(1)
								time.Sleep(10 * time.Millisecond)
							}
						}
					})
				}
			}
			modest, one := api(0), bitboardRequest(connect4, game.Position{})
			var mu sync.Mutex
			var latency []time.Duration
			d := gametest.SoakTime(t, time.Second)
			time.Sleep(d / 4)
			start := time.Now()
			for sent := 0; time.Since(start) < d; {
				for due := int(time.Since(start).Seconds() * 0.9 * share); sent < due; sent++ {
					wait.Go(func() {
						asked := time.Now()
						_, err := modest.ModelInfer(metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer t0"), one)
						gametest.OK(t, err)
						mu.Lock()
						defer mu.Unlock()
						latency = append(latency, time.Since(asked))
					})
				}
				time.Sleep(time.Millisecond)
			}
			mu.Lock()
			rate := float64(len(latency)) / time.Since(start).Seconds()
			mu.Unlock()
			cancel()
			wait.Wait()
			slices.Sort(latency)
			t.Logf("%d clients, tokens %v: share %.0f rows/s; asked for 0.9 of it, got %.2f, p50 %v, p99 %v; others %d normal, %d bulk rows, %d refused",
				clients, byToken, share, rate/share, latency[len(latency)/2].Round(time.Millisecond/10), latency[len(latency)*99/100].Round(time.Millisecond/10), rows[0].Load(), rows[1].Load(), refused.Load())
			if gametest.Soak() && rate < 0.85*share {
				t.Errorf("%.1f rows/s, want 0.9 of %.1f", rate, share)
			}
			s.end(t)
		}
	}
}
