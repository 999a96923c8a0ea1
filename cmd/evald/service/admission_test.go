package service

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game/gametest"
)

// Whatever is taken and given back, the sums are those of the holds, no address has more than its share, and large requests
// leave a quarter to small ones.
func TestBudget(t *testing.T) {
	const total = 64 << 20
	b := newBudget(total)
	r := rand.New(rand.NewPCG(1, 2))
	var holds []*request
	for _, from := range []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"} {
		conn := connectionFrom(from, b)
		for range 20 {
			holds = append(holds, &request{conn: conn})
		}
	}
	refused := 0
	for range 20_000 {
		h := holds[r.IntN(len(holds))]
		switch r.IntN(4) {
		case 0:
			h.end()
		case 1:
			h.give(int(h.bytes / 2))
		default:
			n := 1 + r.IntN(1<<uint(r.IntN(24)))
			used, large := b.inUse(), h.bytes+int64(n) > smallRequest
			err := h.take(n)
			if err != nil {
				refused++
				if status.Code(err) != codes.ResourceExhausted || b.inUse() != used {
					t.Fatalf("%v, and %d bytes in use instead of %d", err, b.inUse(), used)
				}
			} else if large && (b.inUse() > total/4*3 || b.by[h.conn.from] > total/2) {
				t.Fatalf("a large request has too much: %d bytes in use, %v", b.inUse(), b.by)
			}
		}
		sum, by := int64(0), map[string]int64{}
		for _, h := range holds {
			sum += h.bytes
			by[h.conn.from] += h.bytes
		}
		if sum != b.inUse() || sum > total {
			t.Fatalf("%d bytes in use, the holds have %d", b.inUse(), sum)
		}
		for from, n := range by {
			if n > total/4*3 || n != b.by[from] {
				t.Fatalf("%s has %d bytes, %d are counted", from, n, b.by[from])
			}
		}
	}
	for _, h := range holds {
		h.end()
	}
	if b.inUse() != 0 || len(b.by) != 0 || refused == 0 {
		t.Errorf("at the end %d bytes of %v; %d were refused", b.inUse(), b.by, refused)
	}
	if !b.cooled() || b.cooled() {
		t.Error("a rush that is over is not told of once")
	}
}

func TestAddressOf(t *testing.T) {
	for remote, want := range map[string]string{
		"10.1.2.3:99": "10.1.2.3", "[::ffff:10.1.2.3]:99": "10.1.2.3", "[2001:db8:1:2:3:4:5:6]:1": "2001:db8:1:2::",
		"[fe80::1%eth0]:7": "fe80::", "bufconn": "bufconn", "@": "@", "name:80": "name",
	} {
		if got := addressOf(remote); got != want {
			t.Errorf("%s: %s, want %s", remote, got, want)
		}
	}
}

// slotRequest is a request from an address that is known or not.
func slotRequest(from string, known bool, cancel func()) *request {
	r := &request{conn: connectionFrom(from, newBudget(1<<20)), hold: hold{slot: slot{cancel: cancel}}}
	if known {
		r.conn.know()
	}
	return r
}

// Many ask for few slots: no more are held than there are, each gets one in the end or is told that its time is over, and
// none is lost.
func TestSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slots{n: 4}
		var held, most, refused atomic.Int64
		var wait sync.WaitGroup
		for i := range 200 {
			wait.Go(func() {
				r := rand.New(rand.NewPCG(uint64(i), 1))
				for range 20 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+r.IntN(20))*time.Millisecond)
					w := slotRequest([]string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}[i%3], i%4 == 0, cancel)
					if err := s.acquire(ctx, w); err != nil {
						refused.Add(1)
						if status.Code(err) != codes.ResourceExhausted {
							t.Error(err)
						}
					} else {
						n := held.Add(1)
						for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
						}
						time.Sleep(time.Millisecond) // of the bubble's clock
						held.Add(-1)
						s.release(w)
					}
					cancel()
				}
			})
		}
		wait.Wait()
		if most.Load() != 4 || refused.Load() == 0 || len(s.held) != 0 || len(s.waiting) != 0 {
			t.Errorf("at most %d held, %d refused, at the end %d held, %d waiting", most.Load(), refused.Load(), len(s.held), len(s.waiting))
		}
	})
}

// Unknown clients have half of the slots, and an address too; a message that does not come is ended when others wait.
func TestSlotsOfUnknownClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slots{n: 4}
		ended := make(chan struct{})
		acquire := func(from string, known bool, cancel func()) *request {
			t.Helper()
			w := slotRequest(from, known, cancel)
			gametest.OK(t, s.acquire(t.Context(), w))
			return w
		}
		first := acquire("10.0.0.1", false, func() { close(ended) })
		acquire("10.0.0.1", false, func() {})
		acquire("10.0.0.2", true, func() {}) // as fast as ever
		got := make(chan *request)
		go func() { got <- acquire("10.0.0.1", false, func() {}) }()
		<-ended
		if err := first.notRead(context.Canceled); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("the request that lost its slot has the error %v", err)
		}
		s.release(first)
		<-got
	})
}

// A client that was refused and comes back too soon waits for its next refusal, unless it leaves or the server ends.
func TestSlowDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{}
		s.taking, s.endTake = context.WithCancel(t.Context())
		c, other := connectionFrom("10.0.0.1", newBudget(1<<20)), connectionFrom("10.0.0.1", newBudget(1<<20))
		gone, leave := context.WithCancel(t.Context())
		leave()
		for i, x := range []struct {
			conn  *connection
			ctx   context.Context
			after time.Duration
			want  time.Duration
		}{
			{c, t.Context(), 0, 0},
			{c, t.Context(), 0, time.Second / 4},
			{other, t.Context(), 0, 0},
			{c, t.Context(), time.Second / 2, time.Second / 4},
			{c, gone, 0, 0},
			{c, t.Context(), retryAfter * time.Second, 0},
			{c, t.Context(), 0, time.Second / 4},
		} {
			time.Sleep(x.after)
			start := time.Now()
			if s.slowDown(x.ctx, x.conn); time.Since(start) != x.want {
				t.Errorf("refusal %d waited %v, want %v", i, time.Since(start), x.want)
			}
		}
		s.endTake()
		start := time.Now()
		if s.slowDown(t.Context(), c); time.Since(start) != 0 {
			t.Errorf("at the server's end a refusal waited %v", time.Since(start))
		}
	})
}

// A request takes as much memory for a board that its rows name as for one that it names itself.
func TestMemoryOfRows(t *testing.T) {
	most := func(board, row string) int64 {
		s := serve(t, testConfig(&evaltest.Stub{Source: eval.CPU}))
		rows := strings.Repeat(`,"`+row+`"`, 4096)[1:]
		body := `{"parameters":{"board":"` + board + `"},"inputs":[{"name":"moves","datatype":"BYTES","shape":[4096],"data":[` + rows + `]}],"outputs":[{"name":"policy"}]}`
		if reply, text := s.post(t, inferPath, nil, []byte(body)); reply.StatusCode != http.StatusOK {
			t.Fatalf("%s: %.200s", reply.Status, text)
		}
		s.end(t)
		s.memory.mu.Lock() // connections may still give back what they had
		defer s.memory.mu.Unlock()
		return s.memory.high
	}
	const row = "1x127x2free:60"
	if named, byRows := most("1x127x2free", row), most("1x1x1", row); byRows != named {
		t.Errorf("%d bytes were taken for a board that the rows name, %d if the request names it too", byRows, named)
	}
}

// Models take their memory from what requests may have. One that does not fit is refused before it is loaded, by its sizes, and
// what is given up is given back.
func TestMemoryOfModels(t *testing.T) {
	made, c := mortalConfig(func() {})
	c.Limits.Body = 1 << 20
	c.Limits.Memory = 64 << 20
	sizes := map[string]int64{"stub": 20 << 20, "large": 60 << 20, "other": 10 << 20, "missing": 5 << 20}
	c.Bytes = func(m Model) (int64, error) { return sizes[m.Name], nil }
	s := gametest.Must(New(c))(t)
	defer s.Close()
	left := func(want int64) {
		t.Helper()
		waitFor(t, fmt.Sprint(want, " MiB for requests"), func() bool { return s.memory.limit() == want<<20 })
	}
	left(44)
	err := s.load("large")
	if want := `model "large": takes 60 MiB of memory, and as much again while it is read; 44 MiB are left, of which requests use 0 and keep 8`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
	if err := s.load("missing"); err == nil {
		t.Error("a model that is not there is loaded")
	}
	made.check(t, "after refusals", 0)
	left(44)
	gametest.OK(t, s.load("other"))
	left(34)
	s.memory.force("10.0.0.1", 30<<20) // by requests
	if err := s.load("other"); err == nil || !strings.Contains(err.Error(), "requests use 30 and keep 8 (the one that is served keeps its 10 MiB until then: ") {
		t.Errorf("a load while requests have the memory: %v", err)
	}
	s.memory.force("10.0.0.1", -30<<20)
	gametest.OK(t, s.load("other")) // the one before ends
	left(34)
	gametest.OK(t, s.unload("other"))
	left(44)
	if _, err := New(func() Config { c.Limits.Memory = 32 << 20; return c }()); err == nil || !strings.Contains(err.Error(), "20 MiB of memory") {
		t.Errorf("a server whose model does not fit: %v", err)
	}
}

// Answers to GET that their clients do not read are counted, and one for which there is no memory is refused.
func TestMemoryOfMessages(t *testing.T) {
	s := serve(t, testConfig(&evaltest.Stub{Source: eval.CPU}))
	_, text := s.get(t, "/v2/models/stub/config")
	r := &request{conn: connectionFrom("127.0.0.1", s.memory)}
	unread := make(chan int64)
	w := &slowWriter{httptest.NewRecorder(), func() { unread <- r.bytes }}
	go s.handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v2/models/stub/config", nil).WithContext(r.context(t.Context())))
	if n := <-unread; n < int64(len(text)) || n > 2*int64(len(text)) {
		t.Errorf("%d bytes are counted while an answer of %d bytes is written", n, len(text))
	}
	s.memory.force("10.0.0.1", int(s.memory.limit()))
	if status, text := s.get(t, "/v2/models/stub/config"); status != http.StatusTooManyRequests {
		t.Errorf("without memory: %d %s", status, text)
	}
	s.memory.force("10.0.0.1", -int(s.memory.limit()))
}

// slowWriter calls before before each write.
type slowWriter struct {
	*httptest.ResponseRecorder
	before func()
}

func (w *slowWriter) Write(p []byte) (int, error) {
	w.before()
	return w.ResponseRecorder.Write(p)
}

// A gRPC request checks memory and the queue's room twice each, before and after its message is read, and one over REST checks room twice,
// before its values are read and when its rows join the queue.
func TestChecks(t *testing.T) {
	s := serve(t, testConfig(&evaltest.Stub{Source: eval.CPU}))
	checks := func() (memory int, room uint64) {
		s.memory.mu.Lock()
		defer s.memory.mu.Unlock()
		return s.memory.checks, named(s.models.list(), "stub").batcher.Stats().Checked
	}
	s.answer(t, bitboardRequest(connect4, gametest.Open(gametest.Rand(1), connect4, 256)...))
	if memory, room := checks(); memory != 2 || room != 2 {
		t.Errorf("a gRPC request checked memory %d times and room %d times, want 2 and 2", memory, room)
	}
	_, before := checks()
	if reply, text := s.post(t, inferPath, nil, []byte(aMove)); reply.StatusCode != http.StatusOK {
		t.Errorf("REST: %d %s", reply.StatusCode, text)
	}
	if _, room := checks(); room != before+2 {
		t.Errorf("a REST request checked room %d times, want 2", room-before)
	}
}

// The page's places share the memory of the page, not that of requests.
func TestMemoryOfPage(t *testing.T) {
	c := testConfig(&evaltest.Stub{Source: eval.CPU})
	c.Limits.Page = 100 << 20
	s := gametest.Must(New(c))(t)
	defer s.Close()
	if p := s.Places(); p.Bytes != c.Limits.Page || s.memory.limit() != c.Limits.Memory {
		t.Errorf("a place has %d bytes, requests have %d; want all %d of the page, and %d", p.Bytes, s.memory.limit(), c.Limits.Page, c.Limits.Memory)
	}
	c.Limits.Page = -1
	if _, err := New(c); err == nil || !strings.Contains(err.Error(), "memory of the page") {
		t.Errorf("negative memory of the page: %v", err)
	}
}
