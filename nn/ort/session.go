//go:build cgo && linux && (amd64 || arm64)

package ort

// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"unsafe"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
)

// session is a model that is prepared for one batch size on boards of one size.
type session struct {
	of      *Backend
	batch   int
	inputs  [][]int64 // shapes
	outputs [][]int64

	mu   sync.Mutex // held while the session is being made
	c    unsafe.Pointer
	run  sync.Mutex    // held while a GPU computes
	free chan *slot    // idle slots
	room chan struct{} // a token for each slot that has not been made yet
}

// slot is the memory of a call.
type slot struct {
	c               *C.ort_slot
	part            eval.Batch
	inputs, outputs []Buffer
	watch           chan context.Context // starts a watch; closed when the slot is freed
	ran             chan struct{}        // ends the watch
	watched         chan bool            // result of the watch: whether it cancelled the run
}

// newSession returns a session that is not open yet.
func (b *Backend) newSession(board *game.Board, batch int) *session {
	s := &session{of: b, batch: batch, free: make(chan *slot, b.slots), room: make(chan struct{}, b.slots)}
	for range b.slots {
		s.room <- struct{}{}
	}
	for _, t := range b.codec.Inputs {
		s.inputs = append(s.inputs, t.shape(board, batch))
	}
	for _, t := range b.codec.Outputs {
		s.outputs = append(s.outputs, t.shape(board, batch))
	}
	return s
}

// open opens the session unless it is already open. It fixes the batch size, and the board sizes that the model leaves free, so that the
// library can prepare everything that depends on them.
func (s *session) open(board *game.Board) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.c != nil {
		return nil
	}
	b := s.of
	sizes, err := b.signature.freeSizes(b.codec.Inputs, s.inputs)
	if err != nil {
		return err
	}
	options, err := b.library.options(b.threads)
	if err != nil {
		return err
	}
	defer b.library.freeOptions(options)
	for name, size := range sizes {
		c := C.CString(name)
		err := failure(C.ort_options_dimension(b.library.c, options, c, C.int64_t(size)))
		C.free(unsafe.Pointer(c))
		if err != nil {
			return err
		}
	}
	engines := ""
	if b.options.provider() == TensorRT {
		if engines, err = b.library.enginesFolder(b.model, fmt.Sprintf("%dx%dx%d", s.batch, board.Rows(), board.Columns())); err != nil {
			return err
		}
	}
	if err := b.library.addProvider(options, b.options, engines); err != nil {
		return err
	}
	if s.c, err = b.library.session(options, b.model); err != nil {
		return fmt.Errorf("prepare batches of %d for boards of %d columns and %d rows: %w", s.batch, board.Columns(), board.Rows(), err)
	}
	return nil
}

// take waits for a free slot. Unless it returns an error, the caller must return the slot to s.free.
func (s *session) take(ctx context.Context) (*slot, error) {
	select { // prefer an idle slot to a new one
	case p := <-s.free:
		return p, nil
	default:
	}
	select {
	case <-s.room:
		return s.newSlot()
	default:
	}
	select {
	case p := <-s.free:
		return p, nil
	case <-s.room: // for the token of a slot that could not be made
		return s.newSlot()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// newSlot makes a slot, for which the caller has taken a token from s.room. After an error it returns the token.
func (s *session) newSlot() (*slot, error) {
	b := s.of
	p := &slot{watch: make(chan context.Context), ran: make(chan struct{}), watched: make(chan bool)}
	err := failure(C.ort_slot_new(b.library.c, s.c, C.size_t(len(s.inputs)), C.size_t(len(s.outputs)), &p.c))
	for i, t := range b.codec.Inputs {
		if err == nil {
			err = p.add(&p.inputs, t, s.inputs[i], i)
		}
	}
	for i, t := range b.codec.Outputs {
		if err == nil {
			err = p.add(&p.outputs, t, s.outputs[i], len(s.inputs)+i)
		}
	}
	if err != nil {
		C.ort_slot_free(p.c)
		s.room <- struct{}{}
		return nil, fmt.Errorf("memory for %d rows: %w", s.batch, err)
	}
	go p.watcher()
	return p, nil
}

// add allocates a tensor's memory, filled with zeros, because padding rows must be finite too.
func (p *slot) add(buffers *[]Buffer, t Tensor, shape []int64, index int) error {
	name := C.CString(t.Name)
	defer C.free(unsafe.Pointer(name))
	if err := failure(C.ort_slot_tensor(p.c, C.size_t(index), name, C.int(t.Type), (*C.int64_t)(&shape[0]), C.size_t(len(shape)))); err != nil {
		return fmt.Errorf("tensor %v: %w", t, err)
	}
	row := 1
	for _, size := range shape[1:] {
		row *= int(size)
	}
	at := unsafe.Slice(p.c.data, int(p.c.inputs+p.c.outputs))[index]
	clear(unsafe.Slice((*byte)(at), int(shape[0])*row*t.Type.size()))
	*buffers = append(*buffers, Buffer{kind: t.Type, at: at, row: row})
	return nil
}

// compute answers rows i to j-1 of a batch with a slot; there may be at most as many as the session's batch size. It allocates nothing.
func (s *session) compute(ctx context.Context, p *slot, b *eval.Batch, i, j int) error {
	p.part = b.Slice(i, j)
	defer func() { p.part = eval.Batch{} }()
	for k := range p.inputs {
		p.inputs[k].rows = j - i
	}
	for k := range p.outputs {
		p.outputs[k].rows = j - i
	}
	codec := &s.of.codec
	codec.Fill(b.Board, p.part.Pos, p.inputs)
	if err := s.runSlot(ctx, p); err != nil {
		return err
	}
	if err := codec.Answer(&p.part, p.outputs); err != nil {
		return err
	}
	for k := range p.part.Source {
		p.part.Source[k] = s.of.source
	}
	return p.part.Finite()
}

// runSlot runs the model on a slot. If ctx can end, a goroutine watches it.
func (s *session) runSlot(ctx context.Context, p *slot) error {
	if !s.of.options.onCPU() {
		s.run.Lock()
		defer s.run.Unlock()
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if ctx.Done() == nil {
		return s.explain(C.ort_slot_run(p.c))
	}
	p.watch <- ctx
	text := C.ort_slot_run(p.c)
	p.ran <- struct{}{}
	ended := <-p.watched
	if ended {
		C.ort_slot_resume(p.c)
	}
	if err := s.explain(text); err != nil {
		if ended {
			return ctx.Err()
		}
		return err
	}
	return nil
}

// watcher cancels each run whose context ends, one run after the other.
func (p *slot) watcher() {
	for ctx := range p.watch {
		select {
		case <-p.ran:
			p.watched <- false
		case <-ctx.Done():
			C.ort_slot_end(p.c)
			<-p.ran
			p.watched <- true
		}
	}
}

// explain returns the error of a run, with the shapes of the inputs.
func (s *session) explain(text C.ort_error) error {
	if text == nil {
		return nil
	}
	var inputs []string
	for i, t := range s.of.codec.Inputs {
		inputs = append(inputs, fmt.Sprintf("%s %v %v", t.Name, t.Type, s.inputs[i]))
	}
	return fmt.Errorf("run with %s: %w", strings.Join(inputs, ", "), failure(text))
}

// close frees the session, which must be idle.
func (s *session) close() {
	for len(s.free) > 0 {
		p := <-s.free
		close(p.watch)
		C.ort_slot_free(p.c)
	}
	if s.c != nil {
		C.ort_session_free(s.of.library.c, s.c)
	}
	s.c = nil
}
