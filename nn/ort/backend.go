//go:build cgo && linux && (amd64 || arm64)

package ort

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
)

// Backend evaluates batches with a model. It is safe for concurrent use.
type Backend struct {
	library   *Library
	model     Model
	codec     Codec
	options   Options
	signature Signature
	source    eval.Source
	sizes     []int // of batches, ascending
	slots     int   // maximum number of concurrent calls of a session
	threads   int

	open   sync.RWMutex // calls hold it for reading
	closed bool

	mu     sync.Mutex // guards boards and clock
	boards []*boardSessions
	clock  uint64
}

// boardSessions are the sessions for one size of boards.
type boardSessions struct {
	rows, columns, actions int
	sessions               []*session // by batch size
	calls                  int        // number of calls in progress
	used                   uint64     // the clock at the last call
}

// maxBoards is the maximum number of board sizes with sessions. A new size replaces the least recently used one.
const maxBoards = 8

// New opens a model. It reads the model, compares inputs and outputs with the codec, and runs a small model to prove that the provider
// works. Sessions are made when they are first used, or by Prepare. Errors name the model; an error about inputs or outputs lists all of
// them.
func New(m Model, c Codec, o Options) (*Backend, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	l, err := Open(o)
	if err != nil {
		return nil, err
	}
	b := &Backend{library: l, model: m, codec: c, options: o, source: o.source()}
	b.threads = cmp.Or(o.Threads, runtime.GOMAXPROCS(0))
	if b.slots = 2; o.onCPU() {
		b.slots = max(2, b.threads)
	}
	if b.signature, err = l.inspect(m); err == nil {
		err = b.signature.accept(c)
	}
	if err == nil {
		b.sizes, err = b.signature.batches(o)
	}
	if err == nil && !o.onCPU() {
		err = l.prove(o)
	}
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", m.Name, err)
	}
	return b, nil
}

// Library returns ONNX Runtime's library.
func (b *Backend) Library() *Library { return b.library }

// Attributes implements eval.Backend. Depending on provider and model, the last bits of answers may differ between batch sizes.
func (b *Backend) Attributes() eval.Attributes {
	rows := 1024
	if b.options.onCPU() {
		rows = 64
	}
	return eval.Attributes{Rows: bucket(b.sizes, rows)}
}

// Prepare makes the sessions for a batch with the given number of rows. With TensorRT this takes seconds to minutes, once per model.
func (b *Backend) Prepare(board *game.Board, rows int) error {
	b.open.RLock()
	defer b.open.RUnlock()
	if b.closed {
		return b.wrap(errClosed)
	}
	of := b.enter(board)
	defer b.leave(of)
	for {
		s := of.sessions[b.place(rows)]
		if err := s.open(board); err != nil {
			return b.wrap(err)
		}
		if rows -= s.batch; rows <= 0 {
			return nil
		}
	}
}

// Compute implements eval.Backend. It splits large batches. If ctx ends, the run of the model is cancelled.
func (b *Backend) Compute(ctx context.Context, batch *eval.Batch) error {
	if err := b.compute(ctx, batch); err != nil {
		return b.wrap(err)
	}
	return nil
}

func (b *Backend) compute(ctx context.Context, batch *eval.Batch) error {
	b.open.RLock()
	defer b.open.RUnlock()
	if b.closed {
		return errClosed
	}
	of := b.enter(batch.Board)
	defer b.leave(of)
	for i := 0; i < len(batch.Pos); {
		s := of.sessions[b.place(len(batch.Pos)-i)]
		j := min(i+s.batch, len(batch.Pos))
		if err := s.answer(ctx, batch, i, j); err != nil {
			return err
		}
		i = j
	}
	return nil
}

func (s *session) answer(ctx context.Context, b *eval.Batch, i, j int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.open(b.Board); err != nil {
		return err
	}
	p, err := s.take(ctx)
	if err != nil {
		return err
	}
	defer func() { s.free <- p }()
	return s.compute(ctx, p, b, i, j)
}

var errClosed = errors.New("the backend is closed")

func (b *Backend) wrap(err error) error { return fmt.Errorf("model %s: %w", b.model.Name, err) }

// place returns the index in sizes of the batch size for n rows.
func (b *Backend) place(n int) int {
	for i, size := range b.sizes {
		if n <= size {
			return i
		}
	}
	return len(b.sizes) - 1
}

// enter returns the sessions for a board. They stay open until the caller calls leave.
func (b *Backend) enter(board *game.Board) *boardSessions {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.clock++
	var of *boardSessions
	for _, s := range b.boards {
		if s.rows == board.Rows() && s.columns == board.Columns() && s.actions == board.Actions() {
			of = s
		}
	}
	if of == nil {
		of = b.newBoard(board)
	}
	of.calls++
	of.used = b.clock
	return of
}

func (b *Backend) leave(of *boardSessions) {
	b.mu.Lock()
	of.calls--
	b.mu.Unlock()
}

// newBoard adds the sessions of a board size, and removes those of another size if necessary. b.mu is held.
func (b *Backend) newBoard(board *game.Board) *boardSessions {
	if len(b.boards) >= maxBoards {
		oldest := -1
		for i, s := range b.boards {
			if s.calls == 0 && (oldest < 0 || s.used < b.boards[oldest].used) {
				oldest = i
			}
		}
		if oldest >= 0 {
			b.boards[oldest].close()
			b.boards = append(b.boards[:oldest], b.boards[oldest+1:]...)
		}
	}
	of := &boardSessions{rows: board.Rows(), columns: board.Columns(), actions: board.Actions()}
	for _, size := range b.sizes {
		of.sessions = append(of.sessions, b.newSession(board, size))
	}
	b.boards = append(b.boards, of)
	return of
}

func (s *boardSessions) close() {
	for _, of := range s.sessions {
		of.close()
	}
}

// String returns a text such as "ONNX Runtime 1.31.1, cuda".
func (b *Backend) String() string { return fmt.Sprintf("%v, %s", b.library, b.options.provider()) }

// Close waits for calls in progress and frees the model's memory. Later calls fail.
func (b *Backend) Close() error {
	b.open.Lock()
	defer b.open.Unlock()
	b.closed = true
	for _, s := range b.boards {
		s.close()
	}
	b.boards = nil
	return nil
}
