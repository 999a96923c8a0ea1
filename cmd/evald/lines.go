package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/evald/evald/cmd/evald/internal/stream"
	"github.com/evald/evald/engine/game"
)

// anyPosition is the flag of commands that read positions.
type anyPosition struct {
	AnyPosition bool `help:"Also accept boards that no game reaches, with any numbers of stones."`
}

// tally counts what happened to the lines of a command's input, for its last message.
type tally struct {
	answered int // includes those answered with an error
	refused  int // answered with an error
	givenUp  int // begun, but cut short by an interrupt
}

func (f outFile) answer(ctx context.Context, s streams, file, lines string, work func(in io.Reader, out io.Writer) (tally, error)) error {
	in, err := s.open(file, lines)
	if err != nil {
		return err
	}
	defer in.Close()
	return f.answerAll(ctx, s, in, lines, work)
}

// answerAll answers the lines of in by work, and says how many were refused.
func (f outFile) answerAll(ctx context.Context, s streams, in io.Reader, lines string, work func(in io.Reader, out io.Writer) (tally, error)) error {
	var t tally
	err := f.write(s.out, func(out io.Writer) (err error) {
		t, err = work(in, out)
		return err
	})
	if wasInterrupted(ctx, err) {
		return t.interrupted(s.err, f.Out)
	}
	if err != nil || t.refused == 0 {
		return err
	}
	if lines == "positions" {
		lines = "lines"
	}
	fmt.Fprintf(s.err, "evald: %d of %d %s refused; their answers say why\n", t.refused, t.answered, lines)
	return errBadLines
}

// interrupted prints how far the command has come. out is its output file, if it has one.
func (t tally) interrupted(stderr io.Writer, out string) error {
	text := fmt.Sprintf("evald: interrupted; %d lines were answered", t.answered)
	if t.refused > 0 {
		text += fmt.Sprintf(" (%d of them refused)", t.refused)
	}
	if t.givenUp > 0 {
		text += fmt.Sprintf(", %d were begun and given up", t.givenUp)
	}
	text += ", the rest was not begun"
	if out != "" {
		text += "; " + out + " was not written, since it would not be whole"
	}
	fmt.Fprintln(stderr, text)
	return errInterrupted
}

// wasInterrupted reports whether a command ended with err because the user interrupted it.
func wasInterrupted(ctx context.Context, err error) bool {
	return ctx.Err() != nil && errors.Is(err, context.Canceled)
}

// orInterrupted returns err or, if the user has interrupted the command, prints how far it has come and returns errInterrupted.
func orInterrupted(ctx context.Context, err error, stderr io.Writer, format string, args ...any) error {
	if !wasInterrupted(ctx, err) {
		return err
	}
	fmt.Fprintf(stderr, "evald: interrupted"+format+"\n", args...)
	return errInterrupted
}

// countLines returns the number of lines of a file that hold a position, or 0 if the file cannot be read twice.
func countLines(ctx context.Context, in io.Reader) (n int, err error) {
	f, ok := in.(io.ReadSeeker)
	if !ok || fileSize(in) == 0 {
		return 0, nil
	}
	for _, err := range stream.NewReader(ctx, f).Lines() {
		if err != nil {
			return 0, err
		}
		n++
	}
	_, err = f.Seek(0, io.SeekStart)
	return n, err
}

// newlines returns the number of newlines of in.
func newlines(ctx context.Context, in io.Reader) (n int, err error) {
	in = stream.Interruptible(ctx, in)
	for buffer := make([]byte, 256<<10); ; {
		k, err := in.Read(buffer)
		n += bytes.Count(buffer[:k], []byte("\n"))
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return n, err
		}
	}
}

// open opens a file of lines, or standard input for "" and "-". If standard input is a terminal, it says that lines must be typed.
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

// positionHint returns a hint how to pass a position to a command if err is about a missing file whose name is a position, else "".
func positionHint(command string, err error) string {
	missing, ok := errors.AsType[*fs.PathError](err)
	if !ok || !errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	text := missing.Path
	if _, err := new(game.Parser).Parse(text); err != nil {
		return ""
	}
	switch command {
	case "eval", "search", "solve":
		command = "evald " + command
	case "analyze":
		if text[0] != '{' {
			text = fmt.Sprintf(`{"id":"a","moves":%q}`, text)
		}
		command = "evald analyze"
	case "score":
		command = "evald solve --scores | evald score -"
	default:
		return ""
	}
	if text[0] == '{' {
		text = "'" + text + "'"
	}
	return fmt.Sprintf("; for the position itself: echo %s | %s", text, command)
}
