package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/evald/evald/engine/game/gametest"
)

// Each selection rule explores with its own constant, or with that of --explore.
func TestSearchExplore(t *testing.T) {
	search := func(flags ...string) string {
		_, out, stderr := evald(t, "-", append([]string{"search", "--backend", "bitsquares", "--visits", "300"}, flags...)...)
		if stderr != "" {
			t.Fatal(stderr)
		}
		return out
	}
	for selection, own := range map[string]string{"puct": "1.5", "uct": "1.4142135623730951"} {
		without := search("--selection", selection)
		if with := search("--selection", selection, "--explore", own); with != without {
			t.Errorf("%s: without --explore\n%s, with %s\n%s", selection, without, own, with)
		}
		if without == search("--selection", selection, "--explore", "0.1") {
			t.Errorf("%s: --explore 0.1 changes nothing", selection)
		}
	}
}

// The terminal shows how far a search has come before its first answer.
func TestSearchProgress(t *testing.T) {
	for want, p := range map[string]searchProgress{
		"0 of 2000 positions": {total: 2000},
		"0 of 2000 positions, 52 under way (25%), 6.5/s, 5m6s left": {total: 2000, busy: 52, visits: 13 * 20_000, of: 20_000, elapsed: 2 * time.Second},
		"100 of 150 positions, 50 under way (50%), 25/s, 1s left":   {done: 100, total: 150, busy: 50, visits: 25 * 800, of: 800, elapsed: 5 * time.Second},
		"100 positions, 1 under way (0%), 20/s":                     {done: 100, busy: 1, of: 800, elapsed: 5 * time.Second},
		"1600 of 1600 positions, 320/s, 0s left":                    {done: 1600, total: 1600, elapsed: 5 * time.Second},
	} {
		if got := p.String(); got != want {
			t.Errorf("%+v: %q, want %q", p, got, want)
		}
	}
	path := filepath.Join(t.TempDir(), "positions")
	putFile(t, path, "# comment\n44\n\n45\nnonsense")
	f := gametest.Must(os.Open(path))(t)
	defer f.Close()
	n, err := countLines(t.Context(), f)
	rest, _ := io.ReadAll(f)
	if n != 3 || err != nil || !strings.HasPrefix(string(rest), "# comment") {
		t.Errorf("%d lines, error %v, then %q; want 3, and the file from its beginning", n, err, rest)
	}
}

// cancelAtWrite is an output that interrupts the program when it is first written to.
type cancelAtWrite struct {
	bytes.Buffer
	cancel func()
}

func (o *cancelAtWrite) Write(p []byte) (int, error) {
	o.cancel()
	return o.Buffer.Write(p)
}

// An interrupt ends every command that reads a file of positions. Lines under way are answered or given up, lines read ahead
// are dropped, and neither is reported as refused.
func TestInterrupted(t *testing.T) {
	dir := t.TempDir()
	write := func(name, first, then string) string {
		var text strings.Builder
		fmt.Fprintln(&text, first)
		for i := range 20_000 {
			fmt.Fprintln(&text, strings.ReplaceAll(then, "N", fmt.Sprint(i)))
		}
		path := filepath.Join(dir, name)
		putFile(t, path, text.String())
		return path
	}
	short := write("short", "1212121", "44") // the first game is over, so it is answered at once
	hard := write("hard", "1212121", "12x9x5:-")
	bad := write("bad", "nonsense", "44")
	queries := write("queries", `{"id":"a","moves":"1212121"}`, `{"id":"N","moves":"-"}`)
	interrupted := "^evald: interrupted; "
	for _, c := range []struct {
		args string
		says string // on standard error
	}{
		{"eval --batch 16 --backend bitsquares " + short, interrupted + `\d{2,4} lines were answered, the rest was not begun\n$`},
		{"eval --batch 16 --backend bitsquares " + bad, interrupted + `\d{2,4} lines were answered \(1 of them refused\), the rest was not begun\n$`},
		{"search --visits 20 --backend bitsquares " + short, interrupted + `\d{1,3} lines were answered, the rest was not begun\n$`},
		{"search --visits 50000000 --backend uniform " + hard, interrupted + `1 lines were answered(, 1 were begun and given up)?, the rest was not begun\n$`},
		{"solve --threads 2 --table-mib 8 " + hard, interrupted + `\d lines were answered(, \d were begun and given up)?, the rest was not begun\n$`},
		{"solve --scores --threads 2 --table-mib 8 " + hard, interrupted + `\d lines were answered(, \d were begun and given up)?, the rest was not begun\n$`},
		{"analyze --visits 50000000 --at-once 4 --backend uniform " + queries, interrupted + `\d+ lines were answered(, \d were begun and given up)?, the rest was not begun\n$`},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		out := &cancelAtWrite{cancel: cancel}
		var stderr bytes.Buffer
		status := ended(t, func() int { return run(ctx, strings.Fields(c.args), streams{strings.NewReader(""), out, &stderr}) })
		if status != exitInterrupted || !regexp.MustCompile(c.says).MatchString(stderr.String()) {
			t.Errorf("%s: status %d, errors %q, want %s", c.args, status, stderr.String(), c.says)
		}
		var answered int
		fmt.Sscanf(stderr.String(), "evald: interrupted; %d", &answered)
		if lines := strings.Count(out.String(), "\n"); lines != answered || strings.Contains(out.String(), "interrupt") || strings.Contains(out.String(), "cancel") {
			t.Errorf("%s: %d answers, errors %q, output\n%.1000s", c.args, lines, stderr.String(), out.String())
		}
	}
}

// A long search is given up after an interrupt, even if the input is a silent pipe.
func TestInterruptedLong(t *testing.T) {
	for _, command := range []string{
		"search --visits 50000000 --backend uniform", "solve --table-mib 8", "solve --scores --table-mib 8 --threads 2",
		"score - --agent solver", "score - --visits 50000000 --backend uniform",
	} {
		ctx, cancel := context.WithCancel(t.Context())
		in, feed := io.Pipe()
		go io.WriteString(feed, "12x9x5:- 1 1 1 1 1 1 1 1 1 1 1 1\n12x9x5:1 1 1 1 1 1 1 1 1 1 1 1 1\n")
		time.AfterFunc(200*time.Millisecond, cancel) // most of them have begun by then
		var out, stderr bytes.Buffer
		status := ended(t, func() int { return run(ctx, strings.Fields(command), streams{in, &out, &stderr}) })
		feed.Close()
		if status != exitInterrupted || out.Len() > 0 || !strings.HasPrefix(stderr.String(), "evald: interrupted; ") {
			t.Errorf("%s: status %d, errors %q, output %q", command, status, stderr.String(), out.String())
		}
	}
}

// An interrupted measurement prints no table.
func TestScoreInterrupted(t *testing.T) {
	for _, flags := range []string{"--agent solver", "--visits 50000000 --backend uniform"} {
		said := "nothing was measured"
		for delay := 200 * time.Millisecond; strings.Contains(said, "nothing was measured"); delay *= 2 { // it had not begun
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(delay, cancel)
			var out, stderr bytes.Buffer
			status := ended(t, func() int {
				in := strings.NewReader("12x9x5:- 1 1 1 1 1 1 1 1 1 1 1 1\n")
				return run(ctx, append([]string{"score", "-"}, strings.Fields(flags)...), streams{in, &out, &stderr})
			})
			if said = stderr.String(); status != exitInterrupted || out.Len() > 0 {
				t.Errorf("%s: status %d, errors %q, output %q", flags, status, said, out.String())
			}
		}
		if !strings.Contains(said, "had answered 0 of 1 positions; a table is of all, so there is none") {
			t.Errorf("%s: errors %q", flags, said)
		}
	}
}

// An interrupt ends the solving of a file's moves, too.
func TestScoreSolvingInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(200*time.Millisecond, cancel)
	var out, stderr bytes.Buffer
	status := ended(t, func() int {
		return run(ctx, strings.Fields("score - --backend uniform"), streams{strings.NewReader("12x9x5:- 1\n12x9x5:1 -1\n"), &out, &stderr})
	})
	if want := "evald: interrupted; nothing was measured\n"; status != exitInterrupted || out.Len() > 0 || stderr.String() != want {
		t.Errorf("status %d, errors %q, output %q, want %q", status, stderr.String(), out.String(), want)
	}
}

// A second interrupt ends the program at once, even if its output is not read.
func TestInterruptedTwice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "positions")
	putFile(t, path, strings.Repeat("44\n", 100_000))
	program := beginProgram(t, "eval", path, "--backend", "uniform")
	out, err := program.StdoutPipe()
	gametest.OK(t, err)
	gametest.OK(t, program.Start())
	defer program.Process.Kill()
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil { // it is working, and soon blocks on the full pipe
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- program.Wait() }()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	late := time.After(20 * time.Second)
	for interrupts := 0; ; interrupts++ {
		select {
		case <-done:
			if interrupts < 2 {
				t.Errorf("%d interrupts ended it", interrupts)
			}
			return
		case <-late:
			t.Fatal("the program does not end")
		case <-again.C:
			_ = program.Process.Signal(os.Interrupt) // fails if it has just ended
		}
	}
}

// ended runs a program that must end.
func ended(t *testing.T, program func() int) int {
	t.Helper()
	done := make(chan int, 1)
	go func() { done <- program() }()
	select {
	case status := <-done:
		return status
	case <-time.After(20 * time.Second):
		t.Fatal("the program does not end")
		return 0
	}
}
