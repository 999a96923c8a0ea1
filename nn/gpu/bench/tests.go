//go:build linux

package main

import (
	"regexp"
	"strings"
	"time"
)

// tests runs a program of Go's tests, and adds a row for each test and each of its direct subtests as it ends.
func (b *bench) tests(name string, limit time.Duration, args ...string) {
	b.goTests("tests", name, append([]string{b.program(name)}, args...), limit)
}

var (
	testEnded  = regexp.MustCompile(`^(    )?--- (PASS|FAIL|SKIP): (\S+) \(`)
	testFailed = regexp.MustCompile(`^\s+\w+\.go:\d+: (.*)`)
)

func (b *bench) goTests(part, name string, args []string, limit time.Duration) {
	start, said, failed := time.Now(), "", 0
	args = append(args, "-test.v", "-test.timeout", (limit - min(limit/10, 5*time.Second)).String())
	err := b.command(command{args: args, total: limit, line: func(line string) {
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
			failed++
		case "SKIP":
			x.Missing = "skipped: " + said
		}
		b.add(x)
	}})
	x := row{Part: part, Name: name, Result: seconds(start)}
	if err != nil {
		x.Error = strings.TrimSpace(err.Error())
	}
	b.add(x)
}
