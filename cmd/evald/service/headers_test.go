package service

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/evald/evald/cmd/evald/kserve"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

// Long headers end their own call, and other calls of the connection are answered. The call is
// counted and logged.
func TestLongHeaders(t *testing.T) {
	gate, begun := make(chan struct{}), make(chan struct{}, 1)
	c := testConfig(&evaltest.Stub{Source: eval.CPU, Before: func(context.Context, *eval.Batch) error {
		begun <- struct{}{}
		<-gate
		return nil
	}})
	log := new(safeBuffer)
	c.Log = slog.New(slog.NewTextHandler(log, nil))
	s := serve(t, c)
	innocent := make(chan error, 1)
	go func() {
		_, err := s.api.ModelInfer(t.Context(), bitboardRequest(connect4, game.Position{}))
		innocent <- err
	}()
	<-begun
	refused := uint64(0)
	for _, x := range []struct {
		name string
		each int // bytes of each field
		n    int
		want codes.Code
	}{
		{"a usual call", 100, 5, codes.OK},
		{"a token", 20_000, 1, codes.OK},
		{"as proxies allow", 60_000, 1, codes.OK},
		{"many fields", 100, 400, codes.OK},
		{"more than proxies allow", 70_000, 1, codes.ResourceExhausted},
		{"too many fields", 100, 700, codes.ResourceExhausted},
		{"far more", 300_000, 1, codes.ResourceExhausted},
		{"a million bytes", 100_000, 10, codes.ResourceExhausted},
	} {
		ctx := t.Context()
		for range x.n {
			ctx = metadata.AppendToOutgoingContext(ctx, "x-of-the-user", strings.Repeat("y", x.each))
		}
		_, err := s.api.ServerMetadata(ctx, &kserve.ServerMetadataRequest{})
		if status.Code(err) != x.want {
			t.Errorf("%s: %v, want %v", x.name, err, x.want)
		}
		if x.want != codes.OK {
			refused++
		}
		if n := s.longHeaders.Load(); n != refused {
			t.Errorf("%s: %d calls counted, want %d", x.name, n, refused)
		}
	}
	close(gate)
	if err := <-innocent; err != nil {
		t.Errorf("another call of the connection: %v", err)
	}
	if n := strings.Count(log.String(), `why="the headers have `); n != int(refused) {
		t.Errorf("%d of %d in the log:\n%s", n, refused, log)
	}
	waitFor(t, "no memory in use", func() bool { return s.memory.inUse() == 0 })
	if n := s.closedHeaders.Load(); n != 0 {
		t.Errorf("%d connections were closed", n)
	}
}

// frames is a connection of HTTP/2, with the encoded headers of a call and a long field.
func frames(t *testing.T, s *serving) (conn net.Conn, framer *http2.Framer, call, field []byte) {
	t.Helper()
	conn = gametest.Must(net.Dial("tcp", s.grpc))(t)
	t.Cleanup(func() { conn.Close() })
	gametest.Must(io.WriteString(conn, preface))(t)
	framer = http2.NewFramer(conn, nil)
	gametest.OK(t, framer.WriteSettings())
	var b bytes.Buffer
	h := hpack.NewEncoder(&b)
	h.SetMaxDynamicTableSizeLimit(0)
	for _, f := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", kserve.GRPCInferenceService_ServerLive_FullMethodName}, {":authority", "x"}, {"content-type", "application/grpc"}} {
		gametest.OK(t, h.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}))
	}
	call = bytes.Clone(b.Bytes())
	b.Reset()
	gametest.OK(t, h.WriteField(hpack.HeaderField{Name: "long", Value: strings.Repeat("~", 16_000)}))
	return conn, framer, call, b.Bytes()
}

// Headers that take more memory than a connection may have end it, and so do headers that never
// end; both are counted and logged. Their memory is reserved while they arrive, and returned.
func TestEndlessHeaders(t *testing.T) {
	log := new(safeBuffer)
	c := testConfig(&evaltest.Stub{Source: eval.CPU})
	c.Limits.Headers = 300e6
	c.Log = slog.New(slog.NewTextHandler(log, nil))
	s := serve(t, c)
	closes := uint64(0)
	for _, x := range []struct {
		name, says string
		n          int // further frames
		leaves     bool
	}{{"too long", "more than 1048576 bytes", 100, false}, {"never end", "longer than 300ms", 3, false}, {"end with their client", "", 1, true}} {
		conn, framer, call, field := frames(t, s)
		gametest.OK(t, framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: call}))
		if x.leaves {
			waitFor(t, "memory in use", func() bool { return s.memory.inUse() == readingHeadersCost })
			conn.Close()
		} else {
			for range x.n {
				if framer.WriteContinuation(1, false, field) != nil {
					break // the server has closed it
				}
			}
			_, _ = io.Copy(io.Discard, conn)
			closes++
		}
		waitFor(t, "no memory in use", func() bool { return s.memory.inUse() == 0 })
		if n := s.closedHeaders.Load(); n != closes || !strings.Contains(log.String(), x.says) {
			t.Errorf("%s: %d connections counted, want %d; log:\n%s", x.name, n, closes, log)
		}
	}
}

// Over HTTP long headers are answered by 431; HTTP/2 answers the other requests of the connection.
func TestLongHeadersHTTP(t *testing.T) {
	dir := t.TempDir()
	cert, key := selfSigned(t, dir, "server")
	text := func(path string) []byte { return gametest.Must(os.ReadFile(path))(t) }
	for name, encrypted := range map[string]bool{"HTTP/1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			c := testConfig(&evaltest.Stub{Source: eval.CPU})
			log := new(safeBuffer)
			c.Log = slog.New(slog.NewTextHandler(log, nil))
			if encrypted {
				c.Access = gametest.Must(ReadTLS(text(cert), text(key), nil))(t)
			}
			s := serve(t, c)
			dials := 0
			web := &http.Client{Transport: &http.Transport{
				TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true,
				DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
					dials++
					return new(net.Dialer).DialContext(ctx, network, address)
				},
			}}
			defer web.CloseIdleConnections()
			for size, want := range map[int]int{100: 200, 20_000: 200, 60_000: 200, 70_000: 431, 120_000: 431} {
				r := gametest.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, s.rest+"/v2", nil))(t)
				r.Header.Set("X-Of-The-User", strings.Repeat("y", size))
				reply := gametest.Must(web.Do(r))(t)
				body := gametest.Must(io.ReadAll(reply.Body))(t)
				reply.Body.Close()
				if reply.StatusCode != want || want == 431 && !strings.Contains(string(body), "must be at most 65536") {
					t.Errorf("%d bytes: %s %s, want %d", size, reply.Status, body, want)
				}
			}
			if n := s.longHeaders.Load(); n != 2 || strings.Count(log.String(), "status=431") != 2 || dials != 1 {
				t.Errorf("%d calls counted, %d connections; log:\n%s", n, dials, log)
			}
			waitFor(t, "no memory in use", func() bool { return s.memory.inUse() == 0 })
		})
	}
}

// safeBuffer is a log that can be read while it is written.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
