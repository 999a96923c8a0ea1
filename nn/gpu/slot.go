//go:build gpu && cgo && linux && amd64

package gpu

import (
	"sync/atomic"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/kernels/cuda/driver"
)

// slot is a stream of a device and memory for one launch, both on the device and pinned on the host. It is always in one
// place: in its session's free or submitted, in flight, or with a caller of Evaluate, who alone then touches it.
type slot struct {
	session *session
	stream  driver.Stream

	hostIn, hostOut driver.Host
	in, out         driver.Memory
	scratch         driver.Memory // of scratchBytes, made when a kernel needs it
	scratchBytes    int
	job             *Job // apart, since C code reads it

	plan *planned
	rows []int32 // of the batch, one for each position
	done chan error
	left atomic.Int32 // who waits: see waiting
}

// What left may be.
const (
	waiting   = iota // the caller waits for done
	ended            // done has the result
	abandoned        // nobody waits; the slot goes back to free by itself
)

// fill takes rows of the batch from first on, answers finished games by the rules, and returns the first row that it did
// not look at.
func (s *slot) fill(n *served, b *eval.Batch, first int) (next int, err error) {
	info := &s.session.device.info
	if s.plan, err = n.planned(b.Board, info.Shared); err != nil {
		return first, err
	}
	share, size, to := s.plan.share(len(b.Pos)-first, info.Multiprocessors), s.plan.PositionBytes(), s.hostIn.Bytes()
	s.rows = s.rows[:0]
	for next = first; next < len(b.Pos) && len(s.rows) < share; next++ {
		if b.AnswerTerminal(next) {
			continue
		}
		s.plan.PutPositions(to[len(s.rows)*size:], b.Pos[next:next+1])
		s.rows = append(s.rows, int32(next))
	}
	return next, nil
}

// read fills the rows of the batch that were taken from it.
func (s *slot) read(b *eval.Batch) error {
	size, from := s.plan.RowBytes(), s.hostOut.Bytes()
	for i, row := range s.rows {
		if err := s.plan.ReadAnswer(b, int(row), from[i*size:(i+1)*size]); err != nil {
			return err
		}
	}
	return nil
}

// submit gives the slot to the device; the result comes through done.
func (s *slot) submit() {
	s.left.Store(waiting)
	s.session.submitted <- s
}

// end is the device's word to who waits.
func (s *slot) end(err error) {
	if s.left.CompareAndSwap(waiting, ended) {
		s.done <- err
		return
	}
	s.free()
}

// abandon leaves the slot to the device.
func (s *slot) abandon() {
	if !s.left.CompareAndSwap(waiting, abandoned) {
		<-s.done
		s.free()
	}
}

// free gives the slot back.
func (s *slot) free() {
	s.plan = nil
	s.session.free <- s
}
