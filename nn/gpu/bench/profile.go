//go:build linux

package main

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
)

// ncu counts what the hardware does in one launch of a kernel, after the self-test's and one to warm up. The clocks stay as they
// are. The row has the metrics.
func (b *bench) ncu(tool string, m measurement) {
	x := row{Part: "profiles", Name: "ncu " + m.name(m.batches[0])}
	report := filepath.Join(b.temp, "ncu-"+m.kernel)
	out := ""
	err := errors.New("no kernel was measured")
	if m.kernel != "" {
		m.under = []string{tool, "--set", "full", "--clock-control", "none", "--kernel-name", m.kernel, "--launch-skip", "2", "--launch-count", "1", "-f", "-o", report}
		err = b.command(command{args: b.evald(m, m.batches)})
	}
	if err == nil {
		out, err = b.output(tool, "--import", report+".ncu-rep", "--csv", "--page", "details")
	}
	found := ncuMetrics(out)
	if err == nil && len(found) == 0 {
		err = errors.New("ncu reports no metrics; see the log")
	}
	if err != nil {
		x.Error = err.Error()
	}
	if len(found) > 0 {
		x.Result, _ = json.Marshal(map[string]any{"kernel": m.kernel, "metrics": found}) // strings alone
	}
	b.add(x)
}

// ncuMetrics reads metrics by name, with their units, from the CSV of ncu, in which other lines stand too.
func ncuMetrics(out string) map[string]string {
	var lines []string
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, `"`) {
			lines = append(lines, line)
		}
	}
	in := csv.NewReader(strings.NewReader(strings.Join(lines, "")))
	in.FieldsPerRecord = -1
	metrics := map[string]string{}
	columns := map[string]int{}
	for {
		record, err := in.Read()
		if err != nil { // the end, or a line that was torn
			return metrics
		}
		if len(columns) == 0 {
			for i, name := range record {
				columns[name] = i
			}
			continue
		}
		field := func(name string) string {
			if i, ok := columns[name]; ok && i < len(record) {
				return record[i]
			}
			return ""
		}
		if name := field("Metric Name"); name != "" {
			metrics[name] = strings.TrimSpace(field("Metric Value") + " " + field("Metric Unit"))
		}
	}
}

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
