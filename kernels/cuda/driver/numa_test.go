package driver

import (
	"os"
	"path/filepath"
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
