package stream

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/evald/evald/engine/game"
)

// byteOrderMark is a mark that editors on Windows write at the start of UTF-8 files.
const byteOrderMark = "\ufeff"

// maxLine is the maximum length of a line in bytes. All positions are shorter.
const maxLine = 64 << 10

// Line is one line of input that holds a position.
type Line struct {
	Number   int    // from 1
	Text     string // the position as it was written
	Followed bool   // whether more text follows, other than a comment that begins with #
	numbers  int    // number of numbers that follow; 0 if anything else follows, other than a comment
	least    int    // of these numbers
	most     int
	Err      error // why the line could not be read or answered; a *game.ParseError has Line set
}

// Reader splits the input into lines. It skips blank lines, lines that begin with #, and a byte order mark at the start. The text after a
// position is a comment, or exact scores: one for the position, or one for each move.
type Reader struct {
	ctx    context.Context
	in     *bufio.Reader
	source *interruptible
	line   int
	bytes  int64 // of the input, read so far

	text []byte // the positions of all lines of one call of Next, for a single string
	ends []int  // the end of each position in text
}

// NewReader returns a Reader that reads in until its end or until ctx ends, even while in blocks.
func NewReader(ctx context.Context, in io.Reader) *Reader {
	source := newInterruptible(ctx, in)
	r := &Reader{ctx: ctx, in: bufio.NewReaderSize(source, maxLine), source: source}
	if part, ok := in.(interface{ LinesBefore() int }); ok { // part of a file
		r.line = part.LinesBefore()
	}
	return r
}

// Next waits for a line, and appends lines until it has most of them or would have to wait for the next one. more is false at the end of
// the input. If ctx has ended, err is ctx.Err(), and lines read ahead are dropped. The texts of the lines share memory.
func (r *Reader) Next(lines []Line, most int) (all []Line, more bool, err error) {
	first := len(lines)
	r.text, r.ends = r.text[:0], r.ends[:0]
	all, more, err = r.next(lines, most)
	text, start := string(r.text), 0
	for i, end := range r.ends {
		all[first+i].Text, start = text[start:end], end
	}
	return all, more, err
}

func (r *Reader) next(lines []Line, most int) (all []Line, more bool, err error) {
	for len(lines) < most {
		if err := r.ctx.Err(); err != nil {
			return lines, false, err
		}
		text, tooLong, err := r.readLine()
		end := err != nil
		if errors.Is(err, io.EOF) {
			err = nil
		}
		if err != nil || end && len(text) == 0 && !tooLong {
			return lines, false, err
		}
		r.line++
		lines = r.add(lines, text, tooLong)
		if end {
			return lines, false, nil
		}
		if len(lines) > 0 && r.wouldWait() {
			return lines, true, nil
		}
	}
	return lines, true, nil
}

// Lines yields all lines, each as soon as it has arrived. It ends with an error of reading, if there is one.
func (r *Reader) Lines() iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		var lines []Line
		for more := true; more; {
			var err error
			lines, more, err = r.Next(lines[:0], 256)
			for _, l := range lines {
				if !yield(l, nil) {
					return
				}
			}
			if err != nil {
				yield(Line{}, err)
				return
			}
		}
	}
}

// wouldWait reports whether the next line has not arrived yet.
func (r *Reader) wouldWait() bool {
	if r.source.ready() {
		return false
	}
	here, _ := r.in.Peek(r.in.Buffered()) // cannot fail: these bytes are buffered
	return bytes.IndexByte(here, '\n') < 0
}

// readLine reads a line without its newline. It drops the rest of a line that is too long. The slice is valid until the next read.
func (r *Reader) readLine() (text []byte, tooLong bool, err error) {
	text, err = r.in.ReadSlice('\n')
	if r.bytes == 0 && r.line == 0 {
		defer func() { text = bytes.TrimPrefix(text, []byte(byteOrderMark)) }()
	}
	r.bytes += int64(len(text))
	for errors.Is(err, bufio.ErrBufferFull) {
		tooLong = true
		var rest []byte
		rest, err = r.in.ReadSlice('\n')
		r.bytes += int64(len(rest))
	}
	if tooLong {
		return nil, true, err
	}
	return bytes.TrimSpace(text), false, err
}

func (r *Reader) add(lines []Line, text []byte, tooLong bool) []Line {
	l := Line{Number: r.line}
	switch {
	case tooLong:
		l.Err = &game.ParseError{Line: r.line, Field: "line", Reason: fmt.Sprintf("is longer than %d bytes", maxLine)}
	case len(text) == 0 || text[0] == '#':
		return lines
	case text[0] != '{' && slices.ContainsFunc(text, mayBeSpace):
		fields := bytes.Fields(text)
		text = fields[0]
		l.Followed = len(fields) > 1 && fields[1][0] != '#'
		l.count(fields[1:])
	}
	r.text = append(r.text, text...)
	r.ends = append(r.ends, len(r.text))
	return append(lines, l)
}

// count counts the numbers that follow a position.
func (l *Line) count(fields [][]byte) {
	for i, field := range fields {
		if field[0] == '#' {
			return
		}
		n, err := strconv.Atoi(string(field))
		if err != nil {
			l.numbers = 0
			return
		}
		if i == 0 {
			l.least, l.most = n, n
		}
		l.numbers, l.least, l.most = i+1, min(l.least, n), max(l.most, n)
	}
}

// mayBeSpace reports whether c is ASCII white space, or a byte of a character beyond ASCII.
func mayBeSpace(c byte) bool { return c <= ' ' || c >= utf8.RuneSelf }

// Parse parses the line's position. Its errors name the line.
func (l *Line) Parse(parser *game.Parser) (game.State, error) {
	if l.Err != nil {
		return game.State{}, l.Err
	}
	state, err := parser.Parse(l.Text)
	if err == nil {
		err = l.checkNumbers(state)
	}
	if bad, ok := errors.AsType[*game.ParseError](err); ok {
		bad.Line = l.Number
	}
	l.Err = err
	return state, err
}

// checkNumbers refuses numbers behind a position that may be further moves: a position with such a
// score has a score that is impossible, or has one stone and scores that are numbers of moves.
func (l *Line) checkNumbers(state game.State) error {
	b := state.Board
	reason := ""
	switch n, stones := l.numbers, state.Position.All.OnesCount(); {
	case n == 0:
		return nil
	case n > 1 && n != b.Actions():
		reason = fmt.Sprintf("%d numbers follow", n)
	case n == 1 && max(l.most, -l.most) > b.Cells():
		reason = fmt.Sprintf("%d follows, which is no score on this board", l.most)
	case stones == 1 && l.least >= 1 && l.most <= b.Actions():
		reason = fmt.Sprintf("it is unclear whether %d follows as a move or as a score", l.most)
	default:
		return nil
	}
	return &game.ParseError{Field: "moves", Value: l.Text, Reason: reason +
		fmt.Sprintf(": write moves together (445); behind them may be the position's score, or one for each of %d moves", b.Actions())}
}

// Interruptible returns a reader of in that returns ctx.Err() when ctx ends, even while in blocks.
func Interruptible(ctx context.Context, in io.Reader) io.Reader { return newInterruptible(ctx, in) }

// interruptible is a reader whose Read returns when ctx ends, even while the input blocks. The goroutine that reads the input is then
// abandoned, because the program is about to end.
type interruptible struct {
	ctx    context.Context
	blocks chan []byte
	err    error  // valid once blocks is closed
	rest   []byte // unread part of a block
}

func newInterruptible(ctx context.Context, in io.Reader) *interruptible {
	r := &interruptible{ctx: ctx, blocks: make(chan []byte, 3)}
	go func() {
		defer close(r.blocks)
		for buffer := make([]byte, 256<<10); r.err == nil && ctx.Err() == nil; {
			var n int
			if n, r.err = in.Read(buffer); n > 0 {
				select {
				case r.blocks <- bytes.Clone(buffer[:n]):
				case <-ctx.Done():
				}
			}
		}
	}()
	return r
}

// ready reports whether Read would return at once.
func (r *interruptible) ready() bool { return len(r.rest) > 0 || len(r.blocks) > 0 }

func (r *interruptible) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		if err := r.ctx.Err(); err != nil {
			return 0, err
		}
		select {
		case block, ok := <-r.blocks:
			if !ok {
				return 0, cmp.Or(r.ctx.Err(), r.err)
			}
			r.rest = block
		case <-r.ctx.Done():
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}
