// Package fault turns panics into errors. A panic is a mistake in this program, never in its input.
// Only the goroutine that panics can recover, and otherwise the whole process ends, which may be a
// Python that belongs to somebody else. So each goroutine that a call starts recovers its panic,
// and hands it as an Error to the goroutine that waits. An Error is never ignored, and nothing is
// tried again after it.
//
// A process still ends if Go's runtime stops it (no memory, a stack without end, concurrent writes
// to a map), or on a fault in C code.
package fault

import (
	"errors"
	"fmt"
	"io"
	"path"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
)

// Error is a recovered panic.
type Error struct {
	Value any    // the panic's value
	Stack string // of the goroutine that panicked
	at    string
	told  atomic.Bool
}

// Error returns the panic's text and the innermost functions. It does not unwrap to Value: a panic
// with the error of an ended context must not count as an interrupt.
func (e *Error) Error() string {
	return fmt.Sprintf("evald has a fault: %v (at %s)", e.Value, e.at)
}

// Tell writes the panic with its whole stack to w, unless it was told before. Each program tells
// the faults that it gets, on standard error or in its log, because an error's text has room for
// the innermost functions alone.
func (e *Error) Tell(w io.Writer, version string) {
	if !e.told.Swap(true) {
		fmt.Fprintf(w, "evald %s has a fault: %v\n\n%s\n", version, e.Value, strings.TrimSpace(e.Stack))
	}
}

// In returns the Error that err is or wraps, or nil.
func In(err error) *Error {
	e, _ := errors.AsType[*Error](err)
	return e
}

// Catch is to be deferred: it makes a panic the error *err. It allocates nothing unless there is a
// panic.
func Catch(err *error) {
	if value := recover(); value != nil {
		*err = New(value)
	}
}

// New returns the Error of a recovered value, with the stack of this goroutine. It must be called
// in the deferred function that recovers, where the frames of the panic are still on the stack. A
// panic with an Error, which repeats another goroutine's, keeps that one.
func New(value any) *Error {
	if err, ok := value.(error); ok {
		if e := In(err); e != nil {
			return e
		}
	}
	return &Error{Value: value, Stack: string(debug.Stack()), at: innermost()}
}

// Functions that an Error's text names, and frames in which they are looked for.
const (
	mostNamed  = 4
	mostFrames = 64
)

// innermost names the innermost functions of this module below the panic, with file and line.
func innermost() string {
	pcs := make([]uintptr, mostFrames)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs)])
	var named []string
	for below, more := false, true; more && len(named) < mostNamed; {
		var f runtime.Frame
		f, more = frames.Next()
		switch {
		case f.Function == "runtime.gopanic":
			below = true
		case below && !strings.HasPrefix(f.Function, "runtime."):
			_, name, _ := strings.Cut(f.Function, "evald/evald/")
			if name == "" {
				name = f.Function
			}
			named = append(named, fmt.Sprintf("%s %s:%d", name, path.Base(f.File), f.Line))
		}
	}
	return strings.Join(named, " < ")
}

// Group is a sync.WaitGroup whose goroutines may panic.
type Group struct {
	wait  sync.WaitGroup
	mu    sync.Mutex
	first *Error
}

// Go calls f in a goroutine.
func (g *Group) Go(f func()) {
	g.wait.Add(1)
	go func() {
		defer g.wait.Done()
		g.Run(f)
	}()
}

// Add and Done are those of sync.WaitGroup.
func (g *Group) Add(n int) { g.wait.Add(n) }

// Done is Add(-1).
func (g *Group) Done() { g.wait.Done() }

// Run calls f in this goroutine, and keeps a panic for Wait.
func (g *Group) Run(f func()) {
	defer func() {
		if value := recover(); value != nil {
			g.keep(New(value))
		}
	}()
	f()
}

func (g *Group) keep(e *Error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.first == nil {
		g.first = e
	}
}

// Wait waits as sync.WaitGroup does, and then panics with the first Error, if there is one. So the
// panic continues in the goroutine that waits, which has the means to recover.
func (g *Group) Wait() {
	g.wait.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.first != nil {
		panic(g.first)
	}
}
