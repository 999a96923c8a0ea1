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

// body reads the body of a REST request as it arrives, and decompresses it. It bounds its length and the time that it takes.
type body struct {
	in        io.Reader
	limit     int // bytes of the whole body
	read      int // bytes read so far
	value     int // maximum of read while one value is read; 0 is no bound
	request   *request
	text      *net.Buffers // what is read is added here, and paid for; nil: nowhere
	connected *http.ResponseController
}

// openBody prepares to read a request's body of up to limit bytes, and reads nothing yet.
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

// The memory of reading in bytes, beside the text itself: the buffers of the connection and the decoder, and those of
// decompression.
const (
	bodyBuffers  = 32 << 10
	unzipBuffers = 48 << 10
)

// longestValue is how long a number, a text or a stretch of white space of a request's JSON may be, in bytes.
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

// keep adds to text. It never copies what is there: the garbage collector cannot interrupt a copy, and while it waits for one of many
// megabytes, all requests may wait.
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

// textPiece is how many bytes of text lie together.
const textPiece = 16 << 10

var errLongValue = invalid("body: a value of more than %d bytes", longestValue)

// one bounds the length of the next value.
func (b *body) one() { b.value = b.read + longestValue }

// rest reads the next n bytes, and pays for them. With an error it returns those that came before it.
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

// blank reads r to its end, and refuses anything but white space. first is the text that was read from it before.
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

// close is called when all was read.
func (b *body) close() error {
	// If the deadline stayed and passed while the request is answered, it would end the connection.
	return b.deadline(time.Time{})
}

func (b *body) deadline(t time.Time) error {
	if err := b.connected.SetReadDeadline(t); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return refuse(codes.Internal, "body: %v", err)
	}
	return nil
}

// wrong turns an error of reading into a status.
func (b *body) wrong(err error) error {
	if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return large // HTTP has a status of its own for it
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

// polite is a reader that lets other goroutines run after each politeBytes. Without that, a few clients whose long bodies are
// decompressed and parsed would hold all processors for ten milliseconds at a time, and short requests would wait their turn
// behind each of them.
type polite struct {
	in   io.Reader
	read int // since the last pause
}

// politeBytes take about a tenth of a millisecond to decompress or parse.
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
