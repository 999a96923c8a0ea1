//go:build gpu && cgo && linux && amd64

package gpu

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/kernels/cuda/driver"
)

// hung has the kernels that did not end in a trial. Their thread and context stay behind for ever, so no other evaluator of
// this process tries them again.
var hung struct {
	sync.Mutex
	kernels []string
}

// faster is how much less time than the tower's a kernel for Hopper must take for two waves to be used: enough that chance does
// not choose between them, as their last bits differ.
const faster = 0.9

// tune lets a device of each kind test all kernels that can evaluate the network on the test board, and measure them; plans are
// chosen by that from then on. A kernel that fails in its trial, or does not end, is not used, and a note says so.
//
// The kernels for Hopper take the place of the tower's on all devices or on none, so that answers do not depend on the device. A
// device on which even the tower does not end has failed; the others are left. There are no sessions yet.
func (e *Backend) tune(found []driver.Device, r retry) (left []driver.Device, failed, notes []error) {
	n := e.serves
	hung.Lock()
	n.barred = append(n.barred, hung.kernels...)
	hung.Unlock()
	gains := true
	for _, d := range found {
		on := targetOf(d)
		if _, ok := n.measured[on]; ok {
			left = append(left, d)
			continue
		}
		t, said, err := e.try(d, r)
		notes = append(notes, said...)
		if errors.Is(err, errHung) {
			failed = append(failed, err)
			continue
		}
		left = append(left, d)
		if err != nil { // nothing is known of this device; its session finds the same fault, or none
			gains = false
			continue
		}
		n.measured[on] = t.times
		gains = gains && t.gains()
	}
	n.hopper = gains
	return left, failed, notes
}

// try makes a trial of all kernels on a device. If one fails in it, or does not end, a note says so, and the others are tried
// again without it. An error is about the tower or the device itself; errHung means that the device is lost.
func (e *Backend) try(d driver.Device, r retry) (t *trial, notes []error, err error) {
	n, on := e.serves, targetOf(d)
	first, err := newPlan(n.network.Config(), testBoard.Rules(), on)
	if err != nil {
		return nil, nil, err
	}
	h, onHopper := planHopper(n.network.Config(), testBoard.Rules(), on)
	for {
		groups := [][]plan{n.allowed(family(first, on))}
		if onHopper && !slices.Contains(n.barred, h.Kernel.Name) {
			groups = append(groups, n.allowed(family(h, on)))
		}
		at := ""
		if t, err = e.newTrial(d, r, groups); err == nil {
			err = t.run()
			at = t.at
		}
		switch {
		case err == nil:
			return t, notes, nil
		case at != "" && at != first.Kernel.Name:
			n.bar(at, errors.Is(err, errHung))
			notes = append(notes, fmt.Errorf("GPU %d: kernel %s is not used: %w; %s=%s leaves it out from the start", d.Index, at, err, withoutVariable, at))
		case errors.Is(err, errHung):
			return nil, notes, fmt.Errorf("GPU %d: kernel %s: %w: the device is LOST to this process, and only a new one can use it%s", d.Index, first.Kernel.Name, err, n.wayOut())
		default:
			return nil, notes, err
		}
	}
}

// bar leaves a kernel out from now on; if it hung, in all evaluators of this process.
func (n *served) bar(kernel string, hangs bool) {
	n.barred = append(n.barred, kernel)
	if hangs {
		hung.Lock()
		hung.kernels = append(hung.kernels, kernel)
		hung.Unlock()
	}
}

// wayOut says how a new process gets by without the kernels that hung before a device was lost.
func (n *served) wayOut() string {
	if len(n.barred) == 0 {
		return ""
	}
	return fmt.Sprintf(", with %s=%s", withoutVariable, strings.Join(n.barred, ","))
}

// trial measures kernels on a device, in a context of its own, so that a fault costs nothing else.
type trial struct {
	e      *Backend
	d      driver.Device
	r      retry
	groups []choice // the tower's family, then that of Hopper
	vs     [][]*variant
	pos    []game.Position
	times  Samples
	at     string // the kernel that was tried last

	steps chan string
	over  atomic.Bool // nobody waits for the trial any more
}

func (e *Backend) newTrial(d driver.Device, r retry, groups [][]plan) (*trial, error) {
	t := &trial{e: e, d: d, r: r, times: Samples{}, steps: make(chan string)}
	most := 0
	for _, plans := range groups {
		c := choose(plans, targetOf(d), nil)
		vs, err := e.serves.variants(testBoard, plans)
		if err != nil {
			return nil, err
		}
		t.groups, t.vs = append(t.groups, c), append(t.vs, vs)
		most = max(most, c.sizes[len(c.sizes)-1].most)
	}
	want, err := e.serves.want(testBoard)
	if err != nil {
		return nil, err
	}
	for len(t.pos) < most {
		t.pos = append(t.pos, want.Pos...)
	}
	return t, nil
}

// run measures all kernels, each in turn. If a step takes too long, run returns errHung and leaves the thread behind, which is
// stuck in the driver.
func (t *trial) run() error {
	done := make(chan error, 1)
	go func() { done <- t.work() }()
	patience := time.NewTimer(t.r.trial)
	defer patience.Stop()
	for {
		select {
		case t.at = <-t.steps:
			patience.Reset(t.r.trial)
		case err := <-done:
			return err
		case <-patience.C:
			t.over.Store(true)
			go func() { // if the thread comes back
				for {
					select {
					case <-t.steps:
					case <-done:
						return
					}
				}
			}()
			return errHung
		}
	}
}

// How often a launch is measured: its time is the least of some rounds, through all kernels and sizes in turn, so that the
// clocks of the device have risen.
const (
	trialRounds   = 3
	trialLaunches = 3
)

func (t *trial) work() error {
	w, err := t.d.Start()
	if err != nil {
		return err
	}
	err = w.Do(func(c *driver.Context) (err error) {
		s := newSession(newDevice(t.e, t.d, t.r), c)
		defer func() {
			if freed := s.giveBack(); err == nil {
				err = freed
			}
		}()
		if s.tester, err = s.newSlot(); err != nil {
			return err
		}
		for _, vs := range t.vs {
			for _, v := range vs {
				if err := t.step(v.Kernel.Name); err != nil {
					return err
				}
				if err := s.load(v); err != nil {
					return err
				}
			}
		}
		rounds := trialRounds
		if t.d.Emulated() {
			rounds = 1
		}
		for range rounds {
			if err := t.round(s); err != nil {
				return err
			}
		}
		return t.step("") // no kernel is to blame for what follows
	})
	closing := w.Close()
	if err == nil {
		err = closing
	}
	return err
}

// step says which kernel is tried next.
func (t *trial) step(kernel string) error {
	if t.steps <- kernel; t.over.Load() {
		return errHung
	}
	return nil
}

// round measures all kernels and sizes once.
func (t *trial) round(s *session) error {
	launches := trialLaunches
	if t.d.Emulated() {
		launches = 1
	}
	for g, c := range t.groups {
		for i, size := range c.sizes {
			for _, v := range t.vs[g] {
				name := v.Kernel.Name
				if err := t.step(name); err != nil {
					return err
				}
				seconds, err := s.time(v, t.pos[:size.most], launches)
				if err != nil {
					return err
				}
				if len(t.times[name]) == i {
					t.times[name] = append(t.times[name], Sample{size.most, math.Inf(1)})
				}
				t.times[name][i].Seconds = min(t.times[name][i].Seconds, seconds)
			}
		}
	}
	return nil
}

// gains reports whether a kernel for Hopper passed and takes so much less time for a position of large batches that its family is
// worth a place.
func (t *trial) gains() bool {
	if len(t.groups) < 2 {
		return false
	}
	var each [2]float64
	for g, c := range t.groups {
		c = choose(c.plans, targetOf(t.d), t.times)
		last := c.sizes[len(c.sizes)-1]
		each[g] = last.seconds / float64(last.most)
	}
	return each[1] < faster*each[0]
}
