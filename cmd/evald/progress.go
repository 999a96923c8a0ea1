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

// progress is one line on standard error that is written over, where that is a terminal.
type progress struct {
	w     io.Writer // nil where nobody looks
	size  int64     // bytes of input, 0 where not known
	since time.Time

	mu   sync.Mutex // a solver says how far it is in a goroutine of its own
	last time.Time
}

func newProgress(stderr io.Writer, size int64) *progress {
	p := &progress{size: size, since: time.Now(), last: time.Now()}
	if isTerminal(stderr) {
		p.w = stderr
	}
	return p
}

const progressEvery = 200 * time.Millisecond

// due reports whether text would write: for lines that cost something to make.
func (p *progress) due() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.w != nil && time.Since(p.last) >= progressEvery
}

// text writes a line over the last one, unless that is too new.
func (p *progress) text(s string) {
	if !p.due() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = time.Now()
	fmt.Fprintf(p.w, "\r\x1b[K%s", p.cut(s))
}

// cut shortens a line to the width of the terminal, since one that is wrapped cannot be written over.
func (p *progress) cut(s string) string {
	f, ok := p.w.(*os.File)
	if !ok {
		return s
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if runes := []rune(s); err == nil && width > 1 && len(runes) >= width {
		return string(runes[:width-1])
	}
	return s
}

// show is text for a stream of lines.
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

// counting gives a function that says how many of so many positions are done, how fast, and how long the rest will take.
// before is how many an earlier run did. It says so at once, since the first of them can take long.
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

// atOnce lets the next text be written however new the last one is.
func (p *progress) atOnce() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = time.Time{}
}

func (p *progress) clear() {
	if p.w != nil {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
