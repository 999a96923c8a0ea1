//go:build linux

package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// row is a line of a run's file.
type row struct {
	Run     string          `json:"run"`  // canary, A, B, C or D
	Part    string          `json:"part"` // of the run
	Name    string          `json:"name"` // of what was measured, among the rows of the part
	Time    time.Time       `json:"time"` // when it ended
	Error   string          `json:"error,omitempty"`
	Missing string          `json:"missing,omitempty"` // why it was not measured, if that is no fault: a tool is not there
	Without string          `json:"without,omitempty"` // kernels that had failed before and were left out
	Clocks  *clock          `json:"clocks,omitempty"`  // while it was measured
	Result  json.RawMessage `json:"result,omitempty"`  // of the program that measured it
}

// reason is the text of an error, or nothing.
func reason(err error) string {
	if err == nil {
		return ""
	}
	return strings.TrimSpace(err.Error())
}

// openRows opens the file of a run, to which a second run adds.
func openRows(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(path)
	if err == nil && len(text) > 0 && !bytes.HasSuffix(text, []byte("\n")) { // a killed run can tear its last line
		_, err = f.WriteString("\n")
	}
	return f, err
}

// add writes a row, and returns when it is on the disk. If that fails, there is no use in going on.
func (b *bench) add(x row) {
	x.Run, x.Time, x.Without, x.Clocks = b.name, time.Now().UTC(), strings.Join(b.barred, ","), b.clocks.since(b.began)
	line, err := json.Marshal(x)
	if err == nil {
		_, err = b.rows.Write(append(line, '\n'))
	}
	if err == nil {
		err = b.rows.Sync()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "run:", err)
		os.Exit(1)
	}
	if x.Error != "" {
		b.failed++
	}
	b.say("%s: %s: %s", x.Part, x.Name, cmp.Or(x.Error, x.Missing, "done"))
	b.began = time.Now()
}

// readRows reads the files of all runs in a folder. Of rows about the same thing the last one counts; it stands at the place
// of the first. Lines that are no rows, such as the torn end of a killed run, are left out and counted.
func readRows(folder string) (all []row, torn int, err error) {
	at := map[[3]string]int{}
	for _, run := range []string{"canary", "A", "B", "C", "D"} {
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
