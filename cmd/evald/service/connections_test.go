package service

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
	"time"
)

// addressed is a connection from an address that notes that it was closed.
type addressed struct {
	net.Conn
	from   string
	closed bool
}

func (a *addressed) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(a.from), Port: 1} }
func (a *addressed) Close() error         { a.closed = true; return nil }

// connectionFrom is a counted connection from an address.
func connectionFrom(from string, b *budget) *connection {
	return newConnections("test", 8, 0, b).enter(&addressed{from: from}, time.Now())
}

// At no time are there more connections than the maximum. No busy connection is evicted, and no known client's while unknown
// clients have idle ones.
func TestConnections(t *testing.T) {
	const most = 40
	r := rand.New(rand.NewPCG(3, 4))
	l := newConnections("test", most, 0, newBudget(1<<20))
	var open []*connection
	var ends []func()
	now := time.Now()
	refused, evicted := 0, 0
	for i := range 20_000 {
		now = now.Add(firstMoment / 2)
		for k := len(open) - 1; k >= 0; k-- {
			if !l.all[open[k]] {
				if open[k].working > 0 {
					t.Fatal("a connection at work was closed")
				}
				if !open[k].Conn.(*addressed).closed {
					t.Fatal("a connection that is not counted is open")
				}
				evicted++
				open, ends = append(open[:k], open[k+1:]...), append(ends[:k], ends[k+1:]...)
			}
		}
		switch k := r.IntN(8); {
		case k < 4 || len(open) == 0:
			c := l.enter(&addressed{from: fmt.Sprintf("10.0.0.%d", r.IntN(4))}, now)
			if c == nil {
				refused++
				continue
			}
			open, ends = append(open, c), append(ends, nil)
		case k < 6:
			c := r.IntN(len(open))
			if i%3 == 0 {
				open[c].know()
			}
			if ends[c] == nil {
				ends[c] = open[c].begin()
			}
		case k == 6:
			c := r.IntN(len(open))
			if i%8 == 0 && ends[c] != nil {
				ends[c]()
				ends[c] = nil
			}
		case k == 7 && i%5 == 0:
			c := r.IntN(len(open))
			if ends[c] == nil {
				open[c].Close()
				open, ends = append(open[:c], open[c+1:]...), append(ends[:c], ends[c+1:]...)
			}
		}
		by, spare := map[string]int{}, 0
		for c := range l.all {
			by[c.from]++
			if c.spare {
				spare++
			}
		}
		if len(l.all)-spare > most || spare > l.spares() {
			t.Fatalf("%d connections, of them %d spare", len(l.all), spare)
		}
		for from, n := range by {
			if n > most/2+l.spares() {
				t.Fatalf("%s has %d connections", from, n)
			}
		}
	}
	if refused == 0 || evicted == 0 {
		t.Errorf("%d refused, %d made way: want some of each", refused, evicted)
	}
}

// A client that opens many connections and leaves them idle loses them; clients that were answered keep theirs.
func TestConnectionsEvicted(t *testing.T) {
	l := newConnections("test", 8, 0, newBudget(1<<20))
	now := time.Now()
	client := l.enter(&addressed{from: "10.0.0.1"}, now)
	client.know()
	for i := range 100 {
		now = now.Add(2 * firstMoment)
		if l.enter(&addressed{from: fmt.Sprintf("10.0.%d.%d", i%2, i%3)}, now) == nil {
			t.Fatal("an idle one does not make way")
		}
	}
	if !l.all[client] {
		t.Error("a known connection made way for idle ones")
	}
	if newcomer := l.enter(&addressed{from: "10.0.0.1"}, now.Add(2*firstMoment)); newcomer == nil || newcomer.spare {
		t.Errorf("a new client: %+v, want a connection that is not spare", newcomer)
	}
}

// A connection whose client leaves answers unread is closed, one that reads slowly is not.
func TestStuckConnection(t *testing.T) {
	l := newConnections("test", 8, 0, newBudget(1<<20))
	stuck, slow := l.enter(&addressed{from: "10.0.0.1"}, time.Now()), l.enter(&addressed{from: "10.0.0.2"}, time.Now())
	for range 3 {
		stuck.unread(100)
		slow.unread(100)
	}
	slow.unread(-100)
	slow.stuck = slow.stuck.Add(time.Minute)
	l.closeStuck(time.Now().Add(time.Second))
	if l.all[stuck] || !l.all[slow] {
		t.Errorf("the stuck one is open: %v, the slow one %v", l.all[stuck], l.all[slow])
	}
	// Closing a connection ends the counting of its answers, including those that are reported later.
	b := newBudget(1 << 20)
	c := connectionFrom("10.0.0.1", b)
	c.unread(100)
	c.unread(200)
	c.unread(-100)
	if b.inUse() != 200 {
		t.Errorf("%d bytes are on their way, want 200", b.inUse())
	}
	c.Close()
	c.unread(-200)
	c.unread(300)
	if b.inUse() != 0 {
		t.Errorf("after the connection %d bytes are on their way", b.inUse())
	}
}
