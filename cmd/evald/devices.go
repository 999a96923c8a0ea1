package main

import (
	"fmt"
	"runtime"
	"strings"

	"golang.org/x/sys/cpu"

	"github.com/evald/evald/kernels/cuda/driver"
)

// devicesCmd is `evald devices`.
type devicesCmd struct {
	JSON bool `help:"Write JSON for machines."`
}

// devices describes what the machine can compute with.
type devices struct {
	CPU   processor      `json:"cpu"`
	GPU   *driver.Driver `json:"gpu"`              // null if there is none
	NoGPU string         `json:"no_gpu,omitempty"` // why there is none
}

type processor struct {
	Arch     string   `json:"arch"`
	Threads  int      `json:"threads"`
	Features []string `json:"features"` // only those that evald has or may get code for
}

// Run finds the devices and prints them.
func (c *devicesCmd) Run(s streams) error {
	found := devices{CPU: processor{runtime.GOARCH, runtime.GOMAXPROCS(0), cpuFeatures()}}
	var err error
	if found.GPU, err = driver.Find(); err != nil {
		found.NoGPU = err.Error()
	}
	if c.JSON {
		return writeJSON(s.out, found)
	}
	_, err = fmt.Fprintf(s.out, "cpu  %s, %d threads, %s\n%s", found.CPU.Arch, found.CPU.Threads, strings.Join(found.CPU.Features, " "), found.gpus())
	return err
}

func (d devices) gpus() string {
	if d.GPU == nil {
		return "gpu  0 devices: " + d.NoGPU + "\n"
	}
	var b strings.Builder
	for _, device := range d.GPU.Devices {
		fmt.Fprintf(&b, "gpu  %v\n", device)
	}
	fmt.Fprintf(&b, "     driver %s, CUDA %d.%d\n", d.GPU.Library, d.GPU.Version/1000, d.GPU.Version%1000/10)
	return b.String()
}

func cpuFeatures() []string {
	features := []string{}
	for _, f := range []struct {
		name string
		has  bool
	}{
		{"avx2", cpu.X86.HasAVX2},
		{"fma", cpu.X86.HasFMA},
		{"avx512f", cpu.X86.HasAVX512F},
		{"avx512bw", cpu.X86.HasAVX512BW},
		{"avx512vl", cpu.X86.HasAVX512VL},
		{"avx512vnni", cpu.X86.HasAVX512VNNI},
		{"avx512bf16", cpu.X86.HasAVX512BF16},
		{"avxvnni", cpu.X86.HasAVXVNNI},
		{"amx-bf16", cpu.X86.HasAMXBF16},
		{"amx-int8", cpu.X86.HasAMXInt8},
		{"neon", cpu.ARM64.HasASIMD},
		{"sve", cpu.ARM64.HasSVE},
	} {
		if f.has {
			features = append(features, f.name)
		}
	}
	return features
}
