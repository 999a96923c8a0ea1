// Package analyze answers queries, one JSON object per line, with concurrent searches. Each answer is written as soon as its search ends, so
// the order of the answers differs from the order of the queries.
//
// # Decisions
//
// An mcts.Scheduler searches the queries. After each wave of a search's leaves the engine checks whether to end the search or to report. These
// checks do not change the results.
package analyze

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/evald/evald/cmd/evald/internal/stream"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/jobs"
	"github.com/evald/evald/engine/short"
)

// Summary counts what a run has done.
type Summary struct {
	Queries int // lines that were answered
	Refused int // answered with an error
	GivenUp int // without an answer, because an interrupt cut the search short
}

// lastTime is the time that searches have to end with an answer after an interrupt.
const lastTime = 500 * time.Millisecond

// Run reads queries from in until its end, and returns when all are answered. If ctx ends, Run stops reading and drops the waiting
// searches, ends those in progress with their results so far, and returns the error of ctx. If it cannot write to out, Run returns at once.
func Run(ctx context.Context, c Config, in io.Reader, out io.Writer) (Summary, error) {
	searching, abandon := context.WithCancelCause(context.WithoutCancel(ctx))
	defer abandon(nil)
	finishing, cancel := jobs.Finishing(ctx)
	defer cancel()
	replies := make(chan reply, 64)
	reading, stop := context.WithCancel(ctx)
	defer stop()
	context.AfterFunc(searching, stop) // stop reading when all searches are abandoned
	engine, err := newEngine(reading, searching, c, func(r reply) { replies <- r })
	if err != nil {
		return Summary{}, err
	}
	written := make(chan error, 1)
	go func() { written <- write(replies, out, c.Table, abandon) }()
	r := &run{engine: engine, parser: parser{Search: c.Search, positions: game.Parser{AnyPosition: c.AnyPosition}}}
	defer context.AfterFunc(ctx, r.engine.close)()
	defer context.AfterFunc(finishing, func() {
		r.engine.terminate("", true)
		time.AfterFunc(lastTime, func() { abandon(nil) }) // an evaluator may hang
	})()
	err = r.read(reading, in)
	r.engine.scheduler.Wait()
	if err == nil {
		err = ctx.Err() // even if all queries had been read
	}
	r.Queries -= r.engine.never + r.engine.lost
	r.GivenUp = r.engine.lost
	close(replies)
	if failed := <-written; failed != nil {
		return r.Summary, failed
	}
	return r.Summary, err
}

// write writes replies until replies is closed, and flushes whenever no further reply is waiting. After an error it continues to receive
// them, so that no sender blocks.
func write(replies <-chan reply, out io.Writer, table bool, failed func(error)) (err error) {
	w := bufio.NewWriter(out)
	rows, encode := columns.Writer(w), json.NewEncoder(w)
	for r := range replies {
		if err != nil {
			continue
		}
		if table {
			_, err = rows.Write(r.row())
		} else {
			err = encode.Encode(r)
		}
		if len(replies) == 0 {
			err = errors.Join(err, w.Flush())
		}
		if err != nil {
			failed(err)
		}
	}
	return err
}

type run struct {
	engine *engine
	parser parser
	Summary
}

func (r *run) read(ctx context.Context, in io.Reader) error {
	for l, err := range stream.NewReader(ctx, in).Lines() {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		r.line(&l)
	}
	return nil
}

// line answers a line, or starts its search.
func (r *run) line(l *stream.Line) {
	r.Queries++
	if l.Err != nil {
		r.refuse(reply{Line: l.Number, Error: l.Err.Error()})
		return
	}
	q, err := r.parser.Parse(l.Text)
	for _, field := range q.Unknown {
		r.engine.send(reply{ID: q.ID, Field: short.Text(field), Warned: "this field is unknown and was not read"})
	}
	if err != nil {
		answer := reply{ID: q.ID, Error: err.Error()}
		if q.ID == "" {
			answer.Line = l.Number
		}
		if bad, ok := errors.AsType[*queryError](err); ok {
			answer.Field = bad.field
		}
		r.refuse(answer)
		return
	}
	if q.Action != "" {
		n := r.engine.terminate(q.Terminate, q.Action == terminateAll)
		r.engine.send(reply{ID: q.ID, Action: q.Action, TerminateID: q.Terminate, Terminated: &n})
		return
	}
	if err := r.engine.config.Evaluator.Supports(q.State.Board); err != nil {
		r.refuse(reply{ID: q.ID, Error: err.Error()})
		return
	}
	if q.State.Board.Result(q.State.Position) != game.Ongoing {
		a := Describe(q.Text, r.engine.config.Model(q.State.Board.Rules()), q.State, nil)
		r.engine.send(reply{ID: q.ID, Ended: byGameOver, Answer: &a})
		return
	}
	if !r.engine.accept(q) {
		r.refuse(reply{ID: q.ID, Field: "id", Error: "id " + q.ID + " is that of a search under way"})
	}
}

func (r *run) refuse(answer reply) {
	r.Refused++
	r.engine.send(answer)
}
