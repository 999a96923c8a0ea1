// Package stream passes lines of positions through an evaluator into a file of answers. It processes many lines at once, in
// bounded memory, and writes answers in the order of the lines.
package stream

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
)

// Format writes answers. Encode may be called concurrently, each time with another chunk; Write and Close are not called
// concurrently.
type Format interface {
	Encode(c *Chunk)      // prepares c for Write
	Write(c *Chunk) error // in input order
	Close(Summary) error  // ends the output
}

// Job is one run.
type Job struct {
	Evaluator *eval.Evaluator
	Model     func(game.Rules) string // the evaluator's name for a game; answers name it, or the heuristic that stood in
	Rows      int                     // lines that are evaluated as one batch, 1 or more
	Workers   int                     // batches at once, 1 or more
	Progress  func(Summary)
}

// Summary counts what has been written so far.
type Summary struct {
	Lines   int64 // answered or refused
	Bad     int64 // refused
	GivenUp int64 // begun, but cut short by an interrupt; neither answered nor refused
	Bytes   int64 // of input
	Sources map[eval.Source]int64
}

// grace is the time for which work under way may continue after an interrupt.
const grace = time.Second

// Finishing returns a context for work begun before ctx ends. It ends a little later than ctx, so that short work is
// finished and long work is cut short.
func Finishing(ctx context.Context) (context.Context, context.CancelFunc) {
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	release := context.AfterFunc(ctx, func() { time.AfterFunc(grace, cancel) })
	return inner, func() { release(); cancel() }
}

// Answer is one line and the answer to it. There is no answer if Err is set.
type Answer struct {
	Line
	State game.State

	batch *eval.Batch
	row   int
	model func(game.Rules) string
}

// WDL, Policy, Value and Source are the evaluator's answer; Err must be nil.
func (a *Answer) WDL() []float32      { return a.batch.WDLRow(a.row) }
func (a *Answer) Policy() []float32   { return a.batch.PolicyRow(a.row) }
func (a *Answer) Value() float32      { return a.batch.Value(a.row) }
func (a *Answer) Source() eval.Source { return a.batch.Source[a.row] }

// Model is the name of the evaluator that gave the answer.
func (a *Answer) Model() string { return a.Source().By(a.model(a.State.Board.Rules())) }

// Best is the most likely move, counted from 1; 0 if the game is over.
func (a *Answer) Best() int {
	best, most := 0, float32(0)
	for i, p := range a.Policy() {
		if p > most {
			best, most = i+1, p
		}
	}
	return best
}

// Chunk is up to Job.Rows lines that are processed together.
type Chunk struct {
	model   func(game.Rules) string
	Answers []Answer
	Text    []byte // Encode's result, for Write

	lines   []Line
	bytes   int64
	batches []*eval.Batch // one for each game in the chunk; [:games] are in use
	games   int
	givenUp bool          // an interrupt has cut it short
	done    chan struct{} // receives when the chunk is ready for Write
}

// Run reads lines from in until its end, or until ctx ends. Batches under way at that time are finished and written, unless
// they take long; lines read ahead of them are dropped. So the answers are always those of the first lines. The error is
// that of reading or writing, or ctx.Err() if ctx left lines without an answer. Bad lines are counted; they are not errors.
func Run(ctx context.Context, in io.Reader, out Format, job Job) (Summary, error) {
	finishing, cancel := Finishing(ctx)
	defer cancel()
	r := NewReader(ctx, in)
	work := make(chan *Chunk)
	order := make(chan *Chunk, 2*job.Workers) // bounds the chunks under way
	free := make(chan *Chunk, cap(order)+job.Workers+2)
	var stop atomic.Bool // the output failed, so reading more is useless

	var readErr error
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(work)
		defer close(order)
		for !stop.Load() {
			var c *Chunk
			select {
			case c = <-free:
			default:
				c = &Chunk{model: job.Model, done: make(chan struct{}, 1)}
			}
			more, err := c.fill(r, job.Rows)
			if ctx.Err() != nil && (err != nil || len(c.Answers) > 0) {
				readErr = ctx.Err()
				return
			}
			if len(c.Answers) > 0 || c.bytes > 0 {
				select {
				case work <- c:
					order <- c
				case <-ctx.Done():
					readErr = ctx.Err()
					return
				}
			}
			if err != nil || !more {
				readErr = err
				return
			}
		}
	})
	for range job.Workers {
		wg.Go(func() {
			var parser game.Parser
			for c := range work {
				c.answer(finishing, &parser, job.Evaluator)
				if !c.givenUp {
					out.Encode(c)
				}
				c.done <- struct{}{}
			}
		})
	}

	sum := Summary{Sources: map[eval.Source]int64{}}
	var writeErr error
	for c := range order {
		<-c.done
		switch {
		case writeErr != nil:
		case c.givenUp || sum.GivenUp > 0: // no answer may be written without those before it
			sum.GivenUp += int64(len(c.Answers))
		default:
			sum.add(c)
			if writeErr = out.Write(c); writeErr != nil {
				stop.Store(true)
			}
			if job.Progress != nil {
				job.Progress(sum)
			}
		}
		free <- c
	}
	wg.Wait()
	if sum.GivenUp > 0 && readErr == nil {
		readErr = ctx.Err()
	}
	return sum, errors.Join(readErr, writeErr, out.Close(sum))
}

func (s *Summary) add(c *Chunk) {
	s.Lines += int64(len(c.Answers))
	s.Bytes += c.bytes
	for i := range c.Answers {
		if c.Answers[i].Err != nil {
			s.Bad++
		} else {
			s.Sources[c.Answers[i].Source()]++
		}
	}
}

// fill reads the next lines.
func (c *Chunk) fill(r *Reader, rows int) (more bool, err error) {
	before := r.Bytes()
	c.lines, more, err = r.Next(c.lines[:0], rows)
	c.bytes = r.Bytes() - before
	c.Answers = c.Answers[:0]
	for _, l := range c.lines {
		c.Answers = append(c.Answers, Answer{Line: l, model: c.model})
	}
	return more, err
}

// answer parses the chunk's lines and evaluates the valid ones, one batch for each game among them. If ctx ends first, the
// chunk is given up.
func (c *Chunk) answer(ctx context.Context, parser *game.Parser, e *eval.Evaluator) {
	c.games, c.givenUp = 0, false
	for i := range c.Answers {
		a := &c.Answers[i]
		state, err := a.Parse(parser)
		if err != nil {
			continue
		}
		a.State = state
		a.batch = c.batchOf(state.Board)
		a.row = len(a.batch.Pos)
		a.batch.Pos = append(a.batch.Pos, state.Position)
	}
	for _, b := range c.batches[:c.games] {
		b.Reset(b.Board, len(b.Pos))
		err := e.Evaluate(ctx, b)
		if err != nil && ctx.Err() != nil {
			c.givenUp = true
			return
		}
		if err != nil {
			for i := range c.Answers {
				if c.Answers[i].batch == b {
					c.Answers[i].Err = err
				}
			}
		}
	}
}

// batchOf returns the chunk's batch for a game.
func (c *Chunk) batchOf(board *game.Board) *eval.Batch {
	for _, b := range c.batches[:c.games] {
		if b.Board == board || b.Board.Rules() == board.Rules() {
			return b
		}
	}
	if c.games == len(c.batches) {
		c.batches = append(c.batches, &eval.Batch{})
	}
	b := c.batches[c.games]
	c.games++
	b.Reset(board, 0)
	return b
}
