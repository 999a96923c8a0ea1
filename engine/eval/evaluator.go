package eval

import (
	"context"
	"fmt"
	"sync"

	"github.com/evald/evald/engine/fault"
	"github.com/evald/evald/engine/game"
)

// Evaluator answers positions with a Backend. Evaluate is for answers that are shown or stored, Best
// for callers that need no more of them than a move and a value, Leaves for tree searches. All are safe
// for concurrent use. A batch passes these steps in order:
//
//	ready     the slices have the right lengths, the backend supports the board, and the context has not ended
//	finished  the rules answer games that are over (Leaves refuses them)
//	rules     the rules answer positions that the next stones decide (not Leaves; see Outlook of game.Board)
//	exact     a solver answers the positions that it proves, with Options.Exact (not Leaves)
//	cache     earlier answers, with a Cache
//	backend   computes; a Fallback asks its stages in turn, a queue.Batcher merges callers' rows
//
// A panic of a backend is an error, a *fault.Error, of each caller whose rows it had. The Evaluator
// continues to answer.
type Evaluator struct {
	backend Backend
	options Options
	model   uint32                  // the number of Options.Model in Options.Cache
	boards  func(*game.Board) error // Attributes.Supports of backend
	work    *sync.Pool
}

// Options of an Evaluator. The zero value has no cache.
type Options struct {
	// Cache stores answers under the name Model. New weights must have a new name.
	Cache *Cache
	Model string

	// OwnRules means that the backend applies the rules itself, as a search does. Then Evaluate skips the rules step.
	OwnRules bool

	// Exact, if not nil, gets the positions that the rules leave open; see NewExact. Rows to which it gives Source None continue with the
	// next step.
	Exact Backend

	// OnAnswers, if not nil, is called with the sources of each answered batch; concurrently.
	OnAnswers func([]Source)
}

// New returns an Evaluator of a backend.
func New(b Backend, o Options) *Evaluator {
	e := &Evaluator{backend: b, options: o, boards: b.Attributes().Supports, work: &sync.Pool{New: func() any { return new(undecided) }}}
	if o.Cache != nil {
		e.model = o.Cache.model(o.Model)
	}
	return e
}

// Backend returns the wrapped backend, so that callers can make an Evaluator with other options.
func (e *Evaluator) Backend() Backend { return e.backend }

// Supports returns nil if the backend answers positions of the board, and otherwise an
// *UnsupportedError. Callers that play or search ask first, because positions that the rules decide
// do not reach the backend.
func (e *Evaluator) Supports(b *game.Board) error {
	if e.boards == nil {
		return nil
	}
	return e.boards(b)
}

// WithBackend returns an Evaluator with another backend of the same Attributes, such as a
// queue.Client, which shares everything else with e.
func (e *Evaluator) WithBackend(b Backend) *Evaluator {
	of := *e
	of.backend = b
	return &of
}

// WithExact returns an Evaluator with another Options.Exact, which shares everything else with e.
func (e *Evaluator) WithExact(x Backend) *Evaluator {
	of := *e
	of.options.Exact = x
	return &of
}

// Raw returns an Evaluator that answers with the backend alone: Evaluate skips the rules and exact
// steps. So a network can be measured without their help. It shares everything else with e.
func (e *Evaluator) Raw() *Evaluator {
	of := *e
	of.options.OwnRules, of.options.Exact = true, nil
	return &of
}

// Evaluate fills WDL, Policy and Source for every Pos. A row's answer is bitwise the same in every batch, if the backend is Invariant.
// Evaluate does not retain b. After an error the contents of WDL, Policy and Source are unspecified. If ctx has ended, the error wraps
// ctx.Err().
func (e *Evaluator) Evaluate(ctx context.Context, b *Batch) error {
	if err := e.ready(ctx, b); err != nil {
		return err
	}
	if err := e.answer(ctx, b.Board, b.Pos, b.decide, func(w *undecided, first, last int) { w.giveBack(b, first, last) }); err != nil {
		return err
	}
	e.answered(b.Source)
	return nil
}

// Leaves fills every row with the backend's raw answer, even if the next stones decide the position: trees apply the rules themselves. If a
// game is over, it returns an error that names the row. Otherwise it is like Evaluate.
func (e *Evaluator) Leaves(ctx context.Context, b *Batch) error {
	if err := e.ready(ctx, b); err != nil {
		return err
	}
	if err := b.Unfinished(); err != nil {
		return fmt.Errorf("evaluate: %w", err)
	}
	if err := e.compute(ctx, b); err != nil {
		return err
	}
	e.answered(b.Source)
	return nil
}

func (e *Evaluator) ready(ctx context.Context, b *Batch) error {
	if err := b.Ready(ctx); err != nil {
		return err
	}
	return e.Supports(b.Board)
}

func (e *Evaluator) answered(by []Source) {
	if e.options.OnAnswers != nil {
		e.options.OnAnswers(by)
	}
}

// reader reads the answers of rows first up to last of w.
type reader func(w *undecided, first, last int)

// answer passes positions through the steps: finished, rules, exact, cache, backend. It calls decide and
// read once for each of them.
func (e *Evaluator) answer(ctx context.Context, b *game.Board, all []game.Position, decide decider, read reader) error {
	w := e.work.Get().(*undecided)
	defer e.work.Put(w)
	w.take(b, all, e.options.OwnRules, decide)
	if err := w.prove(ctx, e.options.Exact, read); err != nil {
		return err
	}
	if err := e.compute(ctx, &w.batch); err != nil {
		return err
	}
	read(w, 0, len(w.open))
	return nil
}

// compute answers unfinished games: cache, backend.
func (e *Evaluator) compute(ctx context.Context, b *Batch) error {
	if len(b.Pos) == 0 {
		return nil
	}
	if e.options.Cache == nil {
		return compute(ctx, e.backend, b)
	}
	m := e.options.Cache.look(b, e.model)
	defer e.options.Cache.work.Put(m)
	if len(m.rows) == 0 {
		return nil
	}
	err := compute(ctx, e.backend, &m.batch)
	if err == nil {
		e.options.Cache.keep(b, m)
	}
	return err
}

// compute calls a backend. A panic becomes its error.
func compute(ctx context.Context, backend Backend, b *Batch) (err error) {
	defer fault.Catch(&err)
	return backend.Compute(ctx, b)
}
