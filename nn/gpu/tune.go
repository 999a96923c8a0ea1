//go:build gpu && cgo && linux && amd64

package gpu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/evald/evald/engine/short"
	"github.com/evald/evald/kernels/cuda/driver"
)

// failed has the kernels that failed in a trial. No other evaluator of this process tries or uses them.
var failed struct {
	sync.Mutex
	kernels []string
}

// hopperThreshold is the fraction of the tower's time for two waves below which a kernel for Hopper is used. It is far enough from 1 that
// chance does not choose between them, because their last bits differ.
const hopperThreshold = 0.9

// errRefused means that a device is not used, since not even the kernel that every board needs passes its trial.
var errRefused = errors.New("the device is not used")

// tune lets a device of each kind test all kernels that can evaluate the network on the test board, and measure them; plans are
// chosen by that from then on. A kernel that fails in its trial, or does not end, is not used, and a note says so.
//
// The kernels for Hopper take the place of the tower's on all devices or on none, so that answers do not depend on the device. A
// device on which even the tower fails is refused; the others are left. There are no sessions yet.
func (e *Backend) tune(found []driver.Device, r retry) (left []driver.Device, refused, notes []error) {
	n := e.serves
	n.hopper = true
	for _, d := range found {
		on := targetOf(d)
		if _, ok := n.measured[on]; ok {
			left = append(left, d)
			continue
		}
		times, said, err := e.try(d, r)
		notes = append(notes, said...)
		if errors.Is(err, errRefused) {
			refused = append(refused, err)
			continue
		}
		left = append(left, d)
		if err != nil {
			notes, n.hopper = append(notes, err), false
			continue
		}
		n.measured[on] = times
		groups, err := n.candidates(on)
		n.hopper = n.hopper && err == nil && gains(groups, on, times)
	}
	return left, refused, notes
}

// try lets another process try all kernels on a device. If one fails in it, or does not end, a note says so, and a new process
// tries the others. An error is about the tower (errRefused), or the process itself; then times are predicted.
func (e *Backend) try(d driver.Device, r retry) (times Samples, notes []error, err error) {
	n := e.serves
	for {
		groups, err := n.candidates(targetOf(d))
		if err != nil {
			return nil, notes, fmt.Errorf("GPU %d: %w", d.Index, err)
		}
		times, at, err := e.ask(d, groups, r)
		switch {
		case err == nil:
			return times, notes, nil
		case errors.Is(err, errRefused):
			return nil, notes, fmt.Errorf("GPU %d: %w", d.Index, err)
		case !named(groups, at):
			return nil, notes, fmt.Errorf("GPU %d: the trial of its kernels by %s: %w; without it evald chooses among those for every GPU by predicted times", d.Index, strings.Join(e.options.Trial, " "), err)
		case at == groups[0].plans[0].Kernel.Name:
			return nil, notes, fmt.Errorf("GPU %d: kernel %s: %w: %w", d.Index, at, err, errRefused)
		}
		n.bar(at)
		notes = append(notes, fmt.Errorf("GPU %d: kernel %s is not used: %w; %s=%s leaves it out from the start", d.Index, at, err, withoutVariable, at))
	}
}

// named reports whether a kernel is among the candidates.
func named(groups []choice, kernel string) bool {
	return slices.ContainsFunc(groups, func(c choice) bool {
		return slices.ContainsFunc(c.plans, func(p plan) bool { return p.Kernel.Name == kernel })
	})
}

// untried says which devices would be faster with a program for trials.
func (e *Backend) untried(found []driver.Device) (notes []error) {
	for _, d := range found {
		if all, err := e.serves.network.families(testBoard.Rules(), targetOf(d)); err == nil && len(all) > 1 {
			notes = append(notes, fmt.Errorf("GPU %d: kernel %s, which may be faster, is not used: no program for its trial is named (Options.Trial of package gpu, GPUTrial of package open)", d.Index, all[1][0].Kernel.Name))
		}
	}
	return notes
}

// bar leaves a kernel out from now on, in all evaluators of this process.
func (n *served) bar(kernel string) {
	n.barred = append(n.barred, kernel)
	failed.Lock()
	failed.kernels = append(failed.kernels, kernel)
	failed.Unlock()
}

// candidates are the families on the test board, by predicted times.
func (n *served) candidates(on Target) (groups []choice, err error) {
	families, err := n.families(testBoard.Rules(), on)
	for _, plans := range families {
		groups = append(groups, choose(plans, on, nil))
	}
	return groups, err
}

// gains reports whether a kernel for Hopper passed and takes so much less time for a position of large batches that its family is
// worth a place.
func gains(groups []choice, on Target, times Samples) bool {
	if len(groups) < 2 {
		return false
	}
	var each [2]float64
	for g, c := range groups {
		c = choose(c.plans, on, times)
		last := c.sizes[len(c.sizes)-1]
		each[g] = last.seconds / float64(last.most)
	}
	return each[1] < hopperThreshold*each[0]
}

// killed is how long a process may take to end after it was killed. A driver can keep one whose kernel hangs.
const killed = 10 * time.Second

// ask starts the program of Options.Trial and returns what it measured. It is killed if its next line takes longer than r.trial, or
// is none. at is the kernel that was at work when it failed, if that is to blame.
func (e *Backend) ask(d driver.Device, groups []choice, r retry) (times Samples, at string, err error) {
	request, err := e.request(d, groups)
	if err != nil {
		return nil, "", err
	}
	ctx, end := context.WithCancelCause(context.Background())
	defer end(nil)
	c := exec.CommandContext(ctx, e.options.Trial[0], e.options.Trial[1:]...)
	l := &listener{patience: r.trial, end: end, timer: time.AfterFunc(r.trial, func() { end(errHung) })}
	l.lines.Each = l.line
	defer l.timer.Stop()
	var said short.Tail
	c.Stdout, c.Stderr, c.WaitDelay = l, &said, time.Second
	in, err := c.StdinPipe() // stays open as long as the process runs
	if err != nil {
		return nil, "", err
	}
	if err := c.Start(); err != nil {
		return nil, "", err
	}
	go in.Write(request) // if the process ends before it has read all, the rest of this function says why
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	select {
	case err = <-ended:
	case <-ctx.Done():
		select {
		case err = <-ended:
		case <-time.After(killed):
			return nil, "", fmt.Errorf("%w, and its process %d does not end though it was killed: %w", context.Cause(ctx), c.Process.Pid, errRefused)
		}
	}
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errHung):
		return nil, l.at, cause
	case cause != nil:
		return nil, "", cause
	case err != nil:
		return nil, l.at, fmt.Errorf("its process ended with %w: %s", err, said.LastLine())
	case l.last.Error != "":
		return nil, l.at, errors.New(l.last.Error)
	}
	return l.last.Times, "", complete(l.last.Times, groups)
}

// request is what a trial on a device reads.
func (e *Backend) request(d driver.Device, groups []choice) ([]byte, error) {
	n := e.serves
	first, err := n.variants(testBoard, groups[0].plans[:1])
	if err != nil {
		return nil, err
	}
	file, err := n.network.Marshal()
	if err != nil {
		return nil, err
	}
	want := first[0].test.want
	line, err := json.Marshal(trialRequest{Device: d, Without: n.barred, WDL: want.WDL, Policy: want.Policy, Bytes: len(file)})
	return slices.Concat(line, []byte("\n"), file), err
}

// complete is an error if a kernel was not measured with all its sizes.
func complete(times Samples, groups []choice) error {
	for _, c := range groups {
		for _, p := range c.plans {
			for _, size := range c.sizes {
				if seconds := times.at(p.Kernel.Name, size.most); !(seconds > 0 && seconds < math.MaxFloat64) {
					return fmt.Errorf("its process has no time of kernel %s with %d positions: is the program of this version?", p.Kernel.Name, size.most)
				}
			}
		}
	}
	return nil
}

// mostSaid is more than a trial writes, in bytes.
const mostSaid = 1 << 20

// listener reads the lines of a trial, and ends its process if there is no next one in time, or it is none.
type listener struct {
	patience time.Duration
	timer    *time.Timer
	end      context.CancelCauseFunc

	size  int
	lines short.Lines
	last  trialLine
	at    string // the kernel of the last line that named one
}

// Write implements io.Writer.
func (l *listener) Write(text []byte) (n int, err error) {
	if l.size += len(text); l.size > mostSaid {
		err = fmt.Errorf("its process writes more than %d bytes", mostSaid)
	} else {
		n, err = l.lines.Write(text)
	}
	if err != nil {
		l.end(err)
	}
	return n, err
}

func (l *listener) line(text string) error {
	var next trialLine
	if err := json.Unmarshal([]byte(text), &next); err != nil {
		return fmt.Errorf("its process writes %s: %w", short.Quote(text), err)
	}
	if l.last = next; next.Error == "" {
		l.at = next.Kernel
	}
	l.timer.Reset(l.patience)
	return nil
}
