package durabletest

import (
	"bufio"
	"errors"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/evald/evald/engine/game/gametest"
)

// Mount is a Disk that the kernel has as a file system (FUSE), for processes that know nothing of it: each of their system calls is an
// operation of the Disk, in its order. The kernel keeps neither bytes nor names: a write arrives when a process writes, and fsync of a file
// or a folder arrives as one. Locks (flock) are the kernel's own. Files cannot be truncated, nor folders renamed.
//
// It is safe for concurrent use. The process that mounts must have no open file of it while it starts another process.
type Mount struct {
	Dir string // where it is; the same for as long as the test runs

	server *fuse.Server

	mu      sync.Mutex // guards all below
	disk    *Disk
	died    func()
	refused int
	inodes  map[*node]uint64 // their numbers; a number has one node for as long as the file system is mounted
}

// mountType is what a mount is called in /proc/self/mountinfo.
const mountType = "evald-test"

// MountDisk mounts a disk in a new folder until the test ends. Where this user cannot mount, the test is skipped.
func MountDisk(t testing.TB, disk *Disk) *Mount {
	t.Helper()
	sweepMounts()
	m := &Mount{Dir: t.TempDir(), disk: disk}
	if err := m.mount(); err != nil {
		t.Skip("no file system of a test's own, which needs Linux, /dev/fuse, and root or fusermount3; a container or a builder may have none: ", err)
	}
	t.Cleanup(m.unmount)
	return m
}

// sweepMounts removes mounts of tests that were killed. Their folders answer ENOTCONN, because nothing serves them.
func sweepMounts() {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return // then nothing can be mounted either
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 5 || !strings.Contains(lines.Text(), " - fuse."+mountType+" ") {
			continue
		}
		dir := strings.ReplaceAll(fields[4], `\040`, " ")
		if err := syscall.Stat(dir, new(syscall.Stat_t)); err == syscall.ENOTCONN {
			_ = syscall.Unmount(dir, syscall.MNT_DETACH) // it does not matter to this test
		}
	}
}

func (m *Mount) mount() (err error) {
	m.inodes = map[*node]uint64{}
	m.server, err = fs.Mount(m.Dir, m.inode(m.disk.root), &fs.Options{ // without times for which the kernel may keep names and attributes
		MountOptions:    fuse.MountOptions{FsName: mountType, Name: mountType, DirectMount: true, DisableXAttrs: true},
		RootStableAttr:  &fs.StableAttr{Ino: m.number(m.disk.root)},
		NullPermissions: true,
	})
	return err
}

// unmount returns when no process can reach the disk and no request is under way.
func (m *Mount) unmount() {
	if m.server == nil {
		return
	}
	if err := m.server.Unmount(); err != nil { // a process that was killed may still be ending
		_ = syscall.Unmount(m.Dir, syscall.MNT_DETACH)
	}
	m.server.Wait()
	m.server = nil
}

// Do calls f while no operation is under way.
func (m *Mount) Do(f func(*Disk)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(m.disk)
}

// KillAt calls died in the middle of the operation that is n after the last one, from 1 on, in place of it. died must kill all processes
// that use the disk, and need not wait for their ends. The operation, and all later ones until the power cut, fail: no process lives to
// see it.
func (m *Mount) KillAt(n int, died func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.disk.KillAt(m.disk.Operations + n)
	m.died = died
}

// PowerCut is that of the disk, which is mounted anew: the kernel forgets what it knows of the files. No process may use it any more.
func (m *Mount) PowerCut(t testing.TB) {
	t.Helper()
	m.unmount()
	m.mu.Lock()
	m.died = nil
	m.disk.PowerCut()
	m.mu.Unlock()
	gametest.OK(t, m.mount())
}

// Refused is how often a process was told that the disk is full.
func (m *Mount) Refused() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.refused
}

// do is an operation that a process asks for.
func (m *Mount) do(operation func() error) (errno syscall.Errno) {
	m.mu.Lock()
	defer m.mu.Unlock()
	defer func() {
		switch value := recover(); {
		case value == nil:
		case value != Killed:
			panic(value)
		default:
			if m.died != nil {
				m.died()
				m.died = nil
			}
			errno = syscall.EIO
		}
	}()
	err := operation()
	switch {
	case err == nil:
	case errors.As(err, &errno):
	case errors.Is(err, os.ErrNotExist):
		errno = syscall.ENOENT
	case errors.Is(err, os.ErrExist):
		errno = syscall.EEXIST
	default: // a handle of a process that is dead
		errno = syscall.EIO
	}
	if errno == syscall.ENOSPC {
		m.refused++
	}
	return errno
}

// number is that of a node.
func (m *Mount) number(n *node) uint64 {
	if m.inodes[n] == 0 {
		m.inodes[n] = uint64(len(m.inodes)) + 1
	}
	return m.inodes[n]
}
