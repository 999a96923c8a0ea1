package service

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// body reads and decompresses the body of a REST request as it arrives. It limits the body's length and the time of reading.
type body struct {
	in        io.Reader
	limit     int // bytes of the whole body
	read      int // bytes read so far
	value     int // maximum of read while one value is read; 0 is no limit
	request   *request
	text      *net.Buffers // keeps a copy of the bytes read, with memory from the budget; nil: no copy
	connected *http.ResponseController
}

// openBody prepares to read a request's body of up to limit bytes.
func (s *Server) openBody(w http.ResponseWriter, r *http.Request, limit int) (*body, error) {
	if r.ContentLength > int64(limit) {
		return nil, &http.MaxBytesError{Limit: int64(limit)}
	}
	b := &body{limit: limit, request: requestOf(r.Context()), connected: http.NewResponseController(w)}
	if err := b.deadline(time.Now().Add(s.config.Limits.Receive)); err != nil {
		return nil, err
	}
	encoding, cost := r.Header.Get("Content-Encoding"), bodyBuffers
	zipped := encoding != "" && encoding != "identity"
	if zipped {
		cost += unzipBuffers
	}
	if err := b.request.take(cost); err != nil {
		return nil, err
	}
	in := http.MaxBytesReader(w, r.Body, int64(limit))
	if zipped {
		var unzipped io.ReadCloser
		var err error
		switch encoding {
		case "gzip":
			unzipped, err = gzip.NewReader(in)
		case "deflate":
			unzipped, err = zlib.NewReader(in)
		default:
			err = invalid("Content-Encoding %q: must be gzip or deflate", encoding)
		}
		if err != nil {
			return nil, b.wrong(err)
		}
		in = http.MaxBytesReader(w, unzipped, int64(limit))
	}
	b.in = &polite{in: in}
	return b, nil
}

// Memory for reading a body besides its text, in bytes: the buffers of the connection and the decoder, and of decompression.
const (
	bodyBuffers  = 32 << 10
	unzipBuffers = 48 << 10
)

// longestValue is the maximum length of a number, a text or a run of white space in a request's JSON, in bytes.
const longestValue = 8 << 10

func (b *body) Read(p []byte) (int, error) {
	if b.value > 0 && b.read >= b.value {
		return 0, errLongValue
	}
	n, err := b.in.Read(p)
	b.read += n
	if b.text != nil {
		if err := b.keep(p[:n]); err != nil {
			return n, err
		}
	}
	return n, err
}

// keep appends p to text in pieces. It never copies the earlier text: the garbage collector cannot interrupt a copy, and while it waits
// for a copy of many megabytes, all requests may wait.
func (b *body) keep(p []byte) error {
	last := &(*b.text)[len(*b.text)-1]
	if len(*last)+len(p) > cap(*last) {
		if err := b.request.take(textPiece); err != nil {
			return err
		}
		*b.text = append(*b.text, make([]byte, 0, textPiece))
		last = &(*b.text)[len(*b.text)-1]
	}
	*last = append(*last, p...)
	return nil
}

// textPiece is the size of a piece of text in bytes.
const textPiece = 16 << 10

var errLongValue = invalid("body: a value of more than %d bytes", longestValue)

// one limits the length of the next value to longestValue.
func (b *body) one() { b.value = b.read + longestValue }

// rest reads the next n bytes into memory that it reserves in the budget. With an error it returns the bytes read before it.
func (b *body) rest(n int) (raw []byte, err error) {
	b.value = 0
	for len(raw) < n && err == nil {
		if raw, err = b.request.grow(raw, min(n-len(raw), 32<<10)); err != nil {
			return nil, err
		}
		var k int
		k, err = b.Read(raw[len(raw):min(n, cap(raw))])
		raw = raw[:len(raw)+k]
	}
	if len(raw) == n {
		err = nil
	}
	return raw, err
}

// blank reads r to its end, and returns an error if first, which was read before, or the rest has anything but white space.
func (b *body) blank(first []byte, r io.Reader) error {
	b.value = 0
	buffer := make([]byte, 512)
	for {
		if len(bytes.TrimLeft(first, " \t\r\n")) > 0 {
			return invalid("body: more follows the request's JSON")
		}
		n, err := r.Read(buffer)
		if first = buffer[:n]; n > 0 {
			continue
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// close must be called when the body has been read.
func (b *body) close() error {
	// Otherwise the deadline could pass while the request is answered, and end the connection.
	return b.deadline(time.Time{})
}

func (b *body) deadline(t time.Time) error {
	if err := b.connected.SetReadDeadline(t); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return refuse(codes.Internal, "body: %v", err)
	}
	return nil
}

// wrong converts an error of reading into a status.
func (b *body) wrong(err error) error {
	if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return large // writeError has an HTTP status for it
	}
	if s, ok := errors.AsType[interface {
		error
		GRPCStatus() *status.Status
	}](err); ok {
		return s
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return status.Error(codes.DeadlineExceeded, "body: did not arrive in time")
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return invalid("body: %s", strings.TrimPrefix(err.Error(), "jsontext: "))
}

// polite is a reader that yields to other goroutines after each politeBytes. Otherwise the decompression and parsing of a few long bodies
// would occupy all processors for ten milliseconds at a time, and short requests would wait behind each of them.
type polite struct {
	in   io.Reader
	read int // bytes since the last yield
}

// politeBytes is the number of bytes between two yields. To decompress or parse them takes about 0.1 ms.
const politeBytes = 16 << 10

func (p *polite) Read(to []byte) (int, error) {
	if p.read >= politeBytes {
		p.read = 0
		runtime.Gosched()
	}
	n, err := p.in.Read(to[:min(len(to), politeBytes)])
	p.read += n
	return n, err
}
