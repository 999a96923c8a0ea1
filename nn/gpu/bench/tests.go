//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

var (
	testEnded  = regexp.MustCompile(`^(    )?--- (PASS|FAIL|SKIP): (\S+) \(`)
	testFailed = regexp.MustCompile(`^\s+\w+\.go:\d+: (.*)`)
)

// tests runs a program of Go's tests, and adds a row for each test and each of its direct subtests as it ends. under is the
// tool that runs it, with its arguments, if any. Tests that name kernels themselves are skipped if kernels are left out.
func (b *bench) tests(part, program string, under []string, args ...string) {
	start, said, name := time.Now(), "", program
	if len(under) > 0 {
		name = under[2] + " " + program
	}
	args = append(append(slices.Clone(under), b.program(program), "-test.v"), args...)
	left := time.Until(b.until)
	args = append(args, "-test.timeout", (left - min(left/10, 5*time.Second)).String())
	if len(b.barred) > 0 {
		args = append(args, "-test.skip", "^TestGPU(SameBits|Sanitize)$|^TestGPUAccuracy$/ by ("+strings.Join(b.barred, "|")+")$")
	}
	err := b.command(command{args: args, line: func(line string) {
		if m := testFailed.FindStringSubmatch(line); m != nil {
			said = m[1]
		}
		m := testEnded.FindStringSubmatch(line)
		if m == nil {
			return
		}
		x := row{Part: part, Name: name + " " + m[3]}
		switch m[2] {
		case "FAIL":
			x.Error = "failed: " + said
		case "SKIP":
			x.Missing = "skipped: " + said
		}
		b.add(x)
	}})
	x := row{Part: part, Name: name, Result: json.RawMessage(fmt.Sprintf(`{"seconds":%.1f}`, time.Since(start).Seconds()))}
	if err != nil {
		x.Error = strings.TrimSpace(err.Error())
	}
	b.add(x)
}
