package service

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Long headers end one call, not the connection, on which a proxy may send the calls of many
// clients. So the limits of the libraries, which close the connection or answer unseen, are above
// longestHeaders, where a call is refused, counted and logged.

const (
	longestHeaders     = 64 << 10  // bytes of a call's headers, with 32 for each field, as HTTP/2 counts them; proxies allow about as much
	usualHeaders       = 16 << 10  // bytes of headers for which no memory is reserved: callCost includes them
	mostHTTPHeaders    = 128 << 10 // bytes after which net/http reads no further
	mostGRPCHeaders    = 1 << 20   // bytes after which gRPC closes the connection
	readingHeadersCost = mostGRPCHeaders / 2 * 5
)

// takeHeaders refuses headers of size bytes if they are too long, and otherwise reserves memory for
// them until the request ends.
func (s *Server) takeHeaders(r *request, size int) error {
	if size > longestHeaders {
		s.longHeaders.Add(1)
		return refuse(codes.ResourceExhausted, "the headers have %d bytes, must be at most %d", size, longestHeaders)
	}
	if size <= usualHeaders {
		return nil
	}
	return r.take(2 * size)
}

// headersOf returns the size of a gRPC call's headers in bytes.
func headersOf(method string, all metadata.MD) (size int) {
	size = len(method)
	for name, values := range all {
		for _, v := range values {
			size += len(name) + len(v) + 32
		}
	}
	return size
}

// httpHeadersOf returns the size of a request's headers in bytes.
func httpHeadersOf(r *http.Request) (size int) {
	return headersOf(r.RequestURI+r.Host, metadata.MD(r.Header))
}

// closedFor logs and counts a connection that was closed because of its headers.
func (s *Server) closedFor(protocol, remote, why string) {
	s.closedHeaders.Add(1)
	if hidden, ok := s.refusals.let("headers of connections", time.Now()); ok {
		s.config.Log.Info("refused", "protocol", protocol, "status", "connection closed", "remote", remote, "why", why, "not_shown", hidden)
	}
}

// closeLog is the error log of net/http, whose lines have level debug. HTTP/2 closes a connection
// for headers beyond mostHTTPHeaders and for other violations of the protocol.
type closeLog struct{ *Server }

// Write implements io.Writer.
func (l closeLog) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	l.config.Log.Debug(text)
	if _, why, ok := strings.Cut(text, "http2: server connection error from "); ok {
		remote, why, _ := strings.Cut(why, ": ")
		l.closedFor("HTTP/2.0", remote, "headers too long, or frames against the protocol: "+why)
	}
	return len(line), nil
}

// watchedCredentials wraps a port's credentials, so that a headerReader sees the frames of each
// connection, decrypted.
type watchedCredentials struct {
	credentials.TransportCredentials
	server *Server
}

// ServerHandshake implements credentials.TransportCredentials.
func (w watchedCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c, info, err := w.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return nil, nil, err
	}
	return &headerReader{Conn: c, server: w.server, request: request{conn: raw.(*connection)}, skip: len(preface)}, info, nil
}

// Clone implements credentials.TransportCredentials.
func (w watchedCredentials) Clone() credentials.TransportCredentials {
	return watchedCredentials{w.TransportCredentials.Clone(), w.server}
}

// preface is what a client of HTTP/2 sends before its first frame.
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// headerReader reserves memory for headers that take several frames, while gRPC reads them, and
// limits the time that they may take. It parses no more than the heads of frames.
type headerReader struct {
	net.Conn
	server  *Server
	request request // holds the memory

	skip  int     // bytes up to the next head
	head  [9]byte // of a frame: 3 bytes of length, type, flags, 4 of stream
	known int     // bytes of head that have arrived

	until time.Time // by when the headers must have arrived; zero if none are arriving

	mu     sync.Mutex // guards the next two, and request
	open   bool       // whether the headers of a call have begun and continue in another frame
	closed bool
}

// Read implements net.Conn.
func (h *headerReader) Read(p []byte) (int, error) {
	if !h.until.IsZero() { // again, because gRPC clears the deadline after it has read the first frames
		_ = h.SetReadDeadline(h.until)
	}
	n, err := h.Conn.Read(p)
	if err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			h.end("the headers took longer than " + h.server.config.Limits.Headers.String())
		}
		h.end("")
		return n, err
	}
	for rest := p[:n]; len(rest) > 0; {
		if k := min(h.skip, len(rest)); k > 0 {
			h.skip, rest = h.skip-k, rest[k:]
			continue
		}
		k := copy(h.head[h.known:], rest)
		h.known, rest = h.known+k, rest[k:]
		if h.known < len(h.head) {
			break
		}
		h.known, h.skip = 0, int(h.head[0])<<16|int(h.head[1])<<8|int(h.head[2])
		if err := h.frame(h.head[3], h.head[4]); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// frame is called with the type and the flags of each frame.
func (h *headerReader) frame(kind, flags byte) error {
	const headers, continuation, endHeaders = 1, 9, 4
	if kind != headers && kind != continuation {
		return nil
	}
	ends := flags&endHeaders != 0
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
	case !h.open && !ends:
		if err := h.request.take(readingHeadersCost); err != nil {
			h.closed = true
			h.server.closedFor("gRPC", h.request.conn.remote, "no memory for long headers: "+status.Convert(err).Message())
			return err
		}
		h.open, h.until = true, time.Now().Add(h.server.config.Limits.Headers)
	case h.open && ends:
		h.open, h.until = false, time.Time{}
		h.request.end()
		return h.SetReadDeadline(time.Time{})
	}
	return nil
}

// Close implements net.Conn. If gRPC calls it while headers arrive, they are longer than
// mostGRPCHeaders, or malformed.
func (h *headerReader) Close() error {
	h.end(fmt.Sprintf("headers of more than %d bytes, or malformed", mostGRPCHeaders))
	return h.Conn.Close()
}

// end releases the memory of headers that have not arrived completely. why is the reason for the
// log, or "" if the client has left.
func (h *headerReader) end(why string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open && !h.closed {
		h.request.end()
		if why != "" && h.server.over.Err() == nil {
			h.server.closedFor("gRPC", h.request.conn.remote, why)
		}
	}
	h.open, h.closed = false, true
}
