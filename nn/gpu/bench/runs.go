//go:build linux

package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"time"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/kernels/cuda"
	"github.com/evald/evald/nn/gpu"
	"github.com/evald/evald/nn/net"
)

// run is what can be asked for: its time, its networks and batches, and the batches of networks of 256 channels.
type run struct {
	time          time.Duration
	networks      []string
	batches, wide []int
	plan          func(*bench) []step
}

// tables is the network of pattern tables that runs measure, and tablesBatches are the sizes of its batches in run A.
const tables = "default-fast"

var tablesBatches = []int{1, 64, 1024, 16384, 65536, 262144, 1048576}

var runs = map[string]run{
	"canary": {90 * time.Second, []string{"1x16/8/16", "1x128/8/16", "1x256/8/16", tables}, []int{1}, nil, (*bench).canary},
	"A":      {9 * time.Minute, []string{"6x64", "10x64", "10x128", "20x256", "default", tables}, []int{1, 8, 64, 256, 1024, 4096, 16384, 65536}, nil, (*bench).speed},
	"B":      {9 * time.Minute, []string{"20x256", "10x128", "6x64"}, []int{1, 132, 264, 1056, 8448, 65536}, []int{1, 132, 264, 792, 4096}, (*bench).kernels},
	"C":      {9 * time.Minute, []string{"6x64", "10x128", "20x256"}, []int{1, 64, 1024, 16384}, []int{1, 64, 1024, 4096}, (*bench).peers},
	"D":      {30 * time.Minute, []string{"10x128"}, nil, nil, (*bench).training},
}

// batches are the sizes of batches of a network.
func (b *bench) batches(network string) []int {
	if len(b.sizes) > 0 {
		return b.sizes
	}
	if network == tables && len(b.what.batches) > 1 {
		return tablesBatches
	}
	if c, err := net.ParseConfig(network); err == nil && c.Channels >= 256 && b.what.wide != nil {
		return b.what.wide
	}
	return b.what.batches
}

// step is a part of a run, with the longest time that it may take.
type step struct {
	what  string
	limit time.Duration
	do    func()
}

// follow prints the plan and does its steps in turn. What the run has no time for is said to be missing by the rows of its step.
func (b *bench) follow(plan []step) {
	var sum time.Duration
	for i, s := range plan {
		plan[i].limit = cmp.Or(b.longest, s.limit)
		sum += plan[i].limit
	}
	b.say("%d steps end after %v at the latest, of %v that their limits allow:", len(plan), time.Until(b.end).Round(time.Second), sum)
	for _, s := range plan {
		fmt.Fprintf(os.Stderr, "  %6v  %s\n", s.limit, s.what)
	}
	for _, s := range plan {
		b.step, b.until = s.limit, time.Now().Add(s.limit)
		if b.until.After(b.end) {
			b.until = b.end
		}
		s.do()
	}
}

// measures is a step that measures.
func (b *bench) measures(limit time.Duration, m measurement) step {
	return step{m.part + ": " + m.title(), limit, func() { b.measure(m) }}
}

// canary is what comes before all other runs: does anything fail or hang? It needs a tenth of their time.
func (b *bench) canary() (plan []step) {
	plan = append(plan, step{"tests: driver.test", 15 * time.Second, func() {
		if b.gpu.Emulated() {
			b.add(row{Part: "tests", Name: "driver.test", Missing: "it is for GPUs alone"})
		} else {
			b.tests("tests", "driver.test", nil)
		}
	}})
	var small []measurement
	for _, network := range b.networks {
		kernels := b.variants(network)
		for _, k := range kernels {
			if kernels[0].Exact && !k.Exact {
				break // those for Hopper are enough
			}
			small = append(small, measurement{part: "self-tests", network: network, kernel: k.Name, batches: b.batches(network), round: time.Millisecond})
			plan = append(plan, b.measures(20*time.Second, small[len(small)-1]))
		}
	}
	tool := b.tool("sanitizer", "compute-sanitizer", "/usr/local/cuda*/bin", "/opt/nvidia/nsight-compute/*/host/target-linux-x64")
	if tool == "" {
		return plan
	}
	for _, kind := range []string{"synccheck", "memcheck"} {
		under := []string{tool, "--tool", kind, "--error-exitcode", "9"}
		for _, m := range small {
			m.part, m.under = "sanitizer", under
			plan = append(plan, b.measures(15*time.Second, m))
		}
		plan = append(plan, step{"sanitizer: " + kind + " gpu.test", 30 * time.Second, func() {
			b.tests("sanitizer", "gpu.test", under, "-test.run", "^TestGPUSanitize$")
		}})
	}
	return plan
}

// speed is run A.
func (b *bench) speed() []step {
	plan := []step{
		{"choice: evald devices -v", time.Minute, b.measured},
		{"tests: gpu.test", 150 * time.Second, func() { b.tests("tests", "gpu.test", nil) }},
	}
	for _, network := range b.networks {
		plan = append(plan, b.measures(40*time.Second, measurement{part: "speeds", network: network, batches: b.batches(network), round: b.round}))
	}
	for _, network := range b.networks {
		if network == tables { // ONNX Runtime does not compute it
			continue
		}
		plan = append(plan, step{"runtime: ort-cuda " + network, 30 * time.Second, func() { b.runtime("ort-cuda", network) }})
	}
	return plan
}

// runtime measures a network by a provider of ONNX Runtime, in turns with the backend that evald would choose. The Python that EVALD_PYTHON
// names has the library; without one, or without what its provider needs, the row says so.
func (b *bench) runtime(backend, network string) {
	text, err := b.output(b.program("evald"), "bench", "eval", "--backend", backend, "--model", network, "--json", "--round", b.round.String())
	b.add(row{Part: "runtime", Name: backend + " " + network, Missing: reason(err), Result: valid(text)})
}

// kernels is run B.
func (b *bench) kernels() (plan []step) {
	for _, network := range b.networks {
		for _, k := range b.variants(network) {
			plan = append(plan, b.measures(25*time.Second, measurement{part: "kernels", network: network, kernel: k.Name, batches: b.batches(network), round: b.round}))
		}
	}
	tool := b.tool("profiles", "ncu", "/usr/local/cuda*/bin", "/opt/nvidia/nsight-compute/*")
	if tool == "" {
		return plan
	}
	for _, of := range []struct{ most, batch int }{{1 << 30, profiled}, {132, 132}} {
		for _, network := range b.networks {
			plan = append(plan, step{fmt.Sprintf("profiles: ncu, the fastest kernel of %s, batch %d", network, of.batch), 40 * time.Second, func() {
				b.ncu(tool, measurement{network: network, kernel: b.fastest(network, of.most), batches: []int{of.batch}, round: time.Millisecond})
			}})
		}
	}
	return plan
}

// profiled is a batch of whole waves on the 132 multiprocessors of an H100, for the kernels of 16, 8 and 3 boards a block alike.
const profiled = 48 * 132

// fastest is the kernel with the highest rate of launches in the largest batch that was measured, of those up to a size.
func (b *bench) fastest(network string, most int) string {
	best := speed{}
	for _, s := range b.speeds {
		if s.Network == network && s.Batch <= most && cmp.Or(cmp.Compare(s.Batch, best.Batch), cmp.Compare(s.Launch, best.Launch)) > 0 {
			best = s
		}
	}
	return best.Kernel
}

// peer is a program of run C; those that compile take minutes.
type peer struct {
	name, precision string
	compiles        bool
}

var peers = []peer{
	{"pytorch", "fp16", false},
	{"pytorch-compile", "fp16", true},
	{"onnxruntime", "float32", false},
	{"tensorrt", "fp16", true},
}

// peers is run C. The cheap ones come first, and what compiles for minutes last. Each step that compiles has its share of the time that is left,
// so that all networks have rows, and begins with what counts most: the largest batch, then the smallest.
func (b *bench) peers() (plan []step) {
	var slow []int // steps that compile
	for _, peer := range peers {
		if b.only != nil && !slices.Contains(b.only, peer.name) {
			continue
		}
		for _, network := range b.networks {
			m := measurement{part: "peers", network: network, peer: peer.name, precision: peer.precision, batches: slices.Clone(b.batches(network)), round: b.round}
			limit := 40 * time.Second
			if peer.compiles {
				limit = 150 * time.Second
				slices.Reverse(m.batches)
				if last := len(m.batches) - 1; last > 0 {
					m.batches = slices.Insert(m.batches[:last], 1, m.batches[last])
				}
				slow = append(slow, len(plan))
			}
			plan = append(plan, b.measures(limit, m))
		}
	}
	for i, at := range slow {
		do := plan[at].do
		plan[at].do = func() {
			b.share(len(slow) - i)
			do()
		}
	}
	return plan
}

// share ends the step in progress early if it would take more than its part of the time that is left to the run, of which n steps need some.
func (b *bench) share(n int) {
	if part := time.Until(b.end) / time.Duration(n); part < time.Until(b.until) {
		b.step, b.until = part.Round(time.Second), time.Now().Add(part)
	}
}

// leftOut finds the kernels that evald does not use, because they failed.
var leftOut = regexp.MustCompile(without + `=(\w+) leaves it out`)

// measured adds a row of what evald itself measures before it serves: the times by which it chooses kernels, and those that it
// does not use, with the reason.
func (b *bench) measured() {
	text, err := b.output(b.program("evald"), "devices", "-v", "--json")
	var found struct {
		Tried []struct {
			GPU   int
			Error string
			Notes []string
		}
	}
	if err == nil {
		err = json.Unmarshal([]byte(text), &found)
	}
	for _, d := range found.Tried {
		if err == nil && d.Error != "" {
			err = fmt.Errorf("GPU %d: %s", d.GPU, d.Error)
		}
		for _, note := range d.Notes {
			if m := leftOut.FindStringSubmatch(note); m != nil {
				defer b.bar(m[1], note)
			}
		}
	}
	b.add(row{Part: "choice", Name: "devices -v", Error: reason(err), Result: valid(text)})
}

// valid is a text that is JSON, or nil.
func valid(text string) json.RawMessage {
	if json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	return nil
}

// bar leaves a kernel out of all later programs of the run.
func (b *bench) bar(kernel, why string) {
	if kernel != "" && !slices.Contains(b.barred, kernel) {
		b.say("kernel %s is left out from now on: %s", kernel, why)
		b.barred = append(b.barred, kernel)
	}
}

// variants are the kernels for a network on 7x6 that have its padded width, those for Hopper first. If there is none, a row says
// so; for a model, whose name does not say its size, it is the one without a name, the best.
func (b *bench) variants(network string) (all []cuda.Kernel) {
	config, err := net.ParseConfig(network)
	if err != nil {
		return []cuda.Kernel{{}}
	}
	names := gpu.Variants(config, game.Connect4, gpu.Target{Major: b.gpu.Major, Minor: b.gpu.Minor, Shared: b.gpu.Shared, Processors: b.gpu.Multiprocessors})
	all = slices.DeleteFunc(cuda.Kernels(), func(k cuda.Kernel) bool { return !slices.Contains(names, k.Name) })
	if len(all) == 0 {
		b.add(row{Part: "kernels", Name: network, Error: "no kernel fits"})
	}
	width := 0
	for _, k := range all {
		if k.Channels > 0 && (width == 0 || k.Channels < width) {
			width = k.Channels
		}
	}
	all = slices.DeleteFunc(all, func(k cuda.Kernel) bool { return k.Channels != width })
	slices.SortStableFunc(all, func(a, b cuda.Kernel) int { return b.Arch - a.Arch })
	return all
}
