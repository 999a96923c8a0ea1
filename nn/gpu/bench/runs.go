//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/nn/gpu"
	"github.com/evald/evald/nn/net"
)

// runs are what can be asked for, with their networks and batches.
var runs = map[string]struct {
	networks []string
	batches  []int
	run      func(*bench)
}{
	"A": {[]string{"6x64", "10x64", "10x128", "20x256", "default"}, []int{1, 8, 64, 256, 1024, 4096, 16384, 65536}, (*bench).speeds},
	"B": {[]string{"6x64", "10x128", "20x256"}, []int{1, 132, 264, 4096, 65536}, (*bench).kernels},
	"C": {[]string{"6x64"}, []int{1, 256, 1024, 65536}, (*bench).peers},
}

// speeds is run A. What comes first is what decides whether the rest means anything.
func (b *bench) speeds() {
	if b.gpu.Emulated() {
		b.add(row{Part: "tests", Name: "driver.test", Missing: "it is for GPUs alone"})
	} else {
		b.tests("driver.test", time.Minute)
	}
	for _, network := range b.networks {
		for _, kernel := range b.variants(network) {
			b.measure(measurement{part: "self-tests", network: network, kernel: kernel, batches: []int{1}, round: time.Millisecond})
		}
	}
	b.measured()
	b.within(0.5, func() { b.tests("gpu.test", 4*time.Minute) })
	for _, network := range b.networks {
		b.measure(measurement{part: "speeds", network: network, batches: b.batches, round: b.round})
	}
}

// measured adds a row of what evald itself measures before it serves: the times by which it chooses kernels, and those that it
// does not use, with the reason.
func (b *bench) measured() {
	var text string
	err := b.command(command{args: []string{b.program("evald"), "devices", "-v", "--json"}, total: 3 * time.Minute, line: func(line string) { text += line }})
	var found struct {
		Tried []struct {
			GPU   int
			Error string
		}
	}
	if err == nil {
		err = json.Unmarshal([]byte(text), &found)
	}
	for _, d := range found.Tried {
		if err == nil && d.Error != "" {
			err = fmt.Errorf("GPU %d: %s", d.GPU, d.Error)
		}
	}
	x := row{Part: "choice", Name: "devices -v"}
	if err != nil {
		x.Error = err.Error()
	}
	if json.Valid([]byte(text)) {
		x.Result = json.RawMessage(text)
	}
	b.add(x)
}

// kernels is run B.
func (b *bench) kernels() {
	b.within(0.5, func() {
		for _, network := range b.networks {
			for _, kernel := range b.variants(network) {
				b.measure(measurement{part: "kernels", network: network, kernel: kernel, batches: b.batches, round: b.round})
			}
		}
	})
	b.within(0.6, func() {
		for _, network := range b.networks {
			b.ncu(network)
		}
	})
	b.nsys(b.networks[0])
	b.sanitizer()
}

// peers is run C. The cheap ones come first, and what compiles for minutes last.
func (b *bench) peers() {
	for _, peer := range [][2]string{
		{"pytorch", "bf16"},
		{"pytorch", "fp16"},
		{"onnxruntime", "float32"},
		{"tensorrt", "fp16"},
		{"pytorch-compile", "bf16"},
		{"pytorch-compile", "fp16"},
	} {
		for _, network := range b.networks {
			b.measure(measurement{part: "peers", network: network, peer: peer[0], precision: peer[1], batches: b.batches, round: b.round})
		}
	}
}

// within does something that may take at most a share of the time that is left.
func (b *bench) within(share float64, do func()) {
	end := b.end
	b.end = time.Now().Add(time.Duration(share * float64(time.Until(end))))
	do()
	b.end = end
}

// variants names the kernels for a network on 7x6, or none with a row that says why.
func (b *bench) variants(network string) []string {
	config, err := net.ParseConfig(network)
	if err != nil {
		return []string{""} // a model, of a size that its name does not say
	}
	names := gpu.Variants(config, game.Connect4, gpu.Target{Major: b.gpu.Major, Minor: b.gpu.Minor, Shared: b.gpu.Shared, Processors: b.gpu.Multiprocessors})
	if len(names) == 0 {
		b.add(row{Part: "kernels", Name: network, Error: "no kernel fits"})
	}
	return names
}

// measurement is one network, by one kernel or the best, beside a peer or alone.
type measurement struct {
	part, network, kernel string
	peer, precision       string
	batches               []int
	round                 time.Duration
}

// name is a row's.
func (m measurement) name(batch int) string {
	words := []string{m.network}
	for _, word := range []string{m.kernel, m.peer, m.precision} {
		if word != "" {
			words = append(words, word)
		}
	}
	return fmt.Sprintf("%s, batch %d", strings.Join(words, " "), batch)
}

// measure adds a row for each batch. Whatever happens to a batch, the next ones are measured in a new program; but if two
// programs in turn end before their first row, the rest is given up.
func (b *bench) measure(m measurement) {
	limits := command{first: 90 * time.Second, limit: 40 * time.Second}
	if m.peer == "pytorch-compile" || m.peer == "tensorrt" {
		limits = command{first: 3 * time.Minute, limit: 2 * time.Minute}
	}
	if b.row > 0 {
		limits = command{first: b.row, limit: b.row}
	}
	for barren, left := 0, m.batches; len(left) > 0; {
		heard := 0
		limits.args = b.evald(m, left)
		limits.line = func(line string) {
			var got struct {
				Error string
				Batch int
			}
			if json.Unmarshal([]byte(line), &got) != nil || len(left) == 0 || got.Batch != left[0] {
				return // no row
			}
			b.add(row{Part: m.part, Name: m.name(left[0]), Error: got.Error, Result: json.RawMessage(line)})
			left = left[1:]
			heard++
		}
		err := b.command(limits)
		switch {
		case len(left) == 0:
			return
		case err == nil:
			err = errors.New("it ended without a row")
		case heard > 0 && strings.Contains(err.Error(), fmt.Sprintf("batch %d: ", m.batches[len(m.batches)-len(left)-1])):
			barren = 0
			continue // the last row says so already
		}
		barren++
		if heard > 0 {
			barren = 0
		}
		x := row{Part: m.part, Name: m.name(left[0]), Error: err.Error()}
		if m.peer != "" && strings.Contains(err.Error(), "No module named") || strings.Contains(err.Error(), "has no CUDAExecutionProvider") {
			x.Missing, x.Error = x.Error, ""
		}
		b.add(x)
		left = left[1:]
		if barren == 2 || x.Missing != "" || errors.Is(err, errOver) || errors.Is(err, errStop) {
			for _, batch := range left {
				b.add(row{Part: m.part, Name: m.name(batch), Error: x.Error, Missing: x.Missing})
			}
			return
		}
	}
}

// evald is the command that measures some batches.
func (b *bench) evald(m measurement, batches []int) []string {
	var sizes []string
	for _, n := range batches {
		sizes = append(sizes, strconv.Itoa(n))
	}
	args := []string{b.program("evald"), "bench", "eval", "--backend", "gpu", "--json", "--networks", m.network, "--batches", strings.Join(sizes, ","), "--round", m.round.String()}
	if m.kernel != "" {
		args = append(args, "--kernel", m.kernel)
	}
	if m.peer != "" {
		args = append(args, "--peer", m.peer)
	}
	if m.precision == "bf16" || m.precision == "fp16" {
		args = append(args, "--precision", m.precision)
	}
	return args
}

// add writes a row. If that fails, there is no use in going on.
func (b *bench) add(x row) {
	if err := b.rows.add(x); err != nil {
		fmt.Fprintln(os.Stderr, "run:", err)
		os.Exit(1)
	}
}

func seconds(since time.Time) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"seconds":%.1f}`, time.Since(since).Seconds()))
}

// tool finds a program in the PATH, or where NVIDIA's packages put it. If it is not there, a row says so.
func (b *bench) tool(part, name string, places ...string) string {
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	for _, place := range places {
		if found, _ := filepath.Glob(filepath.Join(place, name)); len(found) > 0 {
			return found[len(found)-1]
		}
	}
	b.add(row{Part: part, Name: name, Missing: "not found in the PATH or in " + strings.Join(places, ", ")})
	return ""
}
