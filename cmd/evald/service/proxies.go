package service

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/pires/go-proxyproto"

	"github.com/evald/evald/engine/short"
)

// Behind a proxy all connections have the proxy's address. The operator names the proxies whose word about their clients' addresses is
// believed: by the header X-Forwarded-For, or by the PROXY protocol at the beginning of a connection. Then limits, fairness and the log
// know each client by its own address.

// Proxies are the addresses of the trusted proxies.
type Proxies []netip.Prefix

// ParseProxies reads addresses such as "10.1.2.3" and networks such as "10.0.0.0/8".
func ParseProxies(texts []string) (p Proxies, err error) {
	for _, text := range texts {
		network, err := netip.ParsePrefix(text)
		if a, wrong := netip.ParseAddr(text); wrong == nil && a.Zone() == "" {
			network, err = a.Prefix(a.BitLen())
		}
		if err != nil {
			return nil, fmt.Errorf("proxy %s: must be an address such as 10.1.2.3, or a network such as 10.0.0.0/8", short.Quote(text))
		}
		p = append(p, network.Masked())
	}
	return p, nil
}

func (p Proxies) has(a netip.Addr) bool {
	return slices.ContainsFunc(p, func(network netip.Prefix) bool { return network.Contains(a) })
}

// client returns the address of the client of a request that came from peer, an address with or without a port, with these values of
// X-Forwarded-For. Each proxy appends the address of its own client, so the values are read from the last one backwards: while one is a
// trusted proxy's, the value before it counts. Values before the word of an untrusted one may be invented.
func (p Proxies) client(peer string, forwarded []string) string {
	if len(p) == 0 || len(forwarded) == 0 {
		return peer
	}
	names := strings.Join(forwarded, ",")
	for {
		a, ok := parseAddress(peer)
		if !ok || !p.has(a) || names == "" {
			return peer
		}
		i := strings.LastIndexByte(names, ',')
		next := strings.TrimSpace(names[i+1:])
		if _, ok := parseAddress(next); !ok { // "unknown", for example
			return peer
		}
		peer, names = next, names[:max(i, 0)]
	}
}

// parseAddress reads an address with or without a port.
func parseAddress(text string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(strings.Trim(text, "[]"))
	if err != nil {
		with, wrong := netip.ParseAddrPort(text)
		a, err = with.Addr(), wrong
	}
	return a.Unmap().WithZone(""), err == nil
}

// errNoAnnouncement is the fault of a trusted proxy's connection that does not begin with a header of the PROXY protocol.
var errNoAnnouncement = errors.New("does not begin with a header of the PROXY protocol")

// readAnnouncement reads the header of the PROXY protocol at the beginning of a connection, versions 1 and 2, and counts the connection as
// one of the client that the header names. A proxy's own connections, such as its checks of health, name none.
func (c *connection) readAnnouncement() error {
	// The caller of Read has set a deadline.
	from := bufio.NewReader(c.Conn)
	if _, err := from.Peek(1); err != nil {
		return err // the proxy has only looked whether the port is open
	}
	header, err := proxyproto.Read(from)
	if errors.Is(err, proxyproto.ErrNoProxyProtocol) {
		err = errNoAnnouncement
	}
	if err != nil {
		c.of.refused[unannounced].Add(1)
		c.of.wrong(c.remote, err)
		return err
	}
	c.announced = true
	c.left, _ = from.Peek(from.Buffered())
	if header.SourceAddr == nil || header.Command.IsLocal() {
		return nil
	}
	if !c.of.renamed(c, header.SourceAddr.String()) {
		return io.ErrClosedPipe
	}
	return nil
}

// notAnnounced logs a connection of a trusted proxy that was closed because it did not begin with a
// header of the PROXY protocol.
func (s *Server) notAnnounced(remote string, err error) {
	if hidden, ok := s.refusals.let("PROXY protocol", time.Now()); ok {
		s.config.Log.Warn("a trusted proxy's connection was closed", "remote", remote, "why", err, "not_shown", hidden)
	}
}
