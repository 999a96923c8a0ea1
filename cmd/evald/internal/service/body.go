package service

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// body is the body of a request of REST, decompressed, as it comes: at most so many bytes, all of them in time.
type body struct {
	in        io.Reader
	limit     int // bytes of the whole
	read      int // so far
	value     int // what read may come to while one value is read; 0 is as much as there is
	paid      *hold
	kept      bool // what is read stays: each byte is paid for
	connected *http.ResponseController
}

// openBody begins to read a request's body. Nothing of it is read yet.
func (s *Server) openBody(w http.ResponseWriter, r *http.Request, h *hold) (*body, error) {
	limit := s.config.Limits.Body
	if r.ContentLength > int64(limit) {
		return nil, tooLarge{limit}
	}
	b := &body{limit: limit, paid: h, connected: http.NewResponseController(w)}
	if err := b.deadline(time.Now().Add(s.config.Limits.Receive)); err != nil {
		return nil, err
	}
	if err := h.take(bodyBuffers); err != nil {
		return nil, err
	}
	b.in = http.MaxBytesReader(w, r.Body, int64(limit))
	var err error
	switch encoding := r.Header.Get("Content-Encoding"); encoding {
	case "", "identity":
		return b, nil
	case "gzip":
		b.in, err = gzip.NewReader(b.in)
	case "deflate":
		b.in, err = zlib.NewReader(b.in)
	default:
		return nil, invalid("Content-Encoding %q: must be gzip or deflate", encoding)
	}
	if err != nil {
		return nil, b.wrong(err)
	}
	return b, h.take(unzipBuffers)
}

// What reading takes beside what is kept: the connection's buffers and the decoder's, and those of decompression.
const (
	bodyBuffers  = 32 << 10
	unzipBuffers = 48 << 10
)

// longestValue is how long a number, a text or a stretch of white space of a request's JSON may be, in bytes.
const longestValue = 8 << 10

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	switch {
	case b.read > b.limit:
		return 0, tooLarge{b.limit}
	case b.value > 0 && b.read >= b.value:
		return 0, invalid("body: a value of more than %d bytes", longestValue)
	}
	n, err := b.in.Read(p[:min(len(p), b.limit+1-b.read)])
	b.read += n
	if b.kept {
		if err := b.paid.take(keptCost * n); err != nil {
			return n, err
		}
	}
	return n, err
}

// keptCost is how many bytes a byte takes that a buffer keeps which doubles, while it is copied.
const keptCost = 4

// one bounds what the next value may take.
func (b *body) one() { b.value = b.read + longestValue }

// rest reads n bytes.
func (b *body) rest(n int) (raw []byte, err error) {
	b.value = 0
	for len(raw) < n {
		if raw, err = b.paid.grow(raw, min(n-len(raw), 32<<10)); err != nil {
			return nil, err
		}
		k, err := b.Read(raw[len(raw):min(n, cap(raw))])
		raw = raw[:len(raw)+k]
		if err != nil && len(raw) < n {
			return nil, err
		}
	}
	return raw, nil
}

// blank reads to the end of r, which must be white space; first was read of it before.
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

// more reports whether another byte comes.
func (b *body) more() (bool, error) {
	b.value = 0
	n, err := io.ReadFull(b, make([]byte, 1))
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n > 0, err
}

// close is called when all was read.
func (b *body) close() error {
	// A deadline that passes while the request is answered would end the connection.
	return b.deadline(time.Time{})
}

func (b *body) deadline(t time.Time) error {
	if err := b.connected.SetReadDeadline(t); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return refuse(codes.Internal, "body: %v", err)
	}
	return nil
}

// wrong is an error of reading, as a status.
func (b *body) wrong(err error) error {
	if large, ok := errors.AsType[tooLarge](err); ok {
		return large
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return tooLarge{b.limit}
	}
	if s, ok := errors.AsType[interface {
		error
		GRPCStatus() *status.Status
	}](err); ok {
		return s
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return status.Error(codes.DeadlineExceeded, "body: has not come to its end in time")
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return invalid("body: %s", strings.TrimPrefix(err.Error(), "jsontext: "))
}

// tooLarge is a body over the limit, which HTTP has a status of its own for.
type tooLarge struct{ limit int }

func (e tooLarge) Error() string { return fmt.Sprintf("body: is longer than %d bytes", e.limit) }
