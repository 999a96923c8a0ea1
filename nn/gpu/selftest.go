//go:build gpu && cgo && linux && amd64

package gpu

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/kernels/cuda/driver"
)

// testBoard is the board that a device is tested on before it serves.
var testBoard = game.MustBoard(game.Connect4)

// errSelfTest means that a device computes wrong answers.
var errSelfTest = errors.New("self-test failed")

// How far an answer may be from the reference's: mostApart is for the largest difference of a probability in a position,
// meanApart for its mean over the positions. Rounding to fp16 moved the
// answers of the networks that ship by about 0.005 in the worst of 1200 positions.
const (
	mostApart = 0.01
	meanApart = 0.005
)

// selfTest evaluates a few positions, repeated over more than one wave of all multiprocessors. All repetitions must have the
// same bits, and the first must agree with the reference. All kernels of a family must answer with the same bits.
func (s *session) selfTest(v *variant) error {
	x, p, want := s.tester, v.test.plan, v.test.want
	n := min(p.Boards*s.device.info.Multiprocessors+1, p.room())
	in, size := x.hostIn.Bytes(), p.PositionBytes()
	for i := range n {
		p.PutPosition(in[i*size:], want.Pos[i%probes])
	}
	out := x.hostOut.Bytes()[:n*p.RowBytes()]
	clear(out)
	if err := errors.Join(s.start(x, p, n), s.c.Wait(x.stream)); err != nil {
		return err
	}
	if err := v.test.compare(out); err != nil {
		return err
	}
	first := out[:min(n, probes)*p.RowBytes()]
	of := proof{p.Kernel.Family(), want}
	if before, ok := s.proofs[of]; !ok || len(before) < len(first) {
		s.proofs[of] = bytes.Clone(first)
	}
	if !bytes.HasPrefix(s.proofs[of], first) {
		return fmt.Errorf("kernel %s: %w: its answers are not the bits of the other kernels'", p.Kernel.Name, errSelfTest)
	}
	return nil
}

// compare checks rows of answers. They are those of all probes in turn, again and again.
func (t *test) compare(rows []byte) error {
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("kernel %s: %w: %s", t.plan.Kernel.Name, errSelfTest, fmt.Sprintf(format, args...))
	}
	p, size := t.plan, t.plan.RowBytes()
	n := len(rows) / size
	for i := probes; i < n; i++ {
		if j := i % probes; !bytes.Equal(rows[i*size:(i+1)*size], rows[j*size:(j+1)*size]) {
			return wrong("rows %d and %d are the same position, and differ", j, i)
		}
	}
	got := eval.NewBatch(t.want.Board, min(n, probes))
	copy(got.Pos, t.want.Pos) // for errors
	sum := 0.0
	for i := range got.Pos {
		if err := p.ReadAnswer(got, i, rows[i*size:(i+1)*size]); err != nil {
			return wrong("%v", err)
		}
		apart := max(difference(got.WDLRow(i), t.want.WDLRow(i)), difference(got.PolicyRow(i), t.want.PolicyRow(i)))
		if p.isTables() && apart > 0 {
			return wrong("row %d is %g apart from the reference, which has the same bits if it is right", i, apart)
		}
		if apart > mostApart {
			return wrong("row %d is %.3f apart from the reference, at most %.2f is right", i, apart, mostApart)
		}
		sum += apart
	}
	if mean := sum / float64(len(got.Pos)); mean > meanApart {
		return wrong("rows are %.3f apart from the reference, at most %.2f is right", mean, meanApart)
	}
	return nil
}

func difference(x, y []float32) float64 {
	d := 0.0
	for i := range x {
		d = max(d, math.Abs(float64(x[i])-float64(y[i])))
	}
	return d
}

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
	err = s.order(func() (err error) {
		timing.Seconds, err = s.time(v, pos, launches)
		return err
	})
	return timing, err
}

// time returns the seconds of one launch. An error ends the session, which frees what was allocated here.
func (s *session) time(v *variant, pos []game.Position, launches int) (float64, error) {
	if err := s.load(v); err != nil {
		return 0, err
	}
	x := &slot{session: s, stream: s.tester.stream, job: new(job)}
	size := v.PositionBytes()
	host := make([]byte, len(pos)*size)
	for i, at := range pos {
		v.PutPosition(host[i*size:], at)
	}
	var from, to driver.Event
	var err [4]error
	x.in, err[0] = s.c.Alloc(len(host))
	x.out, err[1] = s.c.Alloc(len(pos) * v.RowBytes())
	from, err[2] = s.c.NewEvent()
	to, err[3] = s.c.NewEvent()
	if err := cmp.Or(err[:]...); err != nil {
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
		if err := s.kernel(x, v.plan, len(pos), x.in, x.out); err != nil {
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
