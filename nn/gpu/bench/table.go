//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/evald/evald/nn/gpu"
)

// speed is what the table takes from a line of evald bench eval --backend gpu.
type speed struct {
	Network, Kernel, Device, Driver string
	Emulated                        bool
	Batch, Waves                    int
	Launch, FLOPs                   float64
	EndToEnd                        float64 `json:"end_to_end"`
	Latency                         float64 `json:"latency_seconds"`
	Peer                            *struct {
		How                        string
		Launch, Ratio, Least, Most float64
		EndToEnd                   float64 `json:"end_to_end"`
		Peak                       float64 `json:"peak_flops"`
		Ready                      float64 `json:"ready_seconds"`
	}
}

// writeTable writes the summary of a folder's rows into table.txt there, and to stdout.
func writeTable(folder string) error {
	all, torn, err := readRows(folder)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return fmt.Errorf("%s has no rows", folder)
	}
	var text strings.Builder
	table(&text, all, torn)
	fmt.Print(text.String())
	return os.WriteFile(filepath.Join(folder, "table.txt"), []byte(text.String()), 0o666)
}

// metrics are those of ncu that the table shows; the rows have all.
var metrics = []string{"Duration", "Compute (SM) Throughput", "Memory Throughput", "Executed Ipc Active", "Registers Per Thread", "Achieved Occupancy"}

func table(w io.Writer, all []row, torn int) {
	var parts []string
	heads := map[string]bool{}
	for _, x := range all {
		if part := x.Part + " of run " + x.Run; !slices.Contains(parts, part) {
			parts = append(parts, part)
		}
		var s speed
		if json.Unmarshal(x.Result, &s) != nil || s.Device == "" {
			continue
		}
		lines := []string{fmt.Sprintf("device %s; driver %s", s.Device, s.Driver)}
		if s.Emulated {
			lines = append(lines, "EMULATED: no GPU computed this, the numbers mean nothing")
		}
		if s.Peer != nil {
			lines = append(lines, "peer   "+s.Peer.How)
		}
		for _, line := range lines {
			if !heads[line] {
				fmt.Fprintln(w, line)
			}
			heads[line] = true
		}
	}
	for _, part := range parts {
		rows := slices.DeleteFunc(slices.Clone(all), func(x row) bool { return x.Part+" of run "+x.Run != part })
		failed, missing := 0, 0
		for _, x := range rows {
			if x.Error != "" {
				failed++
			} else if x.Missing != "" {
				missing++
			}
		}
		fmt.Fprintf(w, "\n%s: %d done, %d failed, %d missing\n", part, len(rows)-failed-missing, failed, missing)
		figures(w, rows)
		complaints(w, rows)
	}
	if torn > 0 {
		fmt.Fprintf(w, "\n%d lines are no rows: a run was killed while it wrote\n", torn)
	}
}

// figures writes a part's speeds and metrics, if it has any.
func figures(w io.Writer, rows []row) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	defer t.Flush()
	head, headPeer := "network\tkernel\tbatch\twaves\tM/s\tTFLOP/s\tend to end M/s\tone batch\tMHz\tW\tclocks\t", "peer\tM/s\tend to end M/s\tours by peer's\tits peak\tready in\t"
	begun := false
	for _, x := range rows {
		choices(t, x)
		var s speed
		var counted struct{ Metrics map[string]string }
		_ = json.Unmarshal(x.Result, &s) // a row without figures has none to show
		_ = json.Unmarshal(x.Result, &counted)
		for _, name := range metrics {
			if value := counted.Metrics[name]; value != "" {
				fmt.Fprintf(t, "%s\t%s\t%s\t\n", x.Name, name, value)
			}
		}
		if s.Launch == 0 {
			continue
		}
		if !begun {
			begun = true
			if fmt.Fprint(t, head); s.Peer != nil {
				fmt.Fprint(t, headPeer)
			}
			fmt.Fprintln(t)
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%.4g\t%.4g\t%.4g\t%v\t", s.Network, s.Kernel, s.Batch, s.Waves, s.Launch/1e6, s.FLOPs/1e12, s.EndToEnd/1e6,
			time.Duration(s.Latency*1e9).Round(time.Microsecond))
		if c := x.Clocks; c != nil {
			fmt.Fprintf(t, "%.0f\t%.0f\t%s\t", c.MHz, c.Watts, strings.Join(c.Reasons, ", "))
		} else {
			fmt.Fprint(t, "\t\t\t")
		}
		if p := s.Peer; p != nil {
			words := strings.Fields(strings.TrimPrefix(x.Name, s.Network+" "))
			peak := ""
			if p.Peak > 0 {
				peak = fmt.Sprintf("%.4g TFLOP/s", p.Peak/1e12)
			}
			fmt.Fprintf(t, "%s\t%.4g\t%.4g\t%.2f (%.2f-%.2f)\t%s\t%.1f s\t", strings.TrimSuffix(strings.Join(words[:min(2, len(words))], " "), ","),
				p.Launch/1e6, p.EndToEnd/1e6, p.Ratio, p.Least, p.Most, peak, p.Ready)
		}
		fmt.Fprintln(t)
	}
}

// choices writes by which kernels a device evaluates, and what it measured, if the row has that.
func choices(w io.Writer, x row) {
	var found struct {
		Tried []struct {
			GPU    int
			Kernel string
			Small  []gpu.Sized
			Times  gpu.Samples
			Notes  []string
		}
	}
	_ = json.Unmarshal(x.Result, &found) // other rows have none
	for _, d := range found.Tried {
		for _, s := range d.Small {
			fmt.Fprintf(w, "GPU %d\tup to %d positions\t%s\t\n", d.GPU, s.Most, s.Kernel)
		}
		fmt.Fprintf(w, "GPU %d\tmore\t%s\t\n", d.GPU, d.Kernel)
		for _, kernel := range slices.Sorted(maps.Keys(d.Times)) {
			for _, s := range d.Times[kernel] {
				fmt.Fprintf(w, "%s\t%d positions\t%.1f µs\t\n", kernel, s.Positions, 1e6*s.Seconds)
			}
		}
		for _, note := range d.Notes {
			fmt.Fprintf(w, "GPU %d\t%s\t\t\n", d.GPU, note)
		}
	}
}

// complaints writes why rows of a part are not there, rows with the same reason in one line.
func complaints(w io.Writer, rows []row) {
	var reasons []string
	names := map[string][]string{}
	for _, x := range rows {
		reason := x.Error
		if reason == "" && x.Missing != "" {
			reason = "missing: " + x.Missing
		}
		if reason == "" {
			continue
		}
		if names[reason] == nil {
			reasons = append(reasons, reason)
		}
		names[reason] = append(names[reason], x.Name)
	}
	for _, reason := range reasons {
		fmt.Fprintf(w, "  %s: %s\n", strings.Join(names[reason], "; "), reason)
	}
}
