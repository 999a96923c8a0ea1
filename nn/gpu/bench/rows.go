//go:build linux

package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// row is a line of a run's file.
type row struct {
	Run     string          `json:"run"`  // canary, A, B or C
	Part    string          `json:"part"` // of the run
	Name    string          `json:"name"` // of what was measured, among the rows of the part
	Time    time.Time       `json:"time"` // when it ended
	Error   string          `json:"error,omitempty"`
	Missing string          `json:"missing,omitempty"` // why it was not measured, if that is no fault: a tool is not there
	Without string          `json:"without,omitempty"` // kernels that had failed before and were left out
	Clocks  *clock          `json:"clocks,omitempty"`  // while it was measured
	Result  json.RawMessage `json:"result,omitempty"`  // of the program that measured it
}

// rows is the file of a run. A second run adds to it.
type rows struct {
	run    string
	file   *os.File
	failed int // rows with an error
}

func openRows(folder, run string) (*rows, error) {
	f, err := os.OpenFile(filepath.Join(folder, run+".jsonl"), os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o666)
	if err != nil {
		return nil, err
	}
	r := &rows{run: run, file: f}
	end := make([]byte, 1)
	info, err := f.Stat()
	if err == nil && info.Size() > 0 {
		if _, err = f.ReadAt(end, info.Size()-1); err == nil && end[0] != '\n' { // a killed run can tear its last line
			_, err = f.WriteString("\n")
		}
	}
	return r, err
}

// add writes a row, and returns when it is on the disk.
func (r *rows) add(x row) error {
	x.Run, x.Time = r.run, time.Now().UTC()
	if x.Error != "" {
		r.failed++
	}
	line, err := json.Marshal(x)
	if err != nil {
		return err
	}
	if _, err := r.file.Write(append(line, '\n')); err != nil {
		return err
	}
	if err := r.file.Sync(); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "run %s: %s: %s: %s\n", x.Run, x.Part, x.Name, cmp.Or(x.Error, x.Missing, "done"))
	return nil
}

func (r *rows) close() { r.file.Close() }

// readRows reads the files of all runs in a folder. Of rows about the same thing the last one counts; it stands at the place
// of the first. Lines that are no rows, such as the torn end of a killed run, are left out and counted.
func readRows(folder string) (all []row, torn int, err error) {
	at := map[[3]string]int{}
	for _, run := range []string{"canary", "A", "B", "C"} {
		text, err := os.ReadFile(filepath.Join(folder, run+".jsonl"))
		if err != nil && !os.IsNotExist(err) {
			return nil, 0, err
		}
		for line := range bytes.Lines(text) {
			var x row
			if json.Unmarshal(line, &x) != nil {
				torn++
				continue
			}
			key := [3]string{x.Run, x.Part, x.Name}
			if i, known := at[key]; known {
				all[i] = x
				continue
			}
			at[key] = len(all)
			all = append(all, x)
		}
	}
	return all, torn, nil
}
