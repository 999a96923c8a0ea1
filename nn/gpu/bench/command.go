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
	args  []string
	limit time.Duration // the longest time until its next line of output; 0: none
	first time.Duration // the same for the first line, if that may take longer
	total time.Duration // of the whole program; 0: none
	line  func(string)  // hears each line of its output
}

var (
	errOver = errors.New("its time in the run is over")
	errStop = errors.New("the run was stopped")
)

// shortest is the least time that is worth starting a program for.
const shortest = time.Second

// command runs a program to its end, or kills it, with all that it started, when a limit or the run's time is over. The
// error says why it failed: which limit was over, or the last line that it wrote to stderr. Both outputs go to the log.
func (b *bench) command(c command) error {
	if b.ctx.Err() != nil {
		return errStop
	}
	if time.Until(b.end) < min(shortest, cmp.Or(c.limit, c.total)) {
		return errOver
	}
	if c.first == 0 {
		c.first = c.limit
	}
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
	if err := p.Wait(); ended == nil && err != nil {
		ended = fmt.Errorf("%w: %s", err, said.LastLine())
	}
	_ = syscall.Kill(-p.Process.Pid, syscall.SIGKILL) // what it left behind
	if ended != nil {
		fmt.Fprintf(b.log, "FAILED: %v\n", ended)
	}
	return ended
}

// hear passes lines on until there are no more, which is no error, or a time is over.
func (b *bench) hear(c command, lines <-chan string) error {
	start, limit := time.Now(), c.first
	for {
		over, wait := errOver, time.Until(b.end)
		if left := c.total - time.Since(start); c.total > 0 && left < wait {
			over, wait = fmt.Errorf("it took longer than %v", c.total), left
		}
		if limit > 0 && limit < wait {
			over, wait = fmt.Errorf("it took longer than %v", limit), limit
		}
		timer := time.NewTimer(wait)
		select {
		case text, more := <-lines:
			timer.Stop()
			if !more {
				return nil
			}
			fmt.Fprintln(b.log, text)
			if c.line != nil {
				c.line(text)
			}
			limit = c.limit
		case <-timer.C:
			return over
		case <-b.ctx.Done():
			timer.Stop()
			return errStop
		}
	}
}
