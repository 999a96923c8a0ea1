package service

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/evald/evald/engine/game/gametest"
)

// Of many connections from one address each gets an answer: as many as the limit allows are served, the others are refused with the
// reason and counted.
func TestManyConnections(t *testing.T) {
	for _, c := range []struct {
		name                         string
		most, address, opened, serve int
	}{
		{"a quarter of the port for an unknown address", 1024, 0, 700, 256},
		{"the limit of an address", 40, 30, 40, 30},
		{"more than are opened", 1024, 1000, 700, 700},
	} {
		t.Run(c.name, func(t *testing.T) {
			stub, entered, open := gate()
			config := testConfig(stub)
			config.Limits.Connections, config.Limits.Address = c.most, c.address
			config.Settings.MaxRows, config.Settings.InFlight = 1, c.most
			s := serve(t, config)
			defer open() // before the server is ended
			var readers []*bufio.Reader
			for i := range c.opened {
				conn := gametest.Must(net.Dial("tcp", s.rest[len("http://"):]))(t)
				t.Cleanup(func() { conn.Close() })
				fmt.Fprintf(conn, "POST /v2/models/stub/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(aMove), aMove)
				readers = append(readers, bufio.NewReader(conn))
				if i < c.serve {
					<-entered // so that it is at work, and does not make way
				}
			}
			statuses := map[int]int{}
			for i := len(readers) - 1; i >= 0; i-- { // those that are refused answer at once
				if i == c.serve-1 {
					open()
				}
				got, err := http.ReadResponse(readers[i], nil)
				if err != nil {
					t.Fatalf("connection %d: %v", i, err)
				}
				text := gametest.Must(io.ReadAll(got.Body))(t)
				if got.StatusCode == http.StatusServiceUnavailable && !got.Close {
					t.Errorf("connection %d stays open after %s", i, text)
				}
				statuses[got.StatusCode]++
			}
			if statuses[200] != c.serve || statuses[200]+statuses[503] != c.opened {
				t.Errorf("statuses %v, want %d times 200 and else 503", statuses, c.serve)
			}
			for name, want := range map[string]int{
				`evald_refused_connections_total{port="HTTP",reason="full"}`: statuses[503],
				`http_requests_total{code="503",group="inference"}`:          statuses[503],
				`http_requests_total{code="200",group="inference"}`:          statuses[200],
			} {
				if got := s.metric(name); got != float64(want) {
					t.Errorf("%s is %v, want %d", name, got, want)
				}
			}
		})
	}
}
