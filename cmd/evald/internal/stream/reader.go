package stream

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/evald/evald/engine/game"
)

// maxLine bounds a line; no position needs as much.
const maxLine = 64 << 10

// reader cuts the input into chunks of lines.
type reader struct {
	in     *bufio.Reader
	source *interruptible
	rows   int
	line   int
}

func newReader(ctx context.Context, in io.Reader, job Job) *reader {
	source := newInterruptible(ctx, in)
	return &reader{in: bufio.NewReaderSize(source, maxLine), source: source, rows: job.Rows}
}

// fill reads lines into c until it is full or the next line would have to be waited for. more is false at the end of
// the input. Blank lines and those that begin with # are skipped; a position ends at the first blank, so that files
// with a score behind each position can be read.
func (r *reader) fill(c *Chunk) (more bool, err error) {
	c.Answers, c.bytes = c.Answers[:0], 0
	for len(c.Answers) < r.rows {
		text, tooLong, err := r.readLine(c)
		end := err != nil
		if end && (!errors.Is(err, io.EOF) || len(text) == 0 && !tooLong) {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return false, err
		}
		r.line++
		r.add(c, text, tooLong)
		if end {
			return false, nil
		}
		if len(c.Answers) > 0 && r.wouldWait() {
			return true, nil
		}
	}
	return true, nil
}

// wouldWait reports whether the next line is not here yet.
func (r *reader) wouldWait() bool {
	here, _ := r.in.Peek(r.in.Buffered()) // no error: it asks for what is there
	return bytes.IndexByte(here, '\n') < 0 && !r.source.ready()
}

// readLine reads up to and without the next newline. The rest of a line that is too long is read and dropped. The
// slice is valid until the next read.
func (r *reader) readLine(c *Chunk) (text []byte, tooLong bool, err error) {
	text, err = r.in.ReadSlice('\n')
	c.bytes += int64(len(text))
	for errors.Is(err, bufio.ErrBufferFull) {
		tooLong = true
		var rest []byte
		rest, err = r.in.ReadSlice('\n')
		c.bytes += int64(len(rest))
	}
	if tooLong {
		return nil, true, err
	}
	return bytes.TrimSpace(text), false, err
}

func (r *reader) add(c *Chunk, text []byte, tooLong bool) {
	if tooLong {
		c.Answers = append(c.Answers, Answer{Line: r.line, Err: &game.ParseError{
			Line: r.line, Field: "line", Reason: fmt.Sprintf("is longer than %d bytes", maxLine),
		}})
		return
	}
	if len(text) == 0 || text[0] == '#' {
		return
	}
	s := string(text)
	if s[0] != '{' {
		if blank := strings.IndexAny(s, " \t"); blank > 0 {
			s = s[:blank]
		}
	}
	c.Answers = append(c.Answers, Answer{Line: r.line, Text: s})
}

// interruptible is a reader whose Read returns when ctx ends, even while the input has nothing to say. The goroutine
// that waits for the input is left behind then; the program is about to end.
type interruptible struct {
	ctx    context.Context
	blocks chan []byte
	free   chan []byte
	err    error // valid once blocks is closed
	block  []byte
	rest   []byte // unread part of block
}

func newInterruptible(ctx context.Context, in io.Reader) *interruptible {
	const size, count = 256 << 10, 3
	r := &interruptible{ctx: ctx, blocks: make(chan []byte, count), free: make(chan []byte, count)}
	for range count {
		r.free <- make([]byte, size)
	}
	go func() {
		defer close(r.blocks)
		for {
			var block []byte
			select {
			case block = <-r.free:
			case <-ctx.Done():
				return
			}
			n, err := in.Read(block[:size])
			if n > 0 {
				select {
				case r.blocks <- block[:n]:
				case <-ctx.Done():
					return
				}
			}
			if err != nil {
				r.err = err
				return
			}
		}
	}()
	return r
}

// ready reports whether Read would answer at once.
func (r *interruptible) ready() bool { return len(r.rest) > 0 || len(r.blocks) > 0 }

func (r *interruptible) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		if r.block != nil {
			r.free <- r.block
			r.block = nil
		}
		if r.ctx.Err() != nil {
			return 0, r.ctx.Err()
		}
		select {
		case block, ok := <-r.blocks:
			if !ok {
				if r.ctx.Err() != nil {
					return 0, r.ctx.Err()
				}
				return 0, r.err
			}
			r.block, r.rest = block, block
		case <-r.ctx.Done():
			return 0, r.ctx.Err()
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}
