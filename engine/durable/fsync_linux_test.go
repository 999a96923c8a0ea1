package durable_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/game/gametest"
)

// OS calls fsync for files and folders: if the kernel refuses it (seccomp), both report its error.
// The simulated disk shows that callers sync; this shows that OS does.
func TestFsync(t *testing.T) {
	const own = "EVALD_TEST_FSYNC" // a process of its own, because its system calls are refused until it ends
	if os.Getenv(own) == "" {
		c := exec.CommandContext(t.Context(), gametest.Must(os.Executable())(t), "-test.run=^TestFsync$")
		c.Env = append(os.Environ(), own+"=1")
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	dir := t.TempDir()
	gametest.OK(t, durable.WriteFile(filepath.Join(dir, "a"), []byte("before")))
	gametest.OK(t, durable.SyncDir(dir))
	refuseFsync(t)
	if err := durable.SyncDir(dir); !errors.Is(err, syscall.EIO) {
		t.Errorf("a folder: %v", err)
	}
	if err := durable.WriteFile(filepath.Join(dir, "a"), []byte("after")); !errors.Is(err, syscall.EIO) {
		t.Errorf("a file: %v", err)
	}
	if text := string(gametest.Must(os.ReadFile(filepath.Join(dir, "a")))(t)); text != "before" {
		t.Errorf("the file has %q", text)
	}
}

// refuseFsync makes fsync return EIO in this process from now on.
func refuseFsync(t *testing.T) {
	t.Helper()
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, // the number of the system call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: unix.SYS_FSYNC},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EIO)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	gametest.OK(t, unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program))); errno != 0 {
		t.Skip("this kernel has no seccomp: ", errno)
	}
}
