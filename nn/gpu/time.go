//go:build gpu && cgo && linux && amd64

package gpu

import (
	"errors"
	"fmt"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/kernels/cuda/driver"
)

// Time measures, on the first device that works, launches of all the positions at once, one after the other, without copies
// in between. Other batches wait meanwhile.
func (e *Backend) Time(board *game.Board, pos []game.Position, launches int) (timing Timing, err error) {
	live := *e.live.Load()
	if len(live) == 0 {
		return timing, e.noDevice()
	}
	s := live[0]
	p, err := e.serves.planned(board, targetOf(s.device.info))
	if err != nil {
		return timing, err
	}
	v := p.variants[p.index(len(pos))]
	timing = Timing{Kernel: v.Kernel.Name, Boards: v.Boards, Wave: v.Boards * s.device.info.Multiprocessors}
	o := order{done: make(chan struct{}), do: func() error {
		timing.Seconds, err = s.time(v, pos, launches)
		return err
	}}
	select {
	case s.orders <- o:
		select {
		case <-o.done:
		case <-s.dead:
		}
		return timing, err
	case <-s.dead:
		return timing, e.noDevice()
	}
}

// time returns the seconds of one launch. An error ends the session, which frees what was allocated here.
func (s *session) time(v *variant, pos []game.Position, launches int) (float64, error) {
	if err := s.load(v); err != nil {
		return 0, err
	}
	x := &slot{session: s, stream: s.tester.stream, job: new(job)}
	host := make([]byte, len(pos)*v.PositionBytes())
	v.PutPositions(host, pos)
	var from, to driver.Event
	var err [4]error
	x.in, err[0] = s.c.Alloc(len(host))
	x.out, err[1] = s.c.Alloc(len(pos) * v.RowBytes())
	from, err[2] = s.c.NewEvent()
	to, err[3] = s.c.NewEvent()
	if err := errors.Join(err[:]...); err != nil {
		return 0, fmt.Errorf("time %d positions: %w", len(pos), err)
	}
	if err := s.c.Upload(x.in, host); err != nil {
		return 0, err
	}
	for i := range launches + 1 {
		if i == 1 { // the first launch warms up
			if err := s.c.Record(from, x.stream); err != nil {
				return 0, err
			}
		}
		if err := s.kernel(x, v.plan, v.layout, len(pos), x.in, x.out); err != nil {
			return 0, err
		}
	}
	if err := errors.Join(s.c.Record(to, x.stream), s.c.WaitEvent(to)); err != nil {
		return 0, err
	}
	ms, failed := s.c.Elapsed(from, to)
	if x.scratchBytes > 0 {
		failed = errors.Join(failed, s.c.Free(x.scratch))
	}
	failed = errors.Join(failed, s.c.Free(x.in), s.c.Free(x.out), s.c.DestroyEvent(from), s.c.DestroyEvent(to))
	return ms / 1e3 / float64(launches), failed
}
