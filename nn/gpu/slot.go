//go:build gpu && cgo && linux && amd64

package gpu

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/kernels/cuda/driver"
)

// call is the state of one Evaluate: its slots that are with devices, the oldest first. It is reused.
type call struct {
	flying []*slot
	timer  *time.Timer
}

func newCall() *call {
	c := &call{timer: time.NewTimer(time.Hour)}
	c.timer.Stop()
	return c
}

// run cuts the batch into launches. It waits for a slot only while it has none, so that callers cannot deadlock.
func (c *call) run(ctx context.Context, e *Backend, b *eval.Batch) (err error) {
	defer func() {
		for _, s := range c.flying { // after an error
			s.abandon()
		}
		c.flying = c.flying[:0]
	}()
	for next := 0; next < len(b.Pos) || len(c.flying) > 0; {
		var s *slot
		if next < len(b.Pos) {
			if s, err = e.take(ctx, len(c.flying) == 0); err != nil {
				return err
			}
		}
		if s == nil {
			if err = c.finish(ctx, b); err != nil {
				return err
			}
			continue
		}
		if err = s.fill(e.serves, b, next, 1+e.idle(s.session)); err != nil {
			s.free()
			return err
		}
		next += s.n
		s.submit()
		c.flying = append(c.flying, s)
	}
	return nil
}

// finish waits for the oldest slot and reads its answers.
func (c *call) finish(ctx context.Context, b *eval.Batch) error {
	s := c.flying[0]
	c.timer.Reset(s.session.device.retry.hang)
	defer c.timer.Stop()
	select {
	case err := <-s.done:
		c.flying = append(c.flying[:0], c.flying[1:]...)
		if err == nil {
			if err = s.read(b); err != nil && !errors.Is(err, eval.ErrNotFinite) {
				s.session.condemn(err)
				<-s.session.dead // afterwards no caller gets an answer from that session
			}
		}
		s.free()
		return err
	case <-ctx.Done():
		return fmt.Errorf("evaluate: %w", ctx.Err())
	case <-c.timer.C:
		s.session.condemn(errHung)
		return s.session.over(errHung)
	}
}

// errHung means that a launch does not return. The device's thread may be stuck in the driver, so the caller ends the
// session. If the thread returns, a new session begins as after any fault.
var errHung = errors.New("a launch does not end")

// condemn makes the session's thread end the session because of an error that a caller found.
func (s *session) condemn(err error) {
	select {
	case s.broken <- err:
	default: // another caller did
	}
}

// slot is a stream of a device and the memory for one launch, on the device and pinned on the host. At any time it is in
// exactly one place: in its session's free or submitted, in flight, or with a caller of Compute. Nothing else uses it
// while a caller has it.
type slot struct {
	session *session
	stream  driver.Stream

	hostIn, hostOut driver.Host
	in, out         driver.Memory
	scratch         driver.Memory // of scratchBytes, allocated when a kernel needs it
	scratchBytes    int
	job             *job // allocated separately, since C code reads it

	plan  *planned
	first int // row of the batch
	n     int // rows
	done  chan error
	left  atomic.Int32 // whether the caller still waits: see waiting
}

// The values of slot.left.
const (
	waiting   = iota // the caller waits for done
	ended            // the result is in done
	abandoned        // the caller has left; the slot becomes free when the launch ends
)

// fill takes rows of the batch from first on, a share of them if several devices are free for the batch.
func (s *slot) fill(n *served, b *eval.Batch, first, devices int) (err error) {
	if s.plan, err = n.planned(b.Board, targetOf(s.session.device.info)); err != nil {
		return err
	}
	s.first, s.n = first, s.plan.share(len(b.Pos)-first, devices)
	s.plan.PutPositions(s.hostIn.Bytes(), b.Pos[first:first+s.n])
	return nil
}

// read fills the batch rows that fill took with their answers.
func (s *slot) read(b *eval.Batch) error {
	return s.plan.ReadAnswers(b, s.first, s.first+s.n, s.hostOut.Bytes())
}

// submit passes the slot to the device; the result comes through done.
func (s *slot) submit() {
	s.left.Store(waiting)
	s.session.submitted <- s
}

// end passes the result to the caller. If the caller has gone, it frees the slot.
func (s *slot) end(err error) {
	if s.left.CompareAndSwap(waiting, ended) {
		s.done <- err
		return
	}
	s.free()
}

// abandon leaves the slot to the device, which frees it at its end.
func (s *slot) abandon() {
	if !s.left.CompareAndSwap(waiting, abandoned) {
		<-s.done
		s.free()
	}
}

// free returns the slot to its session.
func (s *slot) free() {
	s.plan = nil
	s.session.free <- s
}
