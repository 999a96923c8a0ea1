//go:build gpu && cgo && linux && amd64

package gpu

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/evald/evald/engine/eval"
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
	for next := 0; ; {
		if next == len(b.Pos) && len(c.flying) == 0 {
			return nil
		}
		var s *slot
		if next < len(b.Pos) {
			if s, err = e.take(ctx, len(c.flying) == 0); err != nil {
				return err
			}
		}
		if s == nil {
			if err := c.finish(ctx, b); err != nil {
				return err
			}
			continue
		}
		if next, err = s.fill(e.serves, b, next, 1+e.idle(s.session)); err != nil {
			s.free()
			return err
		}
		if len(s.rows) == 0 { // only finished games were left
			s.free()
			continue
		}
		s.submit()
		c.flying = append(c.flying, s)
	}
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
			if err = s.read(b); err != nil && !errors.Is(err, errNotFinite) {
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
