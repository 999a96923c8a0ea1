// Package stream reads lines of positions, evaluates them and writes the answers in the order of the lines. It evaluates lines in batches,
// several batches at once, in bounded memory.
package stream

import (
	"context"
	"errors"
	"io"
	"iter"
	"slices"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/fault"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/jobs"
)

// Format writes answers. Run may call Encode concurrently with different chunks, but not Write and Close.
type Format interface {
	Encode(c *Chunk)      // prepares c for Write
	Write(c *Chunk) error // is called in the order of the input
	Close(Summary) error  // completes the output
}

// Job configures Run.
type Job struct {
	Evaluator *eval.Evaluator
	Model     func(game.Rules) string // returns the evaluator's name for a game; answers name it, or the heuristic that answered in its place
	Rows      int                     // maximum number of lines per batch, 1 or more
	Workers   int                     // number of concurrent batches, 1 or more
	Progress  func(Summary)

	AnyPosition bool // accept positions that no game reaches
}

// Summary counts what has been written so far.
type Summary struct {
	Lines   int64 // answered or refused
	Bad     int64 // refused
	GivenUp int64 // begun but cut short by an interrupt, and so neither answered nor refused
	Bytes   int64 // of input
	Sources map[eval.Source]int64
}

// Answer is a line and its answer, or Line.Err if there is none.
type Answer struct {
	Line
	State game.State

	batch *eval.Batch
	row   int
	model func(game.Rules) string
}

// WDL, Policy, Value and Source return parts of the evaluator's answer. Err must be nil.
func (a *Answer) WDL() []float32      { return a.batch.WDLRow(a.row) }
func (a *Answer) Policy() []float32   { return a.batch.PolicyRow(a.row) }
func (a *Answer) Value() float32      { return a.batch.Value(a.row) }
func (a *Answer) Source() eval.Source { return a.batch.Source[a.row] }

// Model returns the name of the evaluator that gave the answer.
func (a *Answer) Model() string { return a.Source().By(a.model(a.State.Board.Rules())) }

// Best returns the most likely move, from 1, or 0 if the game is over.
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
	Text    []byte // result of Encode for formats of text
	rows    []Row
	cells   []rowCells // for rows

	lines   []Line
	bytes   int64
	batches []*eval.Batch // one for each game in the chunk; [:games] are in use
	games   int

	bad     int64 // answers with an error
	sources []eval.Source
	counts  []int64 // numbers of answers without an error, by index in sources
}

// Run reads lines from in until its end or until ctx ends. Then it finishes and writes the batches in progress, unless they take long, and
// drops the lines read after them. So the answers are always those to the first lines. Run returns an error of reading or writing, or
// ctx.Err() if lines are left without an answer. Bad lines are counted, and are not errors.
func Run(ctx context.Context, in io.Reader, out Format, job Job) (Summary, error) {
	window := 2 * job.Workers
	free := make(chan *Chunk, window+job.Workers+2)
	parsers := make([]game.Parser, job.Workers)
	for i := range parsers {
		parsers[i].AnyPosition = job.AnyPosition
	}
	sum := Summary{Sources: map[eval.Source]int64{}}
	err := jobs.Stream[*Chunk]{
		Items:   func(ctx context.Context) iter.Seq2[*Chunk, error] { return chunks(NewReader(ctx, in), job, free) },
		Workers: job.Workers,
		Window:  window,
		Work: func(ctx context.Context, worker int, c *Chunk) error {
			err := c.answer(ctx, &parsers[worker], job.Evaluator)
			if err == nil {
				c.count()
				out.Encode(c)
			}
			return err
		},
		Write: func(c *Chunk, done bool) (err error) {
			if !done {
				sum.GivenUp += int64(len(c.Answers))
			} else {
				sum.add(c)
				err = out.Write(c)
				if job.Progress != nil {
					job.Progress(sum)
				}
			}
			free <- c
			return err
		},
	}.Run(ctx)
	return sum, errors.Join(err, out.Close(sum))
}

// chunks yields all lines in chunks. It reuses chunks from free if there are any.
func chunks(r *Reader, job Job, free <-chan *Chunk) iter.Seq2[*Chunk, error] {
	return func(yield func(*Chunk, error) bool) {
		for more := true; more; {
			var c *Chunk
			select {
			case c = <-free:
			default:
				c = &Chunk{model: job.Model}
			}
			var err error
			if more, err = c.fill(r, job.Rows); len(c.Answers) > 0 && !yield(c, nil) {
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

func (s *Summary) add(c *Chunk) {
	s.Lines += int64(len(c.Answers))
	s.Bytes += c.bytes
	s.Bad += c.bad
	for i, source := range c.sources {
		s.Sources[source] += c.counts[i]
	}
}

func (c *Chunk) fill(r *Reader, rows int) (more bool, err error) {
	before := r.bytes
	c.lines, more, err = r.Next(c.lines[:0], rows)
	c.bytes = r.bytes - before
	c.Answers = c.Answers[:0]
	for _, l := range c.lines {
		c.Answers = append(c.Answers, Answer{Line: l, model: c.model})
	}
	return more, err
}

// answer parses the chunk's lines and evaluates the valid ones, in one batch for each game. It returns an error only if the end of ctx cut
// the evaluator short, or after a panic in it.
func (c *Chunk) answer(ctx context.Context, parser *game.Parser, e *eval.Evaluator) error {
	c.games = 0
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
		if err != nil && (ctx.Err() != nil || fault.In(err) != nil) {
			return err
		}
		if err != nil {
			for i := range c.Answers {
				if c.Answers[i].batch == b {
					c.Answers[i].Err = err
				}
			}
		}
	}
	return nil
}

func (c *Chunk) count() {
	c.bad, c.sources, c.counts = 0, c.sources[:0], c.counts[:0]
	for i := range c.Answers {
		if c.Answers[i].Err != nil {
			c.bad++
			continue
		}
		source := c.Answers[i].Source()
		at := slices.Index(c.sources, source)
		if at < 0 {
			at = len(c.sources)
			c.sources, c.counts = append(c.sources, source), append(c.counts, 0)
		}
		c.counts[at]++
	}
}

// encode sets Text to the text of all answers.
func (c *Chunk) encode(appendAnswer func([]byte, *Answer) []byte) {
	c.Text = c.Text[:0]
	for i := range c.Answers {
		c.Text = appendAnswer(c.Text, &c.Answers[i])
	}
}

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
