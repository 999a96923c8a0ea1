//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"
)

// speed is what the table takes from a line of evald bench eval --backend gpu.
type speed struct {
	Network, Kernel, Device, Driver string
	Emulated                        bool
	Batch, Waves                    int
	Launch, FLOPs, Bytes            float64
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

func table(w io.Writer, all []row, torn int) {
	seen := map[string]bool{}
	head := func(line string) {
		if !seen[line] {
			fmt.Fprintln(w, line)
		}
		seen[line] = true
	}
	for _, x := range all {
		s := x.speed()
		if s.Device == "" {
			continue
		}
		head(fmt.Sprintf("device %s; driver %s", s.Device, s.Driver))
		if s.Emulated {
			head("EMULATED: no GPU computed this, the numbers mean nothing")
		}
		if s.Peer != nil {
			head("peer   " + s.Peer.How)
		}
	}
	parts, of := grouped(all, func(x row) string { return x.Part + " of run " + x.Run })
	for _, part := range parts {
		failed, missing := 0, 0
		for _, x := range of[part] {
			if x.Error != "" {
				failed++
			} else if x.Missing != "" {
				missing++
			}
		}
		fmt.Fprintf(w, "\n%s: %d done, %d failed, %d missing\n", part, len(of[part])-failed-missing, failed, missing)
		figures(w, of[part])
		complaints(w, of[part])
	}
	if torn > 0 {
		fmt.Fprintf(w, "\n%d lines are no rows: a run was killed while it wrote\n", torn)
	}
}

// speed is the row's result, or nothing if that is of another kind.
func (x row) speed() (s speed) {
	_ = json.Unmarshal(x.Result, &s)
	return s
}

// grouped are the rows of each key, and the keys in the order in which they come first.
func grouped(all []row, key func(row) string) (keys []string, of map[string][]row) {
	of = map[string][]row{}
	for _, x := range all {
		k := key(x)
		if of[k] == nil {
			keys = append(keys, k)
		}
		of[k] = append(of[k], x)
	}
	return keys, of
}

// figures writes a part's speeds, if it has any.
func figures(w io.Writer, rows []row) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	defer t.Flush()
	head, headPeer := "network\tkernel\tbatch\twaves\tM/s\tTFLOP/s\tend to end M/s\tone batch\tMHz\tW\tclocks\t", "peer\tM/s\tend to end M/s\tours by peer's\tits peak\tready in\t"
	begun := false
	for _, x := range rows {
		s := x.speed()
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
		work := fmt.Sprintf("%.4g", s.FLOPs/1e12)
		if s.Bytes > 0 {
			work = fmt.Sprintf("%.4g TB/s", s.Bytes/1e12)
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%.4g\t%s\t%.4g\t%v\t", s.Network, s.Kernel, s.Batch, s.Waves, s.Launch/1e6, work, s.EndToEnd/1e6,
			time.Duration(s.Latency*1e9).Round(time.Microsecond))
		if c := x.Clocks; c != nil {
			fmt.Fprintf(t, "%.0f\t%.0f\t%s\t", c.MHz, c.Watts, strings.Join(c.Reasons, ", "))
		} else {
			fmt.Fprint(t, "\t\t\t")
		}
		if p := s.Peer; p != nil {
			name, _, _ := strings.Cut(strings.TrimPrefix(x.Name, s.Network+" "), ", batch")
			peak := ""
			if p.Peak > 0 {
				peak = fmt.Sprintf("%.4g TFLOP/s", p.Peak/1e12)
			}
			fmt.Fprintf(t, "%s\t%.4g\t%.4g\t%.2f (%.2f-%.2f)\t%s\t%.1f s\t", name,
				p.Launch/1e6, p.EndToEnd/1e6, p.Ratio, p.Least, p.Most, peak, p.Ready)
		}
		fmt.Fprintln(t)
	}
}

// complaints writes why rows of a part are not there, rows with the same reason in one line.
func complaints(w io.Writer, rows []row) {
	reasons, of := grouped(rows, func(x row) string {
		if x.Error == "" && x.Missing != "" {
			return "missing: " + x.Missing
		}
		return x.Error
	})
	for _, reason := range reasons {
		var names []string
		for _, x := range of[reason] {
			names = append(names, x.Name)
		}
		if reason != "" {
			fmt.Fprintf(w, "  %s: %s\n", strings.Join(names, "; "), reason)
		}
	}
}
