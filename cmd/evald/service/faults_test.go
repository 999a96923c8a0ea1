package service

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/evald/evald/cmd/evald/kserve"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

// gate is a stub that holds batches until it is opened.
func gate() (stub *evaltest.Stub, entered chan struct{}, open func()) {
	held := make(chan struct{})
	entered = make(chan struct{}, 1024)
	stub = &evaltest.Stub{Source: eval.CPU, Before: func(context.Context, *eval.Batch) error {
		entered <- struct{}{}
		<-held
		return nil
	}}
	return stub, entered, sync.OnceFunc(func() { close(held) })
}

// What cannot wait is refused at once, with a code that says to come back, and the others are answered, in one batch.
func TestOverload(t *testing.T) {
	stub, entered, open := gate()
	defer open()
	c := testConfig(stub)
	c.Settings.MaxQueued, c.Settings.InFlight, c.Limits.Requests = 24, 1, 4
	s := serve(t, c)
	results := make(chan error, 8)
	ask := func(rows int) {
		go func() {
			_, err := s.api.ModelInfer(t.Context(), bitboardRequest(connect4, gametest.Open(gametest.Rand(1), connect4, rows)...))
			results <- err
		}()
	}
	ask(1)
	<-entered // one is under way
	ask(6)
	queued := func(rows int) {
		t.Helper()
		waitFor(t, fmt.Sprint(rows, " rows to wait"), func() bool { return named(s.models.list(), "stub").batcher.Stats().Queued == rows })
	}
	queued(6)
	ask(4) // would make them 10, more than half of the 18 places for requests of their priority
	if err := <-results; status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "6 of them yours, of at most 18") {
		t.Errorf("over the queue: %v", err)
	}
	reply, text := s.post(t, inferPath, nil, []byte(`{"inputs":[{"name":"moves","datatype":"BYTES","shape":[4],"data":["4","44","4","44"]}]}`))
	if reply.StatusCode != http.StatusTooManyRequests || reply.Header.Get("Retry-After") != "1" {
		t.Errorf("over the queue: %d %s, Retry-After %q", reply.StatusCode, text, reply.Header.Get("Retry-After"))
	}
	// Over REST the values are not even read then.
	reply, text = s.post(t, inferPath, nil, []byte(`{"parameters":{},"inputs":[{"name":"moves","datatype":"BYTES","shape":[4],"data":[what comes here is not read`))
	if reply.StatusCode != http.StatusTooManyRequests {
		t.Errorf("over the queue, by the shape: %d %s", reply.StatusCode, text)
	}
	ask(1)
	queued(7)
	// It is not so if a parameter that follows may make room: the highest priority has 24 places.
	const late = `{"inputs":[{"name":"moves","datatype":"BYTES","shape":[4],"data":["4","44","4","44"]}],"parameters":{"priority":1}}`
	go func() {
		r, err := http.Post(s.rest+inferPath, "", strings.NewReader(late))
		if err == nil {
			r.Body.Close()
			err = map[bool]error{false: errors.New(r.Status)}[r.StatusCode == http.StatusOK]
		}
		results <- err
	}()
	queued(11)
	if _, err := s.api.ModelInfer(t.Context(), bitboardRequest(connect4, game.Position{})); status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "4 requests are under way") {
		t.Errorf("over the requests: %v", err)
	}
	open()
	for range 4 {
		if err := <-results; err != nil {
			t.Errorf("what was accepted: %v", err)
		}
	}
	counts := named(s.models.list(), "stub").stats.now()
	if _, batches, rows := counts.batchSizes(); batches != 2 || rows != 12 {
		t.Errorf("%d rows in %d batches: want 1 row in the first, and the 11 that waited together", rows, batches)
	}
}

// Rows that the cache has need no room: they are answered while the queue is full, over both transports.
func TestCachedRowsNeedNoRoom(t *testing.T) {
	held, entered := make(chan struct{}), make(chan struct{}, 2)
	stub := &evaltest.Stub{Source: eval.CPU, Before: func(_ context.Context, b *eval.Batch) error {
		if len(b.Pos) > 2 {
			entered <- struct{}{}
			<-held
		}
		return nil
	}}
	c := testConfig(stub)
	c.Settings.MaxQueued, c.Settings.InFlight, c.Settings.Cache = 24, 1, 100
	s := serve(t, c)
	cached := bitboardRequest(connect4, after(t, "4"), after(t, "44"))
	s.answer(t, cached)
	var wait sync.WaitGroup
	defer wait.Wait()
	defer close(held)
	for i := range 2 {
		wait.Go(func() {
			if _, err := s.api.ModelInfer(t.Context(), bitboardRequest(connect4, gametest.Open(gametest.Rand(uint64(i)), connect4, 9)...)); err != nil {
				t.Error(err)
			}
		})
		if i == 0 {
			<-entered
		}
	}
	waitFor(t, "rows to wait", func() bool { return named(s.models.list(), "stub").batcher.Stats().Queued > 5 })
	if got := s.answer(t, cached); !strings.Contains(string(got[sourceOutput]), "cache") {
		t.Errorf("sources %q", got[sourceOutput])
	}
	body := `{"inputs":[{"name":"moves","datatype":"BYTES","shape":[6],"data":["4","44","4","44","4","44"]}]}`
	if reply, text := s.post(t, inferPath, nil, []byte(body)); reply.StatusCode != http.StatusOK {
		t.Errorf("REST: %d %s", reply.StatusCode, text)
	}
}

// waitFor polls for what is about to happen in another goroutine.
func waitFor(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// When the server is told to end, it says so, answers what it has taken, and takes no more.
func TestDrain(t *testing.T) {
	stub, entered, open := gate()
	defer open()
	c := testConfig(stub)
	c.Settings.InFlight = 1
	s := serve(t, c)
	stream, err := s.api.ModelStreamInfer(t.Context())
	gametest.OK(t, err)
	pos := gametest.Open(gametest.Rand(3), connect4, 4)
	gametest.OK(t, stream.Send(bitboardRequest(connect4, pos...)))
	<-entered
	const n = 20
	results := make(chan error, n)
	for range n {
		go func() {
			got, err := s.api.ModelInfer(t.Context(), bitboardRequest(connect4, pos...))
			if err == nil && len(got.RawOutputContents[0]) != 12*len(pos) {
				err = fmt.Errorf("%d bytes of wdl", len(got.RawOutputContents[0]))
			}
			results <- err
		}()
	}
	s.underWay(t, n+1)
	s.stop()
	waitFor(t, "the end of readiness", func() bool { return !s.isReady() })
	waitFor(t, "refusals", func() bool {
		ctx, stop := context.WithTimeout(t.Context(), time.Second) // one that is still taken would wait for the gate
		defer stop()
		_, err := s.api.ModelInfer(ctx, bitboardRequest(connect4, pos...))
		return status.Code(err) == codes.Unavailable
	})
	select {
	case err := <-s.ended:
		t.Fatalf("the server ended with %v while requests were under way", err)
	default:
	}
	open()
	for range n {
		if err := <-results; err != nil {
			t.Errorf("a request that was taken: %v", err)
		}
	}
	if got, err := stream.Recv(); err != nil || got.ErrorMessage != "" || len(got.InferResponse.RawOutputContents[0]) != 48 {
		t.Errorf("the stream's request: %v, %v", got, err)
	}
	if _, err := stream.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the stream's end: %v, want Unavailable", err)
	}
	s.end(t)
}

// Requests that outlast DrainTime are given up, and the end says so.
func TestDrainHasAnEnd(t *testing.T) {
	stub, entered, open := gate()
	defer open()
	c := testConfig(stub)
	c.DrainTime = 50 * time.Millisecond
	s := serve(t, c)
	result := make(chan error, 1)
	go func() {
		_, err := s.api.ModelInfer(t.Context(), bitboardRequest(connect4, game.Position{}))
		result <- err
	}()
	<-entered
	s.stop()
	if err := <-s.ended; err == nil || !strings.Contains(err.Error(), "within 50ms") {
		t.Errorf("%v, want an error", err)
	}
	if err := <-result; status.Code(err) != codes.Unavailable && status.Code(err) != codes.Canceled {
		t.Errorf("the request: %v", err)
	}
	s.ended <- nil
}

func floatAt(raw []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(raw)) }

// A changed file is loaded; one that cannot be loaded leaves the old model in place.
func TestWatch(t *testing.T) {
	var state atomic.Int64
	loads := make(chan int64, 10)
	c := testConfig(nil)
	c.Changed = func(Model) (any, error) { return state.Load(), nil }
	c.Load = func(Model) (Loaded, error) {
		n := state.Load()
		loads <- n
		if n == 1 {
			return Loaded{}, fmt.Errorf("torn")
		}
		return Loaded{Backend: &evaltest.Stub{Source: eval.CPU}, Version: fmt.Sprint(n)}, nil
	}
	c.Watch = time.Millisecond
	s := serve(t, c)
	for n := range int64(3) {
		state.Store(n)
		if got := <-loads; got != n {
			t.Errorf("state %d was loaded, want %d", got, n)
		}
		if n == 1 {
			if _, err := s.models.find("stub", "0"); err != nil {
				t.Errorf("after a load that failed: %v", err)
			}
		}
	}
	waitFor(t, "version 2", func() bool { _, err := s.models.find("stub", "2"); return err == nil })
}

// Clients that are slow, silent, gone or torn cost their own connection alone.
func TestFaultyClients(t *testing.T) {
	c := testConfig(&evaltest.Stub{Source: eval.CPU})
	c.Limits.Headers, c.Limits.Receive, c.Limits.Timeout = 100*time.Millisecond, 100*time.Millisecond, 100*time.Millisecond
	s := serve(t, c)
	check := func(after string) {
		t.Helper()
		if _, err := s.api.ModelInfer(t.Context(), bitboardRequest(connect4, game.Position{})); err != nil {
			t.Errorf("after %s: %v", after, err)
		}
	}
	restAddress := strings.TrimPrefix(s.rest, "http://")
	const infer = "POST " + inferPath + " HTTP/1.1\r\nHost: x\r\n"
	for name, f := range map[string]struct{ address, text string }{
		"silence, REST":           {restAddress, ""},
		"half a header":           {restAddress, "POST /v2/mod"},
		"half a body":             {restAddress, infer + "Content-Length: 100\r\n\r\n{\"inputs\":"},
		"a body that never comes": {restAddress, infer + "Content-Length: 8000000\r\n\r\n"},
		"garbage, REST":           {restAddress, "\x16\x03\x01\x00\xff garbage\r\n\r\n"},
		"a huge length":           {restAddress, infer + "Content-Length: 99999999999999\r\n\r\nx"},
		"a negative chunk":        {restAddress, infer + "Transfer-Encoding: chunked\r\n\r\n-1\r\n"},
		"silence, gRPC":           {s.grpc, ""},
		"garbage, gRPC":           {s.grpc, "GET / HTTP/1.0\r\n\r\n"},
		"preface alone":           {s.grpc, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"},
		"half a frame":            {s.grpc, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x40\x00\x01"},
	} {
		conn, err := net.Dial("tcp", f.address)
		gametest.OK(t, err)
		gametest.Must(io.WriteString(conn, f.text))(t)
		check(name)
		// The server ends the connection by itself, but for an HTTP/2 one that is merely quiet.
		if name != "preface alone" && name != "half a frame" {
			_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
			if _, err := io.Copy(io.Discard, conn); err != nil && !strings.Contains(err.Error(), "reset") {
				t.Errorf("%s: %v, want the connection's end", name, err)
			}
		}
		conn.Close()
	}
	// A call whose message does not come ends by itself.
	silent, err := s.conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true}, kserve.GRPCInferenceService_ModelInfer_FullMethodName)
	gametest.OK(t, err)
	if err := silent.RecvMsg(new(kserve.ModelInferResponse)); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("a call without a message: %v, want DeadlineExceeded", err)
	}
	for range 50 {
		ctx, cancel := context.WithCancel(t.Context())
		go cancel()
		if _, err := s.api.ModelInfer(ctx, bitboardRequest(connect4, make([]game.Position, 1000)...)); err != nil && status.Code(err) != codes.Canceled {
			t.Errorf("cancelled: %v", err)
		}
	}
	check("cancelled calls")
	s.underWay(t, 0)
}

// An answer may take longer than a request may take to come.
func TestSlowAnswer(t *testing.T) {
	c := testConfig(device(800 * time.Millisecond))
	c.Limits.Headers, c.Limits.Receive = 400*time.Millisecond, 400*time.Millisecond // long enough for a request on a busy machine
	s := serve(t, c)
	for range 2 { // the second on the same connection
		if reply, text := s.post(t, inferPath, nil, []byte(aMove)); reply.StatusCode != http.StatusOK {
			t.Errorf("REST: %d %s", reply.StatusCode, text)
		}
	}
	s.answer(t, bitboardRequest(connect4, game.Position{}))
}

// Little that becomes much is refused, over both transports.
func TestDecompression(t *testing.T) {
	c := testConfig(&evaltest.Stub{Source: eval.CPU})
	c.Limits.Body = 64 << 10
	s := serve(t, c)
	small := []byte(aMove)
	bomb := append(slices.Clone(small), bytes.Repeat([]byte(" "), 4<<20)...)
	for encoding, compress := range map[string]func(io.Writer) io.WriteCloser{
		"gzip":    func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
		"deflate": func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) },
	} {
		for code, body := range map[int][]byte{200: small, 413: bomb} {
			var b bytes.Buffer
			w := compress(&b)
			gametest.Must(w.Write(body))(t)
			w.Close()
			if reply, text := s.post(t, inferPath, map[string]string{"Content-Encoding": encoding}, b.Bytes()); reply.StatusCode != code {
				t.Errorf("%s: %d bytes of %d: %d %s, want %d", encoding, b.Len(), len(body), reply.StatusCode, text, code)
			}
		}
	}
	for _, encoding := range []string{"gzip", "deflate"} {
		zipped := grpc.UseCompressor(encoding)
		if _, err := s.api.ModelInfer(t.Context(), bitboardRequest(connect4, make([]game.Position, 100)...), zipped); err != nil {
			t.Errorf("%s: %v", encoding, err)
		}
		_, err := s.api.ModelInfer(t.Context(), rawRequest(bitboardsInput, uint64Type, make([]byte, 4<<20), 1, 2), zipped)
		if status.Code(err) != codes.ResourceExhausted {
			t.Errorf("4 MiB of zeros over gRPC, %s: %v, want ResourceExhausted", encoding, err)
		}
	}
}
