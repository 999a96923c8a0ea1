package durabletest

import (
	"bufio"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/evald/evald/engine/game/gametest"
)

// Mount is a Disk that the kernel mounts as a file system (FUSE), so that unmodified processes can use it. Each of their system calls is
// an operation of the Disk, in the same order. The kernel caches neither bytes nor names: each write reaches the Disk at once, and so
// does fsync of a file or a folder. Locks (flock) are the kernel's own. Files cannot be truncated, nor folders renamed.
//
// Mount is safe for concurrent use. The process that mounts it must not have a file of it open while it starts another process.
type Mount struct {
	Dir string // mount point; constant while the test runs

	server *fuse.Server

	mu      sync.Mutex // guards all below
	disk    *Disk
	died    func()
	refused int
	inodes  map[*node]uint64 // their inode numbers, unique for as long as the file system is mounted
}

// mountType is the type of the file system in /proc/self/mountinfo.
const mountType = "evald-test"

// MountDisk mounts a disk in a new folder until the test ends. If this user cannot mount, it skips the test, so that the tests also pass on
// builders without that right.
func MountDisk(t testing.TB, disk *Disk) *Mount {
	t.Helper()
	sweepMounts()
	m := &Mount{Dir: t.TempDir(), disk: disk}
	if err := m.mount(); err != nil {
		m.unmount()
		t.Skip("skipped also under EVALD_REQUIRE_TOOLS=1, because many containers and builders cannot: a file system of the test's own needs /dev/fuse, and root or fusermount3: ", err)
	}
	t.Cleanup(m.unmount)
	return m
}

// sweepMounts removes mounts of killed tests.
func sweepMounts() {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return // without mountinfo, nothing can be mounted either
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		// 36 35 0:50 / DIR rw - fuse.evald-test PID rw
		front, back, _ := strings.Cut(lines.Text(), " - fuse."+mountType+" ")
		fields, owner := strings.Fields(front), strings.Fields(back)
		if len(fields) < 5 || len(owner) == 0 {
			continue
		}
		if _, err := os.Stat(filepath.Join("/proc", owner[0])); errors.Is(err, os.ErrNotExist) {
			detach(strings.ReplaceAll(fields[4], `\040`, " "))
		}
	}
}

// detach removes a mount that processes may still use. Their further operations fail.
func detach(dir string) {
	_ = syscall.Unmount(dir, syscall.MNT_FORCE|syscall.MNT_DETACH) // nothing more can be done if it fails
}

func (m *Mount) mount() (err error) {
	m.inodes = map[*node]uint64{}
	m.server, err = fs.Mount(m.Dir, m.inode(m.disk.root), &fs.Options{ // no timeouts: the kernel must cache neither names nor attributes
		MountOptions:    fuse.MountOptions{FsName: strconv.Itoa(os.Getpid()), Name: mountType, DirectMount: true, DisableXAttrs: true},
		RootStableAttr:  &fs.StableAttr{Ino: m.number(m.disk.root)},
		NullPermissions: true,
	})
	if err != nil {
		return err
	}
	return closeOnExec()
}

// closeOnExec keeps child processes from inheriting the mount's file descriptors, which the library does not do if it mounts without
// fusermount. If a child inherited them and outlived this process, the kernel would wait forever for answers.
func closeOnExec() error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, e := range entries {
		to, err := os.Readlink(filepath.Join("/proc/self/fd", e.Name()))
		fd, bad := strconv.Atoi(e.Name())
		if err == nil && bad == nil && to == "/dev/fuse" {
			syscall.CloseOnExec(fd)
		}
	}
	return nil
}

// unmount returns when no process can reach the disk and no request is in progress.
func (m *Mount) unmount() {
	if m.server == nil {
		return
	}
	if err := m.server.Unmount(); err != nil { // a process may still be ending
		detach(m.Dir)
	}
	m.server.Wait()
	m.server = nil
}

// Do calls f while no operation is in progress.
func (m *Mount) Do(f func(*Disk)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(m.disk)
}

// KillAt calls died in the middle of the n-th operation from now, counted from 1, instead of completing it. died must kill all processes
// that use the disk, and need not wait for their ends. That operation and all later ones until the power cut fail, but no process is left
// to see the errors.
func (m *Mount) KillAt(n int, died func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.disk.KillAt(m.disk.Operations + n)
	m.died = died
}

// PowerCut cuts the disk's power and mounts it again, so that the kernel forgets what it knew of the files. No process may still use the
// mount.
func (m *Mount) PowerCut(t testing.TB) {
	t.Helper()
	m.unmount()
	m.mu.Lock()
	m.died = nil
	m.disk.PowerCut()
	m.mu.Unlock()
	gametest.OK(t, m.mount())
}

// Refused returns how often an operation failed because the disk was full.
func (m *Mount) Refused() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.refused
}

// do executes an operation that a process requested.
func (m *Mount) do(operation func() error) (errno syscall.Errno) {
	m.mu.Lock()
	defer m.mu.Unlock()
	defer func() {
		switch value := recover(); {
		case value == nil:
		case value != ErrKilled:
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
	default: // a handle from before the kill
		errno = syscall.EIO
	}
	if errno == syscall.ENOSPC {
		m.refused++
	}
	return errno
}

func (m *Mount) number(n *node) uint64 {
	if m.inodes[n] == 0 {
		m.inodes[n] = uint64(len(m.inodes)) + 1
	}
	return m.inodes[n]
}
