package main

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	kernel "github.com/evald/evald/kernels/cpu"
	"github.com/evald/evald/kernels/cuda/driver"
	nn "github.com/evald/evald/nn/cpu"
	"github.com/evald/evald/nn/net"
)

func TestDevices(t *testing.T) {
	status, text, stderr := evald(t, "", "devices")
	if status != exitOK || stderr != "" || !regexp.MustCompile(`^cpu  \w+, \d+ threads, .*\ngpu  .+\n`).MatchString(text) {
		t.Errorf("status %d, errors %q, output %q", status, stderr, text)
	}
	status, out, stderr := evald(t, "", "devices", "--json")
	var found devices
	if err := json.Unmarshal([]byte(out), &found); status != exitOK || stderr != "" || err != nil {
		t.Fatalf("status %d, errors %q, %v in %s", status, stderr, err, out)
	}
	if (found.GPU == nil) == (found.NoGPU == "") || !strings.HasSuffix(text, found.gpus()) {
		t.Errorf("JSON says %+v, text %q", found, text)
	}
	const library = "libcuda.so.1, "
	if _, err := driver.Find(); err == nil || driver.Details(err) == err.Error() {
		t.Skip("this machine has a GPU, or this build has no support for GPUs")
	}
	if _, long, _ := evald(t, "", "devices", "-v"); strings.Contains(text, library) || !strings.Contains(long, library) {
		t.Errorf("the places searched are shown by -v alone: %s%s", text, long)
	}
}

// With -v the rates of the network that ships and of those that were measured are shown, and why a path was chosen.
func TestDevicesPaths(t *testing.T) {
	if len(kernel.Paths()) <= 2 { // the last one is plain Go, which is never measured
		t.Skipf("there is nothing to choose: this machine and build have %v", kernel.Paths())
	}
	t.Setenv("EVALD_CPU_PATH", "go")
	if out := must(t, "", "devices", "-v"); !strings.Contains(out, "; they are not measured: ") || !strings.Contains(out, "EVALD_CPU_PATH=go overrides all of this\n") {
		t.Errorf("without a cache: %s", out)
	}
	t.Setenv("EVALD_CPU_PATH", "")
	t.Setenv("EVALD_CACHE_DIR", t.TempDir())
	nn.Choose(net.Config{Blocks: 2, Channels: 16, HeadChannels: 32, Hidden: 64}, false)
	for range 2 {
		out := must(t, "", "devices", "-v")
		if !regexp.MustCompile(`network .*\n     7x64 .*\d\.\d.*\n     2x16 `).MatchString(out) || !strings.Contains(out, "2x16: path ") || !strings.Contains(out, ", as default has: path ") {
			t.Errorf("with a cache: %s", out)
		}
	}
}

func TestDevicesText(t *testing.T) {
	found := devices{GPU: &driver.Driver{Library: "libcuda.so.1", Version: 12090, Devices: []driver.Device{
		{UUID: "GPU-1", PCI: "0000:01:00.0", Name: "One", Major: 9, Memory: 3 << 29, Multiprocessors: 132},
		{Index: 1, UUID: "GPU-2", PCI: "0000:02:00.0", Name: "Two", Major: 8, Minor: 6, Memory: 24 << 30, Multiprocessors: 82},
	}}}
	want := "gpu  0: One, sm_90, 132 multiprocessors, 1.5 GiB\n     GPU-1, PCI 0000:01:00.0\ngpu  1: Two, sm_86, 82 multiprocessors, 24.0 GiB\n     GPU-2, PCI 0000:02:00.0\n     driver libcuda.so.1, CUDA 12.9\n"
	if got := found.gpus(); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	found.Tried = []tried{{GPU: 0, Model: "default", Kernel: "tower_64", Rows: 256, Launches: 2, Busy: 0.0012341, Faults: 1}, {GPU: 1, Model: "default-fast", Error: "GPU 1: it smells"}}
	one, two, _ := strings.Cut(want, "gpu  1")
	want = one + "     works: network default by tower_64, 256 rows in 2 launches, busy 1.234ms, 1 faults\ngpu  1" +
		strings.Replace(two, "02:00.0\n", "02:00.0\n     network default-fast does NOT work: GPU 1: it smells\n", 1)
	if got := found.gpus(); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
