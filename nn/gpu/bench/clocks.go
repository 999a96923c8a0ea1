//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
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

// clocks are the samples of a run.
type clocks struct {
	mu      sync.Mutex
	samples []sample
}

// watch starts nvidia-smi, if it is there, which ends with us. Its lines go into NAME.clocks.csv. They are dated as they arrive, as it
// writes each at once. It is given the GPU's PCI address, because it may count GPUs in another order than the driver, which also leaves out
// those that CUDA_VISIBLE_DEVICES does not name. A MIG slice has the address of its GPU; nvidia-smi has no clocks of a slice alone.
func (b *bench) watch() error {
	tool := b.tool("clocks", "nvidia-smi", "/usr/local/nvidia/bin")
	if tool == "" {
		return nil
	}
	file, err := os.OpenFile(filepath.Join(b.out, b.name+".clocks.csv"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	_, err = b.start(b.log, func(line string) {
		fmt.Fprintln(file, line)
		if s, ok := parseSample(line); ok {
			b.clocks.mu.Lock()
			b.clocks.samples = append(b.clocks.samples, s)
			b.clocks.mu.Unlock()
		}
	}, tool, "-i", b.gpu.PCI, "-lms", "200", "--format=csv,noheader,nounits",
		"--query-gpu=timestamp,clocks.sm,clocks.mem,power.draw,temperature.gpu,clocks_event_reasons.active")
	return err
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
	c.mu.Lock()
	defer c.mu.Unlock()
	var sum clock
	var seen uint64
	var mhz []float64
	from, _ := slices.BinarySearchFunc(c.samples, start, func(s sample, t time.Time) int { return s.at.Compare(t) })
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
