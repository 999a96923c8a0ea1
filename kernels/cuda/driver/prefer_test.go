//go:build gpu && cgo && linux && amd64

package driver

import (
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
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
