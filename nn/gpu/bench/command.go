//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/evald/evald/engine/short"
)

// command is a program to run.
type command struct {
	args []string
	line func(string) // is called with each line of its output
}

var (
	errOver = errors.New("its time in the run is over")
	errStop = errors.New("the run was stopped")
)

// shortest is the least time that is worth starting a program for.
const shortest = time.Second

// patience is how long a killed program has to end.
const patience = 3 * time.Second

// over says whose time is over.
func (b *bench) over() error {
	if b.until.Before(b.end) {
		return fmt.Errorf("it took longer than %v", b.step)
	}
	return errOver
}

// command runs a program to its end, or kills it, with all that it started, when the step's or the run's time is over. The
// error says why it failed: which time was over, or the last line that it wrote to stderr. Both outputs go to the log.
func (b *bench) command(c command) error {
	if b.ctx.Err() != nil {
		return errStop
	}
	if time.Until(b.until) < min(shortest, b.step) {
		return b.over()
	}
	b.began = time.Now()
	fmt.Fprintf(b.log, "\n%s $ %s\n", time.Now().UTC().Format(time.RFC3339), strings.Join(c.args, " "))
	// If we die, so does the program: the signal is sent when the thread that started it ends, so there is one thread for
	// all, which lives as long as we do (main).
	p := exec.Command(c.args[0], c.args[1:]...)
	p.Env = b.environment()
	p.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	said := new(short.Tail)
	p.Stderr, p.WaitDelay = io.MultiWriter(b.log, said), 2*time.Second
	p.Stdout = &lines{line: func(text string) {
		fmt.Fprintln(b.log, text)
		if c.line != nil {
			c.line(text)
		}
	}}
	if err := p.Start(); err != nil {
		return err
	}
	died := make(chan error, 1)
	go func() { died <- p.Wait() }()
	over := time.NewTimer(time.Until(b.until))
	defer over.Stop()
	var ended error
	select {
	case err := <-died:
		close(died)
		if err != nil {
			ended = fmt.Errorf("%w: %s", err, said.LastLine())
		}
	case <-over.C:
		ended = b.over()
	case <-b.ctx.Done():
		ended = errStop
	}
	_ = syscall.Kill(-p.Process.Pid, syscall.SIGKILL) // all that is left; the error is that nothing is
	if ended != nil {
		select {
		case <-died:
		case <-time.After(patience): // a driver can keep a process whose kernel hangs
		}
		fmt.Fprintf(b.log, "FAILED: %v\n", ended)
	}
	return ended
}

// output runs a program, and returns what it writes.
func (b *bench) output(args ...string) (text string, err error) {
	err = b.command(command{args: args, line: func(line string) { text += line + "\n" }})
	return text, err
}

// lines calls line with each line that is written.
type lines struct {
	line func(string)
	rest []byte // that has no end yet
}

func (l *lines) Write(text []byte) (int, error) {
	l.rest = append(l.rest, text...)
	for {
		line, rest, whole := bytes.Cut(l.rest, []byte("\n"))
		if !whole {
			return len(text), nil
		}
		l.rest = rest
		l.line(string(line))
	}
}
