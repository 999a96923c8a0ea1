package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/evald/evald/cmd/evald/internal/stream"
)

// statusLine is the last line of a terminal, which each text overwrites. Other output to that terminal goes through beside.
type statusLine struct {
	mu    sync.Mutex
	file  *os.File
	shown bool
}

// show overwrites the last text. It cuts a text that does not fit, because a wrapped line cannot be overwritten.
func (l *statusLine) show(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	width, _, err := term.GetSize(int(l.file.Fd()))
	if runes := []rune(text); err == nil && width > 1 && len(runes) >= width {
		text = string(runes[:width-1])
	}
	l.shown = true
	fmt.Fprintf(l.file, "\r\x1b[K%s", text)
}

// write clears the line and then writes p to the terminal.
func (l *statusLine) write(to *os.File, p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shown {
		fmt.Fprint(l.file, "\r\x1b[K")
		l.shown = false
	}
	if len(p) == 0 {
		return 0, nil
	}
	return to.Write(p)
}

// beside is a terminal with a status line, which is cleared before anything else is written.
type beside struct {
	*os.File
	line *statusLine
}

func (b beside) Write(p []byte) (int, error)       { return b.line.write(b.File, p) }
func (b beside) WriteString(s string) (int, error) { return b.Write([]byte(s)) }

// withStatusLine gives all streams that are terminals one common status line.
func (s streams) withStatusLine() streams {
	stderr, ok := s.err.(*os.File)
	if !ok || !isTerminal(stderr) {
		return s
	}
	line := &statusLine{file: stderr}
	s.err = beside{stderr, line}
	if stdout, ok := s.out.(*os.File); ok && isTerminal(stdout) {
		s.out = beside{stdout, line}
	}
	return s
}

// progress shows a command's progress on the terminal's status line.
type progress struct {
	line  *statusLine // nil if stderr is not a terminal
	size  int64       // bytes of input, 0 if unknown
	since time.Time

	mu   sync.Mutex // a solver reports its progress in another goroutine
	last time.Time
}

func newProgress(stderr io.Writer, size int64) *progress {
	p := &progress{size: size, since: time.Now(), last: time.Now()}
	if b, ok := stderr.(beside); ok {
		p.line = b.line
	}
	return p
}

func (p *progress) shown() bool { return p.line != nil }

const progressEvery = 200 * time.Millisecond

// due reports whether text would write now, for callers whose text is expensive to make.
func (p *progress) due() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.shown() && time.Since(p.last) >= progressEvery
}

// text overwrites the last line unless that was written less than progressEvery ago.
func (p *progress) text(s string) {
	if !p.due() {
		return
	}
	p.mu.Lock()
	p.last = time.Now()
	p.mu.Unlock()
	p.line.show(s)
}

func (p *progress) show(s stream.Summary) {
	took := time.Since(p.since)
	text := fmt.Sprintf("%d lines, %.0f/s", s.Lines, float64(s.Lines)/took.Seconds())
	if p.size > 0 && s.Bytes > 0 {
		left := time.Duration(float64(took) * float64(p.size-s.Bytes) / float64(s.Bytes))
		text += fmt.Sprintf(", %d%%, %v left", 100*s.Bytes/p.size, left.Round(time.Second))
	}
	if s.Bad > 0 {
		text += fmt.Sprintf(", %d bad", s.Bad)
	}
	p.text(text)
}

// counting returns a function that shows the number of positions done, their rate and the remaining time. An earlier run did the first
// before positions. counting shows its first line at once, because the first positions can take long.
func (p *progress) counting(what string, before, total int) func(done int) {
	start := time.Now()
	p.atOnce()
	show := func(done int) {
		if !p.due() {
			return
		}
		text := fmt.Sprintf("%s: %d of %d positions", what, done, total)
		if rate := float64(done-before) / time.Since(start).Seconds(); rate > 0 {
			left := time.Duration(float64(total-done) / rate * float64(time.Second))
			text += fmt.Sprintf(", %.4g/s, %v left", rate, left.Round(time.Second))
		}
		p.text(text)
	}
	show(before)
	return show
}

// atOnce makes the next call of text write even if the last text is recent.
func (p *progress) atOnce() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = time.Time{}
}

func (p *progress) clear() {
	if p.shown() {
		_, _ = p.line.write(nil, nil)
	}
}
