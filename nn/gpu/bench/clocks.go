//go:build linux

package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// clock is what nvidia-smi said while a row was measured.
type clock struct {
	MHz     float64  `json:"sm_mhz"` // the median of the samples with half of Watts and more: in the others the GPU had little to do
	Watts   float64  `json:"watts"`  // at most
	Reasons []string `json:"reasons,omitempty"`
}

// reasons name the bits of clocks_event_reasons.active: why the clock is below the highest.
var reasons = []string{"idle", "application clocks", "power cap", "slowdown", "sync boost", "thermal", "thermal slowdown", "power brake", "display clocks"}

type sample struct {
	at         time.Time
	mhz, watts float64
	reasons    uint64
}

// clocks are the samples of a run. A nil pointer has none.
type clocks struct {
	smi  *exec.Cmd
	done chan struct{} // closed when all samples are read

	mu      sync.Mutex
	samples []sample
}

// watch starts nvidia-smi, if it is there. It ends with the run or with us, and writes into NAME.clocks.csv. Its lines are dated as
// they arrive, as it writes each at once.
func (b *bench) watch() error {
	tool := b.tool("clocks", "nvidia-smi", "/usr/local/nvidia/bin")
	if tool == "" {
		return nil
	}
	file, err := os.OpenFile(filepath.Join(b.out, b.name+".clocks.csv"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	c := &clocks{done: make(chan struct{}), smi: exec.Command(tool, "-i", strconv.Itoa(b.gpu.Index), "-lms", "200", "--format=csv,noheader,nounits",
		"--query-gpu=timestamp,clocks.sm,clocks.mem,power.draw,temperature.gpu,clocks_event_reasons.active")}
	c.smi.Stderr = b.log
	c.smi.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	out, err := c.smi.StdoutPipe()
	if err == nil {
		err = c.smi.Start()
	}
	if err != nil {
		file.Close()
		return err
	}
	b.clocks = c
	go func() {
		defer close(c.done)
		defer file.Close()
		for in := bufio.NewScanner(out); in.Scan(); {
			fmt.Fprintln(file, in.Text())
			if s, ok := parseSample(in.Text()); ok {
				c.mu.Lock()
				c.samples = append(c.samples, s)
				c.mu.Unlock()
			}
		}
	}()
	return nil
}

func (c *clocks) stop() {
	if c != nil {
		_ = syscall.Kill(-c.smi.Process.Pid, syscall.SIGKILL) // if it has ended, that is no harm
		select {
		case <-c.done:
		case <-time.After(patience):
		}
	}
}

func parseSample(line string) (s sample, ok bool) {
	fields := strings.Split(line, ", ")
	if len(fields) != 6 {
		return s, false
	}
	mhz, err1 := strconv.ParseFloat(fields[1], 64)
	watts, err2 := strconv.ParseFloat(fields[3], 64)
	bits, err3 := strconv.ParseUint(strings.TrimSpace(fields[5]), 0, 64)
	return sample{time.Now(), mhz, watts, bits}, err1 == nil && err2 == nil && err3 == nil
}

// since sums up the samples since a time. Without any it is nil.
func (c *clocks) since(start time.Time) *clock {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	from, _ := slices.BinarySearchFunc(c.samples, start, func(s sample, t time.Time) int { return s.at.Compare(t) })
	var sum clock
	var seen uint64
	var mhz []float64
	for _, s := range c.samples[from:] {
		sum.Watts, seen = max(sum.Watts, s.watts), seen|s.reasons
	}
	for _, s := range c.samples[from:] {
		if s.watts >= sum.Watts/2 {
			mhz = append(mhz, s.mhz)
		}
	}
	if len(mhz) == 0 {
		return nil
	}
	slices.Sort(mhz)
	sum.MHz = mhz[len(mhz)/2]
	for i, name := range reasons {
		if seen>>i&1 == 1 {
			sum.Reasons = append(sum.Reasons, name)
		}
	}
	return &sum
}
