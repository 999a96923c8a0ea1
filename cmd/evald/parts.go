package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/short"
	"github.com/evald/evald/nn/open"
)

// A large file is answered in parts, by any number of processes and machines that share its folder. Each part is a file that appears when it
// is complete. So a process that is killed loses its part alone, and the same command answers it again.

// part is part of of the parts of a file, from 0.
type part struct{ index, of int }

// mostParts is the maximum number of parts of a file.
const mostParts = 1_000_000

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *part) UnmarshalText(text []byte) error {
	index, of, _ := strings.Cut(string(text), "/")
	i, err := strconv.Atoi(index)
	n, wrong := strconv.Atoi(of)
	if err != nil || wrong != nil || i < 0 || n < 1 || n > mostParts || i >= n {
		return fmt.Errorf("%s: must be I/N, with N up to %d and I from 0 to N-1, such as 0/64 for the first of 64 parts", short.Quote(string(text)), mostParts)
	}
	*p = part{i, n}
	return nil
}

// String returns the part as a flag has it; "" if there is none.
func (p part) String() string {
	if p.of == 0 {
		return ""
	}
	return fmt.Sprintf("%d/%d", p.index, p.of)
}

// name is the name of the part's file.
func (p part) name(format string) string {
	return fmt.Sprintf("part-%0*d-of-%d.%s", len(strconv.Itoa(p.of-1)), p.index, p.of, format)
}

// ofPart returns the items of a part: every N-th from the I-th, in their order; all if there are no parts.
func ofPart[T any](all []T, p part) (some []T) {
	for i := p.index; i < len(all); i += max(p.of, 1) {
		some = append(some, all[i])
	}
	return some
}

// lineParts has the flags of commands that write an answer for each line of their input.
type lineParts struct {
	outFile
	Part part `needs:"out" placeholder:"I/N" help:"Answer only part I of N of the lines of a file, I from 0 to N-1, into a file of the folder -o DIR, such as part-03-of-64.jsonl. A part that is there stays as it is, so the same command can run again, and on several machines at once. The parts one after the other are what a run without --part writes, if the same processors answer."`

	given map[string]string // flags of the command line that may change answers; with files a checksum
}

// AfterApply notes the flags that may change answers.
func (p *lineParts) AfterApply(line *kong.Context) error {
	p.given = map[string]string{}
	for _, f := range line.Flags() {
		if p.Part.of == 0 || !f.Set || slices.Contains([]string{"out", "part", "gpus", "threads", "batch", "verbose", "table-mib"}, f.Name) {
			continue
		}
		text := fmt.Sprint(f.Target.Interface())
		if file, err := os.Open(text); err == nil {
			ends, err := endsOf(file, fileSize(file))
			if file.Close(); err == nil {
				text += " " + ends
			}
		}
		p.given[f.Name] = text
	}
	return nil
}

// partsOf describes what the parts in a folder are parts of. All parts of a folder have the same.
type partsOf struct {
	Command string            `json:"command"`
	Parts   int               `json:"parts"`
	Bytes   int64             `json:"bytes"` // of the input
	Ends    string            `json:"ends"`  // see endsOf
	Model   string            `json:"model,omitempty"`
	Version int               `json:"version,omitempty"` // of the model
	Flags   map[string]string `json:"flags"`
}

// answer answers the lines of a file, or a part of them, by work. model is what answers, nil for a solver.
func (p *lineParts) answer(ctx context.Context, s streams, command string, model *open.Opened, file, format string, work func(in io.Reader, out io.Writer) (tally, error)) error {
	if p.Part.of == 0 {
		return p.outFile.answer(ctx, s, file, "positions", work)
	}
	if file == "" || file == "-" {
		return usage("--part %v: standard input cannot be read in parts: name a file", p.Part)
	}
	in, err := openFile(file)
	if err != nil {
		return err
	}
	defer in.Close()
	f, size := in.(*os.File), fileSize(in)
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return usage("--part %v: %s cannot be read in parts, as it is no regular file", p.Part, file)
	}
	if err := os.MkdirAll(p.Out, 0o755); err != nil {
		return err
	}
	ends, err := endsOf(f, size)
	if err != nil {
		return err
	}
	config := partsOf{Command: command, Parts: p.Part.of, Bytes: size, Ends: ends, Flags: p.given}
	if model != nil {
		config.Model, config.Version = model.Model, model.Version
	}
	if err := keepConfig(ctx, filepath.Join(p.Out, "parts.json"), config); err != nil {
		return err
	}
	out := filepath.Join(p.Out, p.Part.name(format))
	if _, err := os.Stat(out); !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			fmt.Fprintf(s.err, "evald: %s is there already\n", out)
		}
		return err
	}
	section, err := sectionOf(ctx, f, size, p.Part)
	if err != nil {
		return orInterrupted(ctx, err, s.err, "; %s was not begun", out)
	}
	return outFile{out}.answerAll(ctx, s, section, "positions", work)
}

// keepConfig is durable.KeepConfig for a folder in which several processes may begin at once.
func keepConfig[C any](ctx context.Context, path string, config C) error {
	for {
		err := durable.KeepConfig(path, config)
		if !errors.Is(err, durable.ErrInUse) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// endsOf returns a checksum of the first and the last 64 KiB of a file.
func endsOf(f io.ReaderAt, size int64) (string, error) {
	const end = 64 << 10
	sum := sha256.New()
	for _, at := range []int64{0, max(0, size-end)} {
		if _, err := io.Copy(sum, io.NewSectionReader(f, at, end)); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%x", sum.Sum(nil)[:8]), nil
}

// section is a part of a file of lines.
type section struct {
	*io.SectionReader
	before int
}

// LinesBefore returns the number of lines of the file before the section.
func (s section) LinesBefore() int { return s.before }

// sectionOf returns a part of a file: the lines that begin in the part's share of the bytes.
func sectionOf(ctx context.Context, f io.ReaderAt, size int64, p part) (section, error) {
	var begins [2]int64
	for i := range begins {
		var err error
		if begins[i], err = lineAt(f, size, share(size, p.index+i, p.of)); err != nil {
			return section{}, err
		}
	}
	before, err := newlines(ctx, io.NewSectionReader(f, 0, begins[0]))
	return section{io.NewSectionReader(f, begins[0], begins[1]-begins[0]), before}, err
}

// share returns where part i of n of size bytes begins.
func share(size int64, i, n int) int64 {
	each, rest := size/int64(n), size%int64(n)
	return each*int64(i) + min(rest, int64(i))
}

// lineAt returns where the first line begins that begins at byte at or later; size if none does.
func lineAt(f io.ReaderAt, size, at int64) (int64, error) {
	if at == 0 {
		return 0, nil
	}
	in := bufio.NewReader(io.NewSectionReader(f, at-1, size-at+1))
	for begin := at - 1; ; {
		text, err := in.ReadSlice('\n')
		begin += int64(len(text))
		if err == nil || errors.Is(err, io.EOF) {
			return begin, nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return 0, err
		}
	}
}
