package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/evald/evald/cmd/evald/internal/stream"
)

// tally counts what happened to the lines of a command's input, for its last message.
type tally struct {
	answered int // includes those answered with an error
	refused  int // answered with an error
	givenUp  int // begun, but cut short by an interrupt
}

// end prints how many lines were refused.
func (t tally) end(stderr io.Writer) error {
	if t.refused == 0 {
		return nil
	}
	fmt.Fprintf(stderr, "evald: %d of %d lines refused; their answers say why\n", t.refused, t.answered)
	return errBadLines
}

// interrupted prints how far the command has come, followed by more.
func (t tally) interrupted(stderr io.Writer, more string) error {
	text := fmt.Sprintf("evald: interrupted; %d lines were answered", t.answered)
	if t.refused > 0 {
		text += fmt.Sprintf(" (%d of them refused)", t.refused)
	}
	if t.givenUp > 0 {
		text += fmt.Sprintf(", %d were begun and given up", t.givenUp)
	}
	fmt.Fprintln(stderr, text+", the rest was not begun"+more)
	return errInterrupted
}

// wasInterrupted reports whether a command ended with err because the user interrupted it.
func wasInterrupted(ctx context.Context, err error) bool {
	return ctx.Err() != nil && errors.Is(err, context.Canceled)
}

// countLines returns how many lines of a file hold a position, or 0 if the file cannot be read twice.
func countLines(ctx context.Context, in io.Reader) (n int, err error) {
	f, ok := in.(*os.File)
	if !ok {
		return 0, nil
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return 0, err
	}
	r := stream.NewReader(ctx, f)
	var lines []stream.Line
	for more := true; more; n += len(lines) {
		if lines, more, err = r.Next(lines[:0], 1024); err != nil {
			return 0, err
		}
	}
	_, err = f.Seek(0, io.SeekStart)
	return n, err
}

// open opens a file of lines, or standard input for "" and "-". If people have to type the lines, it tells them.
func (s streams) open(name, what string) (io.ReadCloser, error) {
	if name != "" && name != "-" {
		return openFile(name)
	}
	if isTerminal(s.in) {
		fmt.Fprintf(s.err, "evald: waiting for %s, one a line; Ctrl-D ends\n", what)
	}
	return io.NopCloser(s.in), nil
}

func openFile(name string) (io.ReadCloser, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err == nil && info.IsDir() {
		f.Close()
		return nil, fmt.Errorf("%s is a directory, want a file of lines", name)
	}
	return f, nil
}
