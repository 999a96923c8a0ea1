package main

import (
	"bytes"
	"io"
	"sync/atomic"
	"time"
)

// logQueue passes the lines of a log on to a writer. A writer that blocks, such as a pipe that no
// program reads or a terminal that is stopped, must not block the service: when linesWaiting lines
// wait, further ones are dropped and counted.
type logQueue struct {
	w       io.Writer
	report  func(lost uint64) // writes a record about lost lines to w
	lines   chan []byte
	lost    atomic.Uint64 // lines that were dropped, or that w has not accepted
	ending  chan struct{}
	written chan struct{} // closed when all lines are written
}

const (
	linesWaiting  = 1024
	lastLinesTime = time.Second // for the lines that wait at the end
)

func newLogQueue(w io.Writer) *logQueue {
	return &logQueue{w: w, lines: make(chan []byte, linesWaiting), ending: make(chan struct{}), written: make(chan struct{})}
}

// Write implements io.Writer. It never blocks. Each call has whole lines.
func (q *logQueue) Write(p []byte) (int, error) {
	select {
	case q.lines <- bytes.Clone(p):
	default:
		q.lost.Add(1)
	}
	return len(p), nil
}

// run writes lines until close is called. Once no line waits, it reports those that were lost
// meanwhile.
func (q *logQueue) run() {
	defer close(q.written)
	reported := uint64(0)
	write := func(line []byte) {
		if _, err := q.w.Write(line); err != nil {
			q.lost.Add(1)
		}
		if lost := q.lost.Load(); lost > reported && len(q.lines) == 0 {
			q.report(lost - reported)
			reported = lost
		}
	}
	for {
		select {
		case line := <-q.lines:
			write(line)
			continue
		default:
		}
		select {
		case line := <-q.lines:
			write(line)
		case <-q.ending: // and no line waits
			return
		}
	}
}

// close writes the lines that wait, unless the writer blocks. It is called once.
func (q *logQueue) close() {
	close(q.ending)
	select {
	case <-q.written:
	case <-time.After(lastLinesTime):
	}
}
