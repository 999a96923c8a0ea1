//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/evald/evald/engine/short"
)

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

// command runs a program to its end, or kills it, with all that it started, when the step's or the run's time is over. It calls line,
// unless that is nil, with each line of its output. The error says why it failed: which time was over, or the last line that it wrote
// to stderr. Both outputs go to the log.
func (b *bench) command(line func(string), args ...string) error {
	if b.ctx.Err() != nil {
		return errStop
	}
	if time.Until(b.until) < min(shortest, b.step) {
		return b.over()
	}
	b.began = time.Now()
	fmt.Fprintf(b.log, "\n%s $ %s\n", time.Now().UTC().Format(time.RFC3339), strings.Join(args, " "))
	said := new(short.Tail)
	p, err := b.start(io.MultiWriter(b.log, said), func(text string) {
		fmt.Fprintln(b.log, text)
		if line != nil {
			line(text)
		}
	}, args...)
	if err != nil {
		return err
	}
	died := make(chan error, 1)
	go func() { died <- p.Wait() }()
	over := time.NewTimer(time.Until(b.until))
	defer over.Stop()
	select {
	case err = <-died:
		close(died)
		if err != nil {
			err = fmt.Errorf("%w: %s", err, said.LastLine())
		}
	case <-over.C:
		err = b.over()
	case <-b.ctx.Done():
		err = errStop
	}
	_ = syscall.Kill(-p.Process.Pid, syscall.SIGKILL) // all that is left; the error is that nothing is
	if err != nil {
		select {
		case <-died:
		case <-time.After(patience): // a driver can keep a process whose kernel hangs
		}
		fmt.Fprintf(b.log, "FAILED: %v\n", err)
	}
	return err
}

// start starts a program that dies with us: the signal is sent when the thread that started it ends, so there is one thread for
// all, which lives as long as we do (main).
func (b *bench) start(stderr io.Writer, line func(string), args ...string) (*exec.Cmd, error) {
	p := exec.Command(args[0], args[1:]...)
	p.Env = b.environment()
	p.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	p.Stdout = &short.Lines{Each: func(text string) error {
		line(text)
		return nil
	}}
	p.Stderr, p.WaitDelay = stderr, 2*time.Second
	return p, p.Start()
}

// output runs a program, and returns what it writes.
func (b *bench) output(args ...string) (text string, err error) {
	err = b.command(func(line string) { text += line + "\n" }, args...)
	return text, err
}

func (b *bench) program(name string) string { return filepath.Join(b.here, name) }

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

// without names the variable that leaves kernels out, by name, in all programs that use evald's code.
const without = "EVALD_GPU_WITHOUT"

// environment is that of all programs. evald finds the driver where containers have it, so that LD_LIBRARY_PATH stays as it is:
// Python's packages have their own libraries. Nothing is written to a home that may not exist.
func (b *bench) environment() []string {
	env := append(os.Environ(), "TMPDIR="+b.temp, "EVALD_GPU=1", without+"="+strings.Join(b.barred, ","))
	if !b.gpu.Emulated() {
		env = append(env, "EVALD_REQUIRE_GPU=1")
	}
	for name, folder := range map[string]string{"HOME": "", "CUDA_CACHE_PATH": "cuda", "TORCHINDUCTOR_CACHE_DIR": "inductor", "TRITON_CACHE_DIR": "triton"} {
		if os.Getenv(name) == "" {
			env = append(env, name+"="+filepath.Join(b.temp, folder))
		}
	}
	return env
}
