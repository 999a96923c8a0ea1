//go:build linux

package main

import (
	"bufio"
	"cmp"
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
	out  io.Writer    // where its output goes in place of the log, if not nil
}

var (
	errOver  = errors.New("its time in the run is over")
	errStop  = errors.New("the run was stopped")
	errStays = errors.New("its process does not end")
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
	out, err := p.StdoutPipe()
	if err != nil {
		return err
	}
	if err := p.Start(); err != nil {
		return err
	}
	lines := make(chan string)
	gone := make(chan struct{}) // closed when nobody reads lines any more
	go func() {
		defer close(lines)
		for in := bufio.NewReader(out); ; {
			text, err := in.ReadString('\n')
			if text != "" {
				select {
				case lines <- strings.TrimSuffix(text, "\n"):
				case <-gone:
					return
				}
			}
			if err != nil {
				return
			}
		}
	}()
	ended := b.hear(c, lines)
	close(gone)
	if ended != nil {
		_ = syscall.Kill(-p.Process.Pid, syscall.SIGKILL) // the error is that there is nobody to kill
	}
	died := make(chan error, 1)
	go func() { died <- p.Wait() }()
	select {
	case err := <-died:
		if ended == nil && err != nil {
			ended = fmt.Errorf("%w: %s", err, said.LastLine())
		}
	case <-time.After(max(patience, time.Until(b.until))): // a driver can keep a process whose kernel hangs
		ended = cmp.Or(ended, errStays)
	}
	_ = syscall.Kill(-p.Process.Pid, syscall.SIGKILL) // what it left behind
	if ended != nil {
		fmt.Fprintf(b.log, "FAILED: %v\n", ended)
	}
	return ended
}

// hear passes lines on until there are no more, which is no error, or the time is over.
func (b *bench) hear(c command, lines <-chan string) error {
	timer := time.NewTimer(time.Until(b.until))
	defer timer.Stop()
	if c.out == nil {
		c.out = b.log
	}
	for {
		select {
		case text, more := <-lines:
			if !more {
				return nil
			}
			fmt.Fprintln(c.out, text)
			if c.line != nil {
				c.line(text)
			}
		case <-timer.C:
			return b.over()
		case <-b.ctx.Done():
			return errStop
		}
	}
}
