//go:build gpu && cgo && linux && amd64

package gpu

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/kernels/cuda/driver"
)

// trialRequest is what a process that tries kernels reads: this as a line of JSON, and then the network's file.
type trialRequest struct {
	Device      driver.Device
	Without     []string  // kernels that are not tried
	WDL, Policy []float32 // the reference's answers to the probes on the test board
	Bytes       int       // of the network's file
}

// trialLine is a line of JSON that such a process writes. Each names the kernel whose work begins, but for the last, which has
// the result.
type trialLine struct {
	Kernel string  `json:",omitempty"`
	Times  Samples `json:",omitempty"` // the result: of all kernels
	Error  string  `json:",omitempty"` // or why there is none: the fault of the kernel that was named last, if one was
}

// Trial tests and measures kernels for another process. It is what the program of Options.Trial must do: read its standard input
// and write to its standard output, and nothing else. An error is about the input and the output alone, or says that the other
// process has ended. What it began on the device then ends with this process.
func Trial(in io.Reader, out io.Writer) error {
	lines := bufio.NewReader(in)
	t, err := readTrial(lines, json.NewEncoder(out))
	if err != nil {
		return fmt.Errorf("gpu: trial: %w", err)
	}
	ended := make(chan error, 1)
	go func() {
		var last trialLine
		if err := t.work(); err != nil {
			last.Error = err.Error()
		} else {
			last.Times = t.times
		}
		ended <- t.out.Encode(last)
	}()
	gone := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, lines) // the other process keeps it open while it wants the result
		close(gone)
	}()
	select {
	case err := <-ended:
		return err
	case <-gone:
		return errors.New("gpu: trial: the process that asked for it has ended")
	}
}

// trial measures kernels on a device.
type trial struct {
	d      driver.Device
	serves *served
	groups []choice
	pos    []game.Position // the probes
	times  Samples
	out    *json.Encoder
}

// readTrial reads a request.
func readTrial(in *bufio.Reader, out *json.Encoder) (*trial, error) {
	var r trialRequest
	text, err := in.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		return nil, fmt.Errorf("read the request: %w", err)
	}
	file, err := io.ReadAll(io.LimitReader(in, int64(r.Bytes)))
	if err != nil {
		return nil, fmt.Errorf("read the network: %w", err)
	}
	n, err := parseNetwork(file)
	if err != nil {
		return nil, err
	}
	found, err := driver.Find()
	if err != nil {
		return nil, err
	}
	if at := r.Device.Index; at < 0 || at >= len(found.Devices) || found.Devices[at].UUID != r.Device.UUID {
		return nil, fmt.Errorf("there is no GPU %d with UUID %s", at, r.Device.UUID)
	}
	want := eval.NewBatch(testBoard, probes)
	probe(want)
	if len(r.WDL) != len(want.WDL) || len(r.Policy) != len(want.Policy) {
		return nil, errors.New("the request has not the answers to all probes")
	}
	copy(want.WDL, r.WDL)
	copy(want.Policy, r.Policy)
	t := &trial{d: r.Device, serves: newServed(n), pos: want.Pos, times: Samples{}, out: out}
	t.serves.barred = r.Without
	t.serves.wants[testBoard.Rules()] = want
	t.groups, err = t.serves.candidates(targetOf(r.Device))
	return t, err
}

// How often a launch is measured: its time is the least of some rounds, through all kernels and sizes in turn, so that the
// clocks of the device have risen.
const (
	trialRounds   = 3
	trialLaunches = 3
)

// work tests all kernels, and measures each.
func (t *trial) work() error {
	w, err := t.d.Start()
	if err != nil {
		return err
	}
	err = w.Do(func(c *driver.Context) error {
		s := newSession(newDevice(&Backend{serves: t.serves}, t.d, retry{}), c)
		if s.tester, err = s.newSlot(); err != nil {
			return err
		}
		rounds, launches := trialRounds, trialLaunches
		if t.d.Emulated() {
			rounds, launches = 1, 1
		}
		for range rounds {
			for _, c := range t.groups {
				if err := t.measure(s, c, launches); err != nil {
					return err
				}
			}
		}
		return t.out.Encode(trialLine{}) // no kernel is to blame for what follows
	})
	return errors.Join(err, w.Close())
}

// measure measures all kernels of a family once with each size. Before the first time of a kernel comes its self-test.
func (t *trial) measure(s *session, c choice, launches int) error {
	variants, err := t.serves.variants(testBoard, c.plans)
	if err != nil {
		return err
	}
	for i, size := range c.sizes {
		pos := slices.Repeat(t.pos, ceil(size.most, len(t.pos)))[:size.most]
		for _, v := range variants {
			name := v.Kernel.Name
			if err := t.out.Encode(trialLine{Kernel: name}); err != nil {
				return err
			}
			seconds, err := s.time(v, pos, launches)
			if err != nil {
				return err
			}
			if len(t.times[name]) == i { // in the first round
				t.times[name] = append(t.times[name], Sample{size.most, seconds})
			}
			t.times[name][i].Seconds = min(t.times[name][i].Seconds, seconds)
		}
	}
	return nil
}
