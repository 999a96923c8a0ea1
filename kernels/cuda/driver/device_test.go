package driver

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// The node is read at the device's place. A machine without NUMA says -1, or nothing.
func TestNode(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{"0000:17:00.0": "1\n", "0001:af:1f.0": "0\n", "0000:18:00.0": "-1\n", "0000:19:00.0": "none\n"} {
		if err := os.Mkdir(filepath.Join(folder, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name, "numa_node"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct{ domain, bus, device, want int }{
		{0, 0x17, 0, 1}, {1, 0xaf, 0x1f, 0}, {0, 0x18, 0, -1}, {0, 0x19, 0, -1}, {0, 0x1a, 0, -1},
	} {
		if got := node(folder, test.domain, test.bus, test.device); got != test.want {
			t.Errorf("%x:%x:%x: node %d, want %d", test.domain, test.bus, test.device, got, test.want)
		}
	}
}

// Select takes devices by their numbers, in the order asked for, and refuses numbers that are not there or are there twice.
func TestSelect(t *testing.T) {
	d := &Driver{Library: "libcuda.so.1", Devices: []Device{{Index: 0}, {Index: 1}, {Index: 2}}}
	for _, test := range []struct{ numbers, want []int }{{nil, []int{0, 1, 2}}, {[]int{2, 0}, []int{2, 0}}} {
		got, err := d.Select(test.numbers)
		if err != nil || !slices.EqualFunc(got, test.want, func(d Device, i int) bool { return d.Index == i }) {
			t.Errorf("%v: %v, %v, want %v", test.numbers, got, err, test.want)
		}
	}
	for want, numbers := range map[string][]int{
		"GPU 3: must be from 0 to 2: driver libcuda.so.1 has 3":  {3},
		"GPU -1: must be from 0 to 2: driver libcuda.so.1 has 3": {-1},
		"GPU 1: is named twice":                                  {1, 0, 1},
	} {
		if _, err := d.Select(numbers); err == nil || err.Error() != want {
			t.Errorf("%v: %v, want %s", numbers, err, want)
		}
	}
}
