package service

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// connections are the connections of one port. A client is known once it has shown a valid token or, if no tokens are required, once it
// was answered.
//
// If the port is full, a new connection evicts the one that has been idle for the longest time; connections of unknown clients are evicted
// first. So a client that opens many connections loses them again, and a client that is being answered keeps its own. No connection is
// evicted during firstMoment. One address may have perAddress connections. Unknown clients may have half of all, and those of one
// address half of its own, unless the operator has set perAddress: then the address may be a proxy's, and all of its
// connections may be new at once.
type connections struct {
	port             string
	most, perAddress int
	unknown          int     // maximum number of connections of unknown clients
	unknownSame      int     // the same for each address
	memory           *budget // counts answers that clients have not read

	proxies   Proxies                        // their connections are limited by most alone
	announced bool                           // whether those of proxies begin with a header of the PROXY protocol
	wrong     func(remote string, err error) // is told of those that do not

	refused [refusedConnections]atomic.Uint64

	mu  sync.Mutex
	all map[*connection]bool
}

// spares is the number of connections that a full port accepts in addition. On these the server answers calls of health, and refuses all
// other calls with the reason.
func (l *connections) spares() int { return max(32, l.most/2) }

// Why a client has lost a connection to others, or a call over it.
const (
	answeredFull       = iota // a call over a spare connection
	evicted                   // the connection was idle, and made way for another
	closedFull                // there was no place, not even a spare one
	unannounced               // a trusted proxy's connection did not begin with a valid header of the PROXY protocol
	refusedConnections        // the number of these reasons
)

var refusedReasons = [refusedConnections]string{"full", "evicted", "closed", "proxy_protocol"}

// firstMoment is the time during which a new connection is not evicted.
const firstMoment = time.Second

// connection is one connection of a port.
type connection struct {
	net.Conn
	of    *connections
	since time.Time

	// Written under of.mu before the first byte of a request is read, and read without it afterwards.
	remote string // the client's address, with a port
	from   string // under which the client is counted, see addressOf
	proxy  bool   // whether that is a trusted proxy's

	announced bool   // whether the connection has begun with a header of the PROXY protocol, or needs none
	left      []byte // what was read with that header

	trusted atomic.Pointer[Access] // the last one whose authorities have signed the client's certificate

	// Guarded by of.mu.
	quiet   time.Time // since when it has been idle
	working int       // requests that have arrived completely and are not answered
	known   bool      // whether the client is known, see connections
	spare   bool
	unsent  int       // bytes of answers that the client has not read yet
	stuck   time.Time // while unsent > 0: when the client last read some of them
	closed  bool
	refused time.Time // when one of its requests was last refused for lack of room
}

// newConnections returns the connections of a port. With perAddress 0 an address may have half of them.
func newConnections(port string, most, perAddress int, memory *budget) *connections {
	l := &connections{port: port, most: most, memory: memory, all: map[*connection]bool{}}
	l.perAddress, l.unknownSame, l.unknown = perAddress, perAddress, max(2, most/2, perAddress)
	if perAddress == 0 {
		l.perAddress, l.unknownSame = max(2, most/2), max(1, most/4)
	}
	return l
}

// counted is a listener that counts its connections.
type counted struct {
	net.Listener
	*connections
}

func (l counted) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if in := l.enter(c, time.Now()); in != nil {
			return in, nil
		}
		c.Close()
	}
}

// enter counts a connection. If the port is full, it evicts another one. If it can evict none, the connection becomes a spare one; if
// all spare places are taken by connections that may not be evicted either, enter returns nil.
func (l *connections) enter(conn net.Conn, now time.Time) *connection {
	c := &connection{Conn: conn, of: l, since: now, quiet: now}
	if !l.place(c, conn.RemoteAddr().String(), now) {
		return nil
	}
	c.announced = !c.proxy || !l.announced
	return c
}

// renamed counts a connection as one of the client at remote from now on. It reports whether there is a place for it.
func (l *connections) renamed(c *connection, remote string) bool {
	l.mu.Lock()
	delete(l.all, c)
	l.mu.Unlock()
	return l.place(c, remote, time.Now())
}

// place counts a connection as one of the client at remote, as enter says.
func (l *connections) place(c *connection, remote string, now time.Time) bool {
	a, _ := parseAddress(remote)
	l.mu.Lock()
	c.remote, c.from, c.proxy = remote, addressOf(remote), l.proxies.has(a)
	gone, full := l.makesWay(c, now.Add(-firstMoment))
	c.spare = full && gone == nil
	spare := func(o *connection) bool { return o.spare }
	if c.spare && l.count(spare) >= l.spares() {
		if gone = l.oldest(now.Add(-firstMoment), spare); gone == nil {
			l.mu.Unlock()
			l.refused[closedFull].Add(1)
			return false
		}
	}
	delete(l.all, gone)
	l.all[c] = true
	l.mu.Unlock()
	if gone != nil {
		l.refused[evicted].Add(1)
		gone.Close()
	}
	return true
}

// makesWay reports whether the port is full for a new connection, and which connection to evict for it: one that has been
// idle since before then, or nil if there is none. mu is held.
func (l *connections) makesWay(in *connection, then time.Time) (gone *connection, full bool) {
	same := func(c *connection) bool { return c.from == in.from }
	unknown := func(c *connection) bool { return !c.known && !c.proxy }
	unknownSame := func(c *connection) bool { return same(c) && unknown(c) }
	inPlace := func(c *connection) bool { return !c.spare }
	var candidates []func(*connection) bool
	switch {
	case !in.proxy && l.count(same) >= l.perAddress:
		candidates = []func(*connection) bool{unknownSame, same}
	case !in.proxy && l.count(unknownSame) >= l.unknownSame:
		candidates = []func(*connection) bool{unknownSame}
	case !in.proxy && l.count(unknown) >= l.unknown:
		candidates = []func(*connection) bool{unknown}
	case l.count(inPlace) >= l.most:
		candidates = []func(*connection) bool{unknown, inPlace}
	default:
		return nil, false
	}
	for _, of := range candidates {
		if gone = l.oldest(then, func(c *connection) bool { return of(c) && inPlace(c) }); gone != nil {
			break
		}
	}
	return gone, true
}

// count returns the number of connections for which of returns true. mu is held.
func (l *connections) count(of func(*connection) bool) (n int) {
	for c := range l.all {
		if of(c) {
			n++
		}
	}
	return n
}

// oldest returns the connection that has been idle for the longest time, of those that have been idle since before then and for which of
// returns true; nil if there is none. mu is held.
func (l *connections) oldest(then time.Time, of func(*connection) bool) (found *connection) {
	for c := range l.all {
		if c.working == 0 && c.quiet.Before(then) && of(c) && (found == nil || c.quiet.Before(found.quiet)) {
			found = c
		}
	}
	return found
}

// closeStuck closes connections with unread answers whose clients have not read anything since then.
func (l *connections) closeStuck(then time.Time) {
	var stuck []*connection
	l.mu.Lock()
	for c := range l.all {
		if c.unsent > 0 && c.stuck.Before(then) {
			stuck = append(stuck, c)
		}
	}
	l.mu.Unlock()
	for _, c := range stuck {
		c.Close()
	}
}

func (c *connection) Close() error {
	c.of.mu.Lock()
	delete(c.of.all, c)
	from, unsent := c.from, c.unsent
	c.unsent, c.closed = 0, true
	c.of.mu.Unlock()
	c.of.memory.force(from, -unsent) // no writer will report these bytes as read
	return c.Conn.Close()
}

// Read implements net.Conn.
func (c *connection) Read(p []byte) (int, error) {
	if !c.announced {
		if err := c.readAnnouncement(); err != nil {
			return 0, err
		}
	}
	if len(c.left) > 0 {
		n := copy(p, c.left)
		c.left = c.left[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}

// RemoteAddr implements net.Conn. connectionOf finds the connection by this address.
func (c *connection) RemoteAddr() net.Addr { return remote{c.Conn.RemoteAddr(), c} }

type remote struct {
	net.Addr
	conn *connection
}

// connectionOf returns the connection whose RemoteAddr is a.
func connectionOf(a net.Addr) *connection { return a.(remote).conn }

// update calls f with of.mu held.
func (c *connection) update(f func()) {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	f()
}

// begin is called when a request has arrived completely. The caller calls end when the request has been answered.
func (c *connection) begin() (end func()) {
	c.update(func() { c.working++ })
	return func() { c.update(func() { c.working--; c.quiet = time.Now() }) }
}

// know marks the client as known.
func (c *connection) know() {
	c.update(func() { c.known = true })
}

func (c *connection) isKnown() (known bool) {
	c.update(func() { known = c.known })
	return known
}

// unread is called with the number of bytes of an answer before it is written, and with minus this number afterwards. In between the budget
// counts the bytes, unless the connection is closed.
func (c *connection) unread(n int) {
	counts := false
	c.update(func() {
		if counts = !c.closed; counts {
			if c.unsent += n; n < 0 || c.unsent == n {
				c.stuck = time.Now()
			}
		}
	})
	if counts {
		c.of.memory.force(c.from, n)
	}
}

// addressOf returns the text under which a client is counted: its IPv4 address, the first 64 bits of its IPv6 address or, if remote is not
// an address, remote itself.
func addressOf(remote string) string {
	a, ok := parseAddress(remote)
	switch {
	case !ok:
		if host, _, err := net.SplitHostPort(remote); err == nil {
			return host
		}
		return remote
	case a.Is4():
		return a.String()
	}
	return netip.PrefixFrom(a, 64).Masked().Addr().String()
}
