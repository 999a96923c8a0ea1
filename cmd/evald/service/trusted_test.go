package service

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/pires/go-proxyproto"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/evald/evald/cmd/evald/kserve"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

func TestForwarded(t *testing.T) {
	p := gametest.Must(ParseProxies([]string{"10.0.0.0/8", "192.0.2.1", "fd00::/8"}))(t)
	for _, c := range []struct {
		peer      string
		forwarded []string
		want      string
	}{
		{"10.0.0.1:80", nil, "10.0.0.1:80"},
		{"10.0.0.1:80", []string{""}, "10.0.0.1:80"},
		{"10.0.0.1:80", []string{"203.0.113.7"}, "203.0.113.7"},
		{"203.0.113.9:80", []string{"203.0.113.7"}, "203.0.113.9:80"}, // no proxy of ours: its word does not count
		{"10.0.0.1:80", []string{"198.51.100.1, 203.0.113.7"}, "203.0.113.7"},
		{"10.0.0.1:80", []string{"198.51.100.1, 203.0.113.7, 192.0.2.1"}, "203.0.113.7"},
		{"10.0.0.1:80", []string{"198.51.100.1", "203.0.113.7 , 10.9.9.9", "192.0.2.1"}, "203.0.113.7"},
		{"10.0.0.1:80", []string{"10.3.3.3,10.2.2.2"}, "10.3.3.3"}, // a client inside
		{"10.0.0.1:80", []string{"203.0.113.7, unknown"}, "10.0.0.1:80"},
		{"10.0.0.1:80", []string{"203.0.113.7:4711"}, "203.0.113.7:4711"},
		{"[fd00::1]:80", []string{"[2001:db8::1]:4711"}, "[2001:db8::1]:4711"},
		{"[::ffff:10.0.0.1]:80", []string{"2001:db8::1"}, "2001:db8::1"},
		{"[fd00::1]:80", []string{"[2001:db8::1]"}, "[2001:db8::1]"},
	} {
		if got := p.client(c.peer, c.forwarded); got != c.want {
			t.Errorf("from %s, forwarded %q: %s, want %s", c.peer, c.forwarded, got, c.want)
		}
	}
	for _, wrong := range []string{"", "10.0.0.0/33", "proxy.example.org", "10.0.0.1:80", "fe80::1%eth0"} {
		if _, err := ParseProxies([]string{"10.0.0.1", wrong}); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", wrong)) {
			t.Errorf("proxy %q: %v", wrong, err)
		}
	}
}

// Whatever the header says, the client is the last one in the chain of whom all later ones are trusted.
func FuzzForwarded(f *testing.F) {
	p := gametest.Must(ParseProxies([]string{"10.0.0.0/8", "fd00::/8"}))(f)
	f.Add("198.51.100.1, 10.2.2.2", "unknown,10.1.1.1")
	f.Add("[::1]:7,", ",,")
	f.Fuzz(func(t *testing.T, a, b string) {
		chain := append(strings.Split(a, ","), strings.Split(b, ",")...)
		for i := range chain {
			chain[i] = strings.TrimSpace(chain[i])
		}
		chain = append(chain, "10.0.0.1:80")
		i := len(chain) - 1
		for i > 0 {
			here, _ := parseAddress(chain[i])
			if _, ok := parseAddress(chain[i-1]); !ok || !p.has(here) {
				break
			}
			i--
		}
		if got := p.client("10.0.0.1:80", []string{a, b}); got != chain[i] {
			t.Errorf("%q, %q: %q, want %q", a, b, got, chain[i])
		}
	})
}

// A request that a trusted proxy forwards counts as its client's, over both transports: its memory, its share of the queue and its line in
// the log.
func TestForwardedClients(t *testing.T) {
	stub, entered, open := gate()
	var log logbook
	c := testConfig(stub)
	c.Proxies, c.Log = gametest.Must(ParseProxies([]string{"127.0.0.1"}))(t), log.logger(slog.LevelDebug)
	s := serve(t, c)
	defer open()
	answers := make(chan error, 2)
	go func() {
		r := gametest.Must(http.NewRequest(http.MethodPost, s.rest+inferPath, strings.NewReader(aMove)))(t)
		r.Header["X-Forwarded-For"] = []string{"198.51.100.1", "203.0.113.7"}
		got, err := http.DefaultClient.Do(r)
		if err == nil {
			got.Body.Close()
			if got.StatusCode != http.StatusOK {
				err = fmt.Errorf("%s", got.Status)
			}
		}
		answers <- err
	}()
	go func() {
		ctx := metadata.AppendToOutgoingContext(context.Background(), "x-forwarded-for", "198.51.100.1, 2001:db8::7")
		_, err := s.api.ModelInfer(ctx, bitboardRequest(connect4, game.Position{}))
		answers <- err
	}()
	<-entered
	s.underWay(t, 2)
	s.memory.mu.Lock()
	for _, of := range []string{"203.0.113.7", "2001:db8::"} {
		if s.memory.by[of] <= 0 {
			t.Errorf("the memory of %s is not counted: %v", of, s.memory.by)
		}
	}
	s.memory.mu.Unlock()
	open()
	for range 2 {
		gametest.OK(t, <-answers)
	}
	waitFor(t, "no memory in use", func() bool { return s.memory.inUse() == 0 })
	found := map[any]any{}
	for _, r := range log.wait(t, "request", 0, 2) {
		found[r["protocol"]] = r["remote"]
	}
	if found["HTTP/1.1"] != "203.0.113.7" || found["gRPC"] != "2001:db8::7" {
		t.Errorf("the log has the clients %v", found)
	}
}

// announcing is a dialer of connections that begin with a header of the PROXY protocol, from this machine's address.
func announcing(t *testing.T, from string, version byte) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err != nil {
			return nil, err
		}
		_, err = conn.Write(announcement(t, from, version))
		return conn, err
	}
}

func announcement(t *testing.T, from string, version byte) []byte {
	source := net.TCPAddrFromAddrPort(netip.MustParseAddrPort(from))
	h := proxyproto.HeaderProxyFromAddrs(version, source, source)
	return gametest.Must(h.Format())(t)
}

// serveAnnounced serves behind proxies at 127.0.0.1 that speak the PROXY protocol.
func serveAnnounced(t *testing.T, change func(*Config)) (*serving, *logbook) {
	log := new(logbook)
	c := testConfig(&evaltest.Stub{Source: eval.CPU})
	c.Proxies, c.ProxyProtocol, c.Log = gametest.Must(ParseProxies([]string{"127.0.0.1"}))(t), true, log.logger(slog.LevelDebug)
	change(&c)
	return serve(t, c), log
}

// statusOver asks for a position over a connection.
func statusOver(t *testing.T, conn net.Conn) int {
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", inferPath, len(aMove), aMove)
	got := gametest.Must(http.ReadResponse(bufio.NewReader(conn), nil))(t)
	gametest.Must(io.Copy(io.Discard, got.Body))(t)
	return got.StatusCode
}

// The PROXY protocol names the client, over both transports and with TLS.
func TestProxyProtocol(t *testing.T) {
	cert, key := selfSigned(t, t.TempDir(), "server")
	for _, encrypted := range []bool{false, true} {
		s, log := serveAnnounced(t, func(c *Config) {
			if encrypted {
				text := func(path string) []byte { return gametest.Must(os.ReadFile(path))(t) }
				c.Access = gametest.Must(ReadTLS(text(cert), text(key), nil))(t)
			}
		})
		address := strings.TrimPrefix(strings.TrimPrefix(s.rest, "https://"), "http://")
		over := insecure.NewCredentials()
		if encrypted {
			over = credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})
		}
		for version := byte(1); version <= 2; version++ {
			client := fmt.Sprintf("203.0.113.%d:4711", version)
			dial := announcing(t, client, version)
			conn := gametest.Must(dial(t.Context(), address))(t)
			defer conn.Close()
			if encrypted {
				conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
			}
			if status := statusOver(t, conn); status != http.StatusOK {
				t.Errorf("version %d: %d", version, status)
			}
			calls := s.connect(t, grpc.WithTransportCredentials(over), grpc.WithContextDialer(dial))
			if _, err := kserve.NewGRPCInferenceServiceClient(calls).ModelInfer(t.Context(), bitboardRequest(connect4, game.Position{})); err != nil {
				t.Errorf("version %d: %v", version, err)
			}
			for _, r := range log.wait(t, "request", 2*int(version)-2, 2) {
				if r["remote"] != client && r["remote"] != "203.0.113.1:4711" {
					t.Errorf("version %d: the log has %v", version, r)
				}
			}
		}
	}
}

// A proxy's connection without the header ends and is counted, and a client that is no proxy cannot give itself an address.
func TestProxyProtocolFaults(t *testing.T) {
	s, log := serveAnnounced(t, func(c *Config) {})
	address := strings.TrimPrefix(s.rest, "http://")
	const counter = `evald_refused_connections_total{port="HTTP",reason="proxy_protocol"}`
	for i, text := range []string{"GET /v2 HTTP/1.1\r\nHost: x\r\n\r\n", "PROXY TCP4 a b c d\r\n", "PROXY TCP4 203.0.113.7 203.0.113.7 70000 1\r\n", "\x00\r\n\r\n\x00\r\nQUIT\n\x2f"} {
		conn := gametest.Must(net.Dial("tcp", address))(t)
		gametest.Must(io.WriteString(conn, text))(t)
		gametest.OK(t, conn.(*net.TCPConn).CloseWrite())
		if got := string(gametest.Must(io.ReadAll(conn))(t)); !strings.HasPrefix(got, "HTTP/1.1 400 ") {
			t.Errorf("%q: %q, want 400", text, got)
		}
		conn.Close()
		waitFor(t, "its counter", func() bool { return s.metric(counter) == float64(i+1) })
	}
	log.wait(t, "a trusted proxy's connection was closed", 0, 4)
	conn := gametest.Must(net.Dial("tcp", address))(t) // only looks whether the port is open
	conn.Close()

	// In pieces, and with a request at once behind it.
	conn = gametest.Must(net.Dial("tcp", address))(t)
	defer conn.Close()
	pieces := iotest.OneByteReader(bytes.NewReader(announcement(t, "203.0.113.7:1", 2)))
	gametest.Must(io.Copy(struct{ io.Writer }{conn}, pieces))(t)
	if status := statusOver(t, conn); status != http.StatusOK {
		t.Errorf("a header in pieces: %d", status)
	}
	// A proxy's own check names no client.
	conn = gametest.Must(net.Dial("tcp", address))(t)
	defer conn.Close()
	gametest.Must(conn.Write([]byte("\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00")))(t)
	if status := statusOver(t, conn); status != http.StatusOK {
		t.Errorf("a local header: %d", status)
	}
	// From an address that is no proxy's, the header is garbage.
	for text, want := range map[string]int{"": http.StatusOK, "PROXY TCP4 203.0.113.7 203.0.113.7 1 1\r\n": http.StatusBadRequest} {
		conn := gametest.Must((&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}).Dial("tcp", address))(t)
		defer conn.Close()
		gametest.Must(io.WriteString(conn, text))(t)
		if status := statusOver(t, conn); status != want {
			t.Errorf("another address, %q: %d, want %d", text, status, want)
		}
	}
	if n := s.metric(counter); n != 4 {
		t.Errorf("%v connections are counted, want 4", n)
	}
}

// Behind a proxy each client has its own limit of connections, and the proxy's own are limited by the port alone.
func TestProxyProtocolLimit(t *testing.T) {
	s, _ := serveAnnounced(t, func(c *Config) { c.Limits.Connections, c.Limits.Address = 20, 2 })
	address := strings.TrimPrefix(s.rest, "http://")
	for _, x := range []struct {
		client string
		status int
	}{
		{"203.0.113.7:1", 200},
		{"203.0.113.7:2", 200},
		{"203.0.113.7:3", 503},
		{"203.0.113.8:1", 200},
		{"203.0.113.8:2", 200},
		{"203.0.113.8:3", 503},
		{"127.0.0.1:1", 200},
		{"127.0.0.1:2", 200},
		{"127.0.0.1:3", 200},
	} {
		conn := gametest.Must(announcing(t, x.client, 1)(t.Context(), address))(t)
		defer conn.Close()
		if status := statusOver(t, conn); status != x.status {
			t.Errorf("%s: %d, want %d", x.client, status, x.status)
		}
	}
}
