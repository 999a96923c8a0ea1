//go:build linux

package main

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"strings"
	"time"
)

// ncu counts what the hardware does in one launch of the best kernel, after the self-test's and one to warm up. The clocks
// stay as they are.
func (b *bench) ncu(network string) {
	tool := b.tool("profiles", "ncu", "/usr/local/cuda*/bin", "/opt/nvidia/nsight-compute/*")
	if tool == "" {
		return
	}
	m := measurement{network: network, batches: []int{4096}, round: time.Millisecond}
	var out strings.Builder
	err := b.command(command{
		args: append([]string{tool, "--set", "full", "--clock-control", "none", "--csv", "--page", "details", "--launch-skip", "2", "--launch-count", "1"},
			b.evald(m, m.batches)...),
		total: 90 * time.Second,
		line:  func(line string) { out.WriteString(line + "\n") },
	})
	metrics := ncuMetrics(out.String())
	if err == nil && len(metrics) == 0 {
		err = errors.New("ncu reports no metrics; see the log")
	}
	x := row{Part: "profiles", Name: "ncu " + network + ", batch 4096"}
	if err != nil {
		x.Error = err.Error()
	}
	if len(metrics) > 0 {
		x.Result, _ = json.Marshal(map[string]any{"metrics": metrics}) // strings alone
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

// nsys writes its tables of the driver's calls and of the kernels into the log.
func (b *bench) nsys(network string) {
	tool := b.tool("profiles", "nsys", "/usr/local/cuda*/bin", "/opt/nvidia/nsight-systems/*/bin", "/opt/nvidia/nsight-compute/*/host/target-linux-x64")
	if tool == "" {
		return
	}
	m := measurement{network: network, batches: []int{4096}, round: 20 * time.Millisecond}
	kernels := false
	start := time.Now()
	err := b.command(command{
		args: append([]string{tool, "profile", "--trace", "cuda", "--stats", "true", "--force-overwrite", "true", "--output", b.temp + "/nsys"},
			b.evald(m, m.batches)...),
		total: 90 * time.Second,
		line:  func(line string) { kernels = kernels || strings.Contains(line, "cuda_gpu_kern_sum") },
	})
	if err == nil && !kernels {
		err = errors.New("nsys reports no kernels; see the log")
	}
	x := row{Part: "profiles", Name: "nsys " + network + ", batch 4096", Result: seconds(start)}
	if err != nil {
		x.Error = err.Error()
	}
	b.add(x)
}

// sanitizer runs the test that is made for it, under each of its tools.
func (b *bench) sanitizer() {
	tool := b.tool("profiles", "compute-sanitizer", "/usr/local/cuda*/bin", "/opt/nvidia/nsight-compute/*/host/target-linux-x64")
	if tool == "" {
		return
	}
	for _, kind := range []string{"memcheck", "racecheck", "synccheck"} {
		b.goTests("sanitizer "+kind, "gpu.test", []string{tool, "--tool", kind, "--error-exitcode", "9", b.program("gpu.test"), "-test.run", "^TestGPUSanitize$"}, 90*time.Second)
	}
}
