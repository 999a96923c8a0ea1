//go:build gpu && cgo && linux && amd64

package gpu

import (
	"bytes"
	"errors"
	"fmt"
	"math"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
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
		p.PutPositions(in[i*size:], want.Pos[i%probes:i%probes+1])
	}
	out := x.hostOut.Bytes()[:n*p.RowBytes()]
	clear(out)
	if err := errors.Join(s.start(x, p, v.layout, n), s.c.Wait(x.stream)); err != nil {
		return err
	}
	if err := v.test.compare(out); err != nil {
		return err
	}
	first := out[:min(n, probes)*p.RowBytes()]
	of := proof{v.layout, want}
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
	sum := 0.0
	for i := range got.Pos {
		if err := p.ReadAnswer(got, i, rows[i*size:(i+1)*size]); err != nil {
			return wrong("%v", err)
		}
		apart := max(difference(got.WDLRow(i), t.want.WDLRow(i)), difference(got.PolicyRow(i), t.want.PolicyRow(i)))
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
