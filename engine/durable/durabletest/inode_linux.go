package durabletest

import (
	"context"
	"io"
	iofs "io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// inode is a file or folder of a Mount. Its methods serve the kernel's requests.
type inode struct {
	fs.Inode
	mount *Mount
	node  *node
}

func (m *Mount) inode(n *node) *inode { return &inode{mount: m, node: n} }

func (i *inode) path(names ...string) string {
	return filepath.Join(append([]string{"/", i.Path(nil)}, names...)...)
}

// kind returns the mode bits that distinguish files from folders.
func (n *node) kind() uint32 {
	if n.mode.IsDir() {
		return syscall.S_IFDIR
	}
	return syscall.S_IFREG
}

// attributes fills in a node's attributes. The caller holds mu.
func (m *Mount) attributes(n *node, a *fuse.Attr) {
	a.Ino, a.Size, a.Mode, a.Nlink = m.number(n), uint64(len(n.data)), n.kind()|uint32(n.mode.Perm()), 1
	a.SetTimes(nil, &n.modified, nil)
}

// child registers a node of this folder with the kernel. The caller holds mu.
func (i *inode) child(ctx context.Context, n *node, out *fuse.EntryOut) *fs.Inode {
	i.mount.attributes(n, &out.Attr)
	return i.NewInode(ctx, i.mount.inode(n), fs.StableAttr{Mode: n.kind(), Ino: out.Ino})
}

func (i *inode) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (found *fs.Inode, errno syscall.Errno) {
	errno = i.mount.do(func() error {
		n := i.node.names[name]
		if n == nil {
			return syscall.ENOENT
		}
		found = i.child(ctx, n, out)
		return nil
	})
	return found, errno
}

func (i *inode) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	return i.mount.do(func() error {
		i.mount.attributes(i.node, &out.Attr)
		return nil
	})
}

// Setattr changes permissions. It ignores times and owners.
func (i *inode) Setattr(_ context.Context, _ fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	return i.mount.do(func() error {
		if size, ok := in.GetSize(); ok && size != uint64(len(i.node.data)) {
			return syscall.ENOTSUP
		}
		if mode, ok := in.GetMode(); ok {
			i.mount.disk.before("chmod", i.path())
			i.node.mode = i.node.mode&^iofs.ModePerm | iofs.FileMode(mode)&iofs.ModePerm
		}
		i.mount.attributes(i.node, &out.Attr)
		return nil
	})
}

func (i *inode) Readdir(context.Context) (fs.DirStream, syscall.Errno) {
	var list []fuse.DirEntry
	errno := i.mount.do(func() error {
		i.mount.disk.before("readdir", i.path())
		for _, name := range slices.Sorted(maps.Keys(i.node.names)) {
			n := i.node.names[name]
			list = append(list, fuse.DirEntry{Name: name, Mode: n.kind(), Ino: i.mount.number(n)})
		}
		return nil
	})
	return fs.NewListDirStream(list), errno
}

func (i *inode) Mkdir(ctx context.Context, name string, mode uint32, out *fuse.EntryOut) (made *fs.Inode, errno syscall.Errno) {
	errno = i.mount.do(func() error {
		if err := i.mount.disk.Mkdir(i.path(name), iofs.FileMode(mode)&iofs.ModePerm); err != nil {
			return err
		}
		made = i.child(ctx, i.node.names[name], out)
		return nil
	})
	return made, errno
}

func (i *inode) Unlink(_ context.Context, name string) syscall.Errno {
	return i.mount.do(func() error { return i.mount.disk.Remove(i.path(name)) })
}

func (i *inode) Rmdir(ctx context.Context, name string) syscall.Errno { return i.Unlink(ctx, name) }

func (i *inode) Rename(_ context.Context, name string, target fs.InodeEmbedder, newName string, flags uint32) syscall.Errno {
	return i.mount.do(func() error {
		if n := i.node.names[name]; flags != 0 || n != nil && n.mode.IsDir() {
			return syscall.EINVAL
		}
		return i.mount.disk.Rename(i.path(name), target.(*inode).path(newName))
	})
}

func (i *inode) Create(ctx context.Context, name string, flags, mode uint32, out *fuse.EntryOut) (made *fs.Inode, f fs.FileHandle, fuseFlags uint32, errno syscall.Errno) {
	errno = i.mount.do(func() error {
		h, err := i.mount.disk.OpenFile(i.path(name), int(flags)|os.O_CREATE, iofs.FileMode(mode)&iofs.ModePerm)
		if err != nil {
			return err
		}
		made, f = i.child(ctx, i.node.names[name], out), &openFile{i.mount, h.(*handle)}
		return nil
	})
	return made, f, fuse.FOPEN_DIRECT_IO, errno
}

func (i *inode) Open(_ context.Context, flags uint32) (f fs.FileHandle, fuseFlags uint32, errno syscall.Errno) {
	errno = i.mount.do(func() error {
		d := i.mount.disk
		d.before("open", i.path())
		f = &openFile{i.mount, &handle{disk: d, node: i.node, path: i.path(), appends: flags&syscall.O_APPEND != 0, epoch: d.epoch}}
		return nil
	})
	return f, fuse.FOPEN_DIRECT_IO, errno
}

// Fsync is that of a file or of a folder.
func (i *inode) Fsync(_ context.Context, f fs.FileHandle, _ uint32) syscall.Errno {
	return i.mount.do(func() error {
		if i.node.mode.IsDir() {
			return i.mount.disk.SyncDir(i.path())
		}
		return f.(*openFile).handle.Sync()
	})
}

// openFile is an open file of a Mount.
type openFile struct {
	mount  *Mount
	handle *handle
}

func (f *openFile) Read(_ context.Context, into []byte, at int64) (result fuse.ReadResult, errno syscall.Errno) {
	errno = f.mount.do(func() error {
		n, err := f.handle.ReadAt(into, at)
		if err == io.EOF {
			err = nil
		}
		result = fuse.ReadResultData(into[:n])
		return err
	})
	return result, errno
}

// Write may write only some of the bytes, as on a disk that becomes full. The next write then fails.
func (f *openFile) Write(_ context.Context, p []byte, at int64) (written uint32, errno syscall.Errno) {
	errno = f.mount.do(func() error {
		if f.handle.appends {
			at = int64(len(f.handle.node.data))
		}
		n, err := f.handle.WriteAt(p, at)
		if written = uint32(n); n > 0 {
			err = nil
		}
		return err
	})
	return written, errno
}

func (f *openFile) Flush(context.Context) syscall.Errno { return 0 }

func (f *openFile) Release(context.Context) syscall.Errno { return f.mount.do(f.handle.Close) }
