package durable

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/evald/evald/engine/fault"
)

// Journal is a file of JSON lines, each with its checksum, opened for appending. It must be closed.
type Journal struct{ Handle }

// ReadJournal reads the lines of a journal in order. It omits a last line that a kill has torn. If a line is damaged, the error names the
// file and the line, and asks the user to remove the line; loss is the part of the message that names the consequence.
func ReadJournal[L any](path, loss string) ([]L, error) { return ReadJournalIn[L](OS, path, loss) }

// ReadJournalIn is ReadJournal in any file system.
func ReadJournalIn[L any](files FS, path, loss string) ([]L, error) {
	text, err := files.ReadFile(path)
	if err != nil {
		return nil, err
	}
	lines, err := Lines[L](text, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: remove that line, %s", path, err, loss)
	}
	return lines, nil
}

// BeginJournal writes a journal of these lines, replacing any existing one, and opens it for appending. After a kill or a power cut, either
// the old or the new journal exists; once BeginJournal has returned, always the new one.
func BeginJournal[L any](path string, lines []L) (*Journal, error) {
	return BeginJournalIn(OS, path, lines)
}

// BeginJournalIn is BeginJournal in any file system.
func BeginJournalIn[L any](files FS, path string, lines []L) (*Journal, error) {
	text, err := marshalLines(lines)
	if err != nil {
		return nil, err
	}
	if err := WriteFileIn(files, path, text); err != nil {
		return nil, err
	}
	file, err := files.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	return &Journal{file}, nil
}

// Add appends structs with at least one field as lines, all in one write with their newlines.
func (j *Journal) Add(lines ...any) error {
	text, err := marshalLines(lines)
	if err != nil {
		return err
	}
	_, err = j.Write(text)
	return err
}

// marshalLines writes structs as lines, on all cores.
func marshalLines[L any](lines []L) ([]byte, error) {
	texts, errs := make([][]byte, len(lines)), make([]error, len(lines))
	workers := min(runtime.GOMAXPROCS(0), len(lines))
	var group fault.Group
	for first := range workers {
		group.Go(func() {
			for i := first; i < len(lines); i += workers {
				text, err := Marshal(lines[i])
				texts[i], errs[i] = append(text, '\n'), err
			}
		})
	}
	group.Wait()
	return bytes.Join(texts, nil), errors.Join(errs...)
}
