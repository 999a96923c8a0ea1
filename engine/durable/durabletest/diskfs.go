package durabletest

import (
	"bytes"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/evald/evald/engine/durable"
)

// find returns the file or folder at a path. Relative paths begin at /. Errors are those of package os.
func (d *Disk) find(path string) (*node, error) {
	n := d.root
	for name := range strings.SplitSeq(filepath.ToSlash(filepath.Clean(path)), "/") {
		if name == "" || name == "." {
			continue
		}
		if !n.mode.IsDir() {
			return nil, syscall.ENOTDIR
		}
		if n = n.names[name]; n == nil {
			return nil, fs.ErrNotExist
		}
	}
	return n, nil
}

// above returns the folder that contains a path, and the path's name there.
func (d *Disk) above(path string) (*node, string, error) {
	path = filepath.Clean(path)
	folder, err := d.find(filepath.Dir(path))
	if err == nil && !folder.mode.IsDir() {
		err = syscall.ENOTDIR
	}
	return folder, filepath.Base(path), err
}

func (n *node) alter(c ...entry) {
	n.changes = append(n.changes, c)
	for _, e := range c {
		set(n.names, e)
	}
}

func (d *Disk) now() time.Time {
	if d.Clock == nil {
		return time.Time{}
	}
	return d.Clock()
}

// create adds n as a new file or folder at a path.
func (d *Disk) create(path string, n *node) error {
	folder, name, err := d.above(path)
	switch {
	case err != nil:
		return err
	case d.Full:
		return syscall.ENOSPC
	}
	n.modified = d.now()
	folder.alter(entry{name, n})
	return nil
}

func failed(op, path string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: path, Err: err}
}

// OpenFile implements durable.FS. It supports the flags O_CREATE, O_EXCL and O_APPEND.
func (d *Disk) OpenFile(path string, flag int, mode fs.FileMode) (durable.Handle, error) {
	d.before("open", path)
	n, err := d.find(path)
	switch {
	case n == nil && flag&os.O_CREATE != 0:
		n = &node{mode: mode}
		err = d.create(path, n)
	case n != nil && flag&os.O_EXCL != 0:
		err = fs.ErrExist
	case n != nil && n.mode.IsDir():
		err = syscall.EISDIR
	}
	if err != nil {
		return nil, failed("open", path, err)
	}
	return &handle{disk: d, node: n, path: path, appends: flag&os.O_APPEND != 0, epoch: d.epoch}, nil
}

// ReadFile implements durable.FS.
func (d *Disk) ReadFile(path string) ([]byte, error) {
	d.before("read", path)
	n, err := d.find(path)
	if err == nil && n.mode.IsDir() {
		err = syscall.EISDIR
	}
	if err != nil {
		return nil, failed("open", path, err)
	}
	return bytes.Clone(n.data), nil
}

// ReadDir implements durable.FS.
func (d *Disk) ReadDir(path string) (all []fs.DirEntry, err error) {
	d.before("readdir", path)
	n, err := d.find(path)
	if err == nil && !n.mode.IsDir() {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return nil, failed("open", path, err)
	}
	for _, name := range slices.Sorted(maps.Keys(n.names)) {
		all = append(all, fs.FileInfoToDirEntry(n.names[name].info(name)))
	}
	return all, nil
}

// Stat implements durable.FS.
func (d *Disk) Stat(path string) (fs.FileInfo, error) {
	d.before("stat", path)
	n, err := d.find(path)
	if err != nil {
		return nil, failed("stat", path, err)
	}
	return n.info(filepath.Base(path)), nil
}

// Lstat implements durable.FS. There are no links.
func (d *Disk) Lstat(path string) (fs.FileInfo, error) { return d.Stat(path) }

// Mkdir implements durable.FS.
func (d *Disk) Mkdir(path string, mode fs.FileMode) error {
	d.before("mkdir", path)
	if n, _ := d.find(path); n != nil {
		return failed("mkdir", path, fs.ErrExist)
	}
	return failed("mkdir", path, d.create(path, newFolder(mode)))
}

// Rename implements durable.FS for two names in one folder.
func (d *Disk) Rename(from, to string) error {
	d.before("rename", to)
	folder, old, err := d.above(from)
	target, name, err2 := d.above(to)
	switch {
	case err != nil || err2 != nil || folder.names[old] == nil:
		err = fs.ErrNotExist
	case folder != target:
		err = syscall.EXDEV
	case folder.names[name] != nil && folder.names[name].mode.IsDir():
		err = fs.ErrExist
	case name != old:
		folder.alter(entry{name, folder.names[old]}, entry{old, nil})
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

// Remove implements durable.FS.
func (d *Disk) Remove(path string) error {
	d.before("remove", path)
	folder, name, err := d.above(path)
	switch {
	case err != nil:
	case folder.names[name] == nil:
		err = fs.ErrNotExist
	case len(folder.names[name].names) > 0:
		err = syscall.ENOTEMPTY
	default:
		folder.alter(entry{name, nil})
	}
	return failed("remove", path, err)
}

// SyncDir implements durable.FS.
func (d *Disk) SyncDir(path string) error {
	d.before("syncdir", path)
	n, err := d.find(path)
	if err != nil {
		return failed("open", path, err)
	}
	if d.fails() {
		return failed("sync", path, syscall.EIO)
	}
	for _, c := range n.changes {
		for _, e := range c {
			set(n.durable, e)
		}
	}
	n.changes = nil
	return nil
}

// Lock implements durable.FS.
func (d *Disk) Lock(path string) (durable.Lock, error) {
	d.before("lock", path)
	n, err := d.find(path)
	switch {
	case n == nil:
		n = &node{mode: 0o644}
		err = d.create(path, n)
	case n.mode.IsDir():
		err = syscall.EISDIR
	case n.locked > d.epoch:
		return nil, durable.ErrLocked
	}
	if err != nil {
		return nil, failed("open", path, err)
	}
	n.locked = d.epoch + 1
	return &lock{d, n, path, d.epoch}, nil
}

type lock struct {
	disk  *Disk
	node  *node
	path  string
	epoch int
}

// Release implements durable.Lock.
func (l *lock) Release() error {
	if l.epoch != l.disk.epoch {
		return failed("unlock", l.path, fs.ErrClosed)
	}
	l.node.locked = 0
	return l.disk.Remove(l.path)
}

type handle struct {
	disk    *Disk
	node    *node
	path    string
	appends bool
	at      int // offset of the next Write
	epoch   int
	closed  bool
}

func (h *handle) use(op string) error {
	if h.closed || h.epoch != h.disk.epoch {
		return failed(op, h.path, fs.ErrClosed)
	}
	h.disk.before(op, h.path)
	return nil
}

func (h *handle) Name() string { return h.path }

func (h *handle) Stat() (fs.FileInfo, error) {
	if err := h.use("stat"); err != nil {
		return nil, err
	}
	return h.node.info(filepath.Base(h.path)), nil
}

func (h *handle) Chmod(mode fs.FileMode) error {
	if err := h.use("chmod"); err != nil {
		return err
	}
	h.node.mode = mode
	return nil
}

func (h *handle) Close() error {
	if err := h.use("close"); err != nil {
		return err
	}
	h.closed = true
	return nil
}

func (h *handle) Sync() error {
	if err := h.use("sync"); err != nil {
		return err
	}
	if h.disk.fails() {
		h.node.fail()
		return failed("sync", h.path, syscall.EIO)
	}
	h.node.synced, h.node.was = len(h.node.data), nil
	return nil
}

func (d *Disk) fails() bool { return d.Failing && d.random.IntN(2) == 0 }

// fail records the bytes that a failed Sync did not write. The file still shows them until a power cut.
func (n *node) fail() {
	if n.was != nil {
		n.failed = append(n.failed, span{0, n.was})
	}
	if n.synced < len(n.data) {
		n.failed = append(n.failed, span{n.synced, make([]byte, len(n.data)-n.synced)})
	}
	n.synced, n.was = len(n.data), nil
}

func (h *handle) ReadAt(p []byte, at int64) (int, error) {
	if err := h.use("read"); err != nil {
		return 0, err
	}
	if at >= int64(len(h.node.data)) {
		return 0, io.EOF
	}
	n := copy(p, h.node.data[at:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (h *handle) Write(p []byte) (int, error) {
	if h.appends {
		h.at = len(h.node.data)
	}
	n, err := h.WriteAt(p, int64(h.at))
	h.at += n
	return n, err
}

// WriteAt writes in two steps. Between them, the process may be killed or the disk may become full.
func (h *handle) WriteAt(p []byte, at int64) (int, error) {
	if err := h.use("write"); err != nil {
		return 0, err
	}
	if len(p) == 0 {
		return 0, nil
	}
	n := h.disk.random.IntN(len(p))
	h.node.write(p[:n], int(at))
	h.disk.before("write middle", h.path)
	h.node.modified = h.disk.now()
	if h.disk.Full {
		return n, failed("write", h.path, syscall.ENOSPC)
	}
	h.node.write(p[n:], int(at)+n)
	return len(p), nil
}

func (n *node) write(p []byte, at int) {
	if at < n.synced && n.was == nil {
		n.was = bytes.Clone(n.data[:n.synced])
	}
	if more := at + len(p) - len(n.data); more > 0 {
		n.data = append(n.data, make([]byte, more)...)
	}
	copy(n.data[at:], p)
}

// info is a snapshot of a file or folder.
type info struct {
	name     string
	size     int64
	mode     fs.FileMode
	modified time.Time
}

func (n *node) info(name string) info { return info{name, int64(len(n.data)), n.mode, n.modified} }

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return i.size }
func (i info) Mode() fs.FileMode  { return i.mode }
func (i info) ModTime() time.Time { return i.modified }
func (i info) IsDir() bool        { return i.mode.IsDir() }
func (i info) Sys() any           { return nil }
