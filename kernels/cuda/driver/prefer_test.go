//go:build gpu && cgo && linux && amd64

package driver

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/evald/evald/engine/game/gametest"
)

// A worker's thread takes its memory from its device's node.
func TestPrefer(t *testing.T) {
	policy := func(node int) (mode int32, err unix.Errno) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			runtime.LockOSThread() // the thread ends with its policy
			prefer(node)
			_, _, err = unix.Syscall6(unix.SYS_GET_MEMPOLICY, uintptr(unsafe.Pointer(&mode)), 0, 0, 0, 0, 0)
		}()
		<-done
		return mode, err
	}
	if mode, err := policy(-1); err != 0 {
		t.Skipf("memory policies are forbidden or unknown here: %v", err)
	} else if mode != 0 {
		t.Errorf("without a node: policy %d", mode)
	}
	if mode, _ := policy(0); mode != 1 {
		t.Errorf("node 0: policy %d, want 1 (preferred)", mode)
	}
}

// The node is read at the device's place. A machine without NUMA says -1, or nothing.
func TestNode(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{"0000:17:00.0": "1\n", "0001:af:1f.0": "0\n", "0000:18:00.0": "-1\n", "0000:19:00.0": "none\n"} {
		gametest.OK(t, os.Mkdir(filepath.Join(folder, name), 0o755))
		gametest.OK(t, os.WriteFile(filepath.Join(folder, name, "numa_node"), []byte(text), 0o644))
	}
	for pci, want := range map[string]int{"0000:17:00.0": 1, "0001:af:1f.0": 0, "0000:18:00.0": -1, "0000:19:00.0": -1, "0000:1a:00.0": -1} {
		if got := node(folder, pci); got != want {
			t.Errorf("%s: node %d, want %d", pci, got, want)
		}
	}
}
