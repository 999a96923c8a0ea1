//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// measurement is one network, by one kernel or the best, beside a peer or alone.
type measurement struct {
	part, network, kernel string
	peer, precision       string
	under                 []string // the tool that runs evald: its path, --tool, its kind and so on
	batches               []int
	round                 time.Duration
}

// title is what all rows have in common, and name a row's name.
func (m measurement) title() string {
	words := []string{m.network, m.kernel, m.peer, m.precision}
	if len(m.under) > 0 {
		words = append(words, m.under[2])
	}
	return strings.Join(slices.DeleteFunc(words, func(word string) bool { return word == "" }), " ")
}

func (m measurement) name(batch int) string { return fmt.Sprintf("%s, batch %d", m.title(), batch) }

// measure adds a row for each batch. If a kernel fails, it is left out from then on. Whatever else happens to a batch, the next
// ones are measured in a new program, if the step has time; but if two programs in turn end before their first row, the rest is
// given up.
func (b *bench) measure(m measurement) {
	left := m.batches
	add := func(x row, batches ...int) {
		for _, batch := range batches {
			x.Part, x.Name = m.part, m.name(batch)
			b.add(x)
		}
	}
	for barren := 0; len(left) > 0; {
		if slices.Contains(b.barred, m.kernel) {
			add(row{Missing: "left out: it failed before"}, left...)
			return
		}
		last := ""
		err := b.command(func(line string) {
			var got struct {
				Error string
				speed
			}
			if json.Unmarshal([]byte(line), &got) != nil || len(left) == 0 || got.Batch != left[0] {
				return // no row
			}
			add(row{Error: got.Error, Result: json.RawMessage(line)}, left[0])
			b.speeds = append(b.speeds, got.speed)
			left, last, barren = left[1:], got.Error, 0
		}, b.evald(m, left)...)
		ours := errors.Is(err, errOver) || errors.Is(err, errStop) // the run's end, which says nothing about the program
		if err != nil && !ours && m.under == nil {
			b.bar(m.kernel, err.Error())
		}
		switch {
		case len(left) == 0 && (err == nil || last != "" || ours || m.under == nil):
			return
		case len(left) == 0: // the tool found something: a second row, which counts
			add(row{Error: err.Error()}, m.batches[len(m.batches)-1])
			return
		case err == nil:
			err = errors.New("it ended without a row")
		case last != "" && strings.Contains(err.Error(), last):
			continue // the last row says so already
		}
		x := row{Error: err.Error()}
		if m.peer != "" && strings.Contains(x.Error, "No module named") || strings.Contains(x.Error, "has no CUDAExecutionProvider") {
			x.Missing, x.Error = x.Error, ""
		}
		if barren++; barren == 2 || x.Missing != "" || ours || time.Until(b.until) < shortest {
			add(x, left...)
			return
		}
		add(x, left[0])
		left = left[1:]
	}
}

// evald is the command that measures some batches.
func (b *bench) evald(m measurement, batches []int) []string {
	var sizes []string
	for _, n := range batches {
		sizes = append(sizes, strconv.Itoa(n))
	}
	args := append(slices.Clone(m.under), b.program("evald"), "bench", "eval", "--backend", "gpu", "--json",
		"--networks", m.network, "--batches", strings.Join(sizes, ","), "--round", m.round.String())
	for _, option := range [][2]string{{"--kernel", m.kernel}, {"--peer", m.peer}, {"--precision", m.precision}} {
		if option[1] != "" && option[1] != "float32" { // which is no choice
			args = append(args, option[:]...)
		}
	}
	return args
}

// ncu writes what the hardware does in one launch of a kernel, after the self-test's and one to warm up, into a file of the results.
// The clocks stay as they are.
func (b *bench) ncu(tool string, m measurement) {
	err := errors.New("no kernel was measured")
	if m.kernel != "" {
		report := filepath.Join(b.out, fmt.Sprintf("ncu-%s-%d.txt", m.kernel, m.batches[0]))
		under := []string{tool, "--set", "full", "--clock-control", "none", "--kernel-name", m.kernel, "--launch-skip", "2", "--launch-count", "1", "--log-file", report}
		err = b.command(nil, append(under, b.evald(m, m.batches)...)...)
		if text, _ := os.ReadFile(report); err == nil && !bytes.Contains(text, []byte("Duration")) {
			err = fmt.Errorf("ncu wrote no metrics into %s", report)
		}
	}
	b.add(row{Part: "profiles", Name: "ncu " + m.name(m.batches[0]), Error: reason(err)})
}

var testFailed = regexp.MustCompile(`^\s*--- FAIL: (\S+)`)

// tests runs a program of Go's tests, and adds its row, which names the tests that failed; the log has the reasons. under is the tool that
// runs it, with its arguments, if any. Tests that name kernels themselves are skipped if kernels are left out.
func (b *bench) tests(part, program string, under []string, args ...string) {
	name := program
	if len(under) > 0 {
		name = under[2] + " " + program
	}
	left := time.Until(b.until)
	args = append(append(slices.Clone(under), b.program(program), "-test.v", "-test.timeout", (left-min(left/10, 5*time.Second)).String()), args...)
	if len(b.barred) > 0 {
		args = append(args, "-test.skip", "^TestGPU(SameBits|Sanitize)$|^TestGPUAccuracy$/ by ("+strings.Join(b.barred, "|")+")$")
	}
	var failed []string
	err := b.command(func(line string) {
		if m := testFailed.FindStringSubmatch(line); m != nil {
			failed = append(failed, m[1])
		}
	}, args...)
	if failed != nil {
		err = fmt.Errorf("%s failed: %w", strings.Join(failed, ", "), err)
	}
	b.add(row{Part: part, Name: name, Error: reason(err)})
}
