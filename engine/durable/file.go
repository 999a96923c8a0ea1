// Package durable writes and reads files that must survive a kill or a power cut:
//
//	fs.go       the file system below: the operating system's, or a simulated one
//	file.go     files that get their names when they are complete, or not at all
//	lock.go     one process at a time writes a file or a folder
//	json.go     checksums within JSON
//	parquet.go  checksums within Parquet files
//	folder.go   the folder of a run, which one process at a time writes
//	config.go   the configuration of a run, written once; a run resumes only with the same one
//	journal.go  a file that grows line by line; a kill can tear its last line only
//	shards.go   the names of files of records, which contain the numbers of their games
//
// Until a file is complete, its bytes are in .NAME.evald-new beside it, and its writer holds a lock on .NAME.evald-lock. So a second writer
// of NAME fails at once, and the next writer removes the bytes of a killed one. The lock is a separate file because gofrs/flock opens the
// file that it locks and keeps the handle, and because Windows cannot rename an open file.
//
// Syncing a file does not make its name durable; syncing its folder does. So Commit, and everything built on it, syncs both, and the file
// survives any later power cut. Callers write files that depend on this one only after that: for example, a journal from which its games
// were removed. OpenDir syncs the folder as well, because a process may have been killed after it named a file and before it synced the
// folder.
package durable

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// ErrInUse is the error of Create if another program is writing the file.
var ErrInUse = errors.New("another program is writing this file: name another one, or wait for it to end")

// File is a file that is being written. Commit or Abort it.
type File struct {
	Handle // under its temporary name

	files FS
	name  string // as the caller gave it, for errors
	path  string // name, or the file that it links to
	lock  Lock
	done  bool
}

const lockSuffix, newSuffix = ".evald-lock", ".evald-new"

// beside returns the path of a hidden file that accompanies the file at path.
func beside(path, suffix string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+suffix)
}

// Create starts writing a file. The new file gets the permissions of the existing file of that
// name, or 0644. If path is a symbolic link, the file that it points to is written, and the link
// stays. Errors name the file.
func Create(path string) (*File, error) { return CreateIn(OS, path) }

// CreateIn is Create in any file system.
func CreateIn(files FS, path string) (*File, error) { return create(files, path, 0o644) }

// create is CreateIn with mode in place of 0644.
func create(files FS, path string, mode fs.FileMode) (*File, error) {
	w := &File{files: files, name: path}
	there, err := files.Stat(path)
	if err == nil && !there.Mode().IsRegular() { // the rename would replace a device by a file
		return nil, w.failed(errors.New("is not a regular file: name another one"))
	}
	if path, err = target(files, path); err != nil {
		return nil, w.failed(err)
	}
	w.path = path
	if w.lock, err = acquire(files, beside(path, lockSuffix), ErrInUse); err != nil {
		return nil, w.failed(err)
	}
	temporary := beside(path, newSuffix)
	if err = discard(files, temporary); err == nil {
		w.Handle, err = files.OpenFile(temporary, os.O_RDWR|os.O_CREATE|os.O_EXCL, mode)
	}
	if err != nil {
		return nil, w.failed(errors.Join(err, w.lock.Release()))
	}
	if there != nil {
		if err := w.Chmod(there.Mode().Perm()); err != nil {
			w.Abort()
			return nil, w.failed(err)
		}
	}
	return w, nil
}

// mostLinks is the number of links after which a path is taken for a loop, as in Linux.
const mostLinks = 40

// target follows the symbolic links of the operating system from path to the file that they point
// to, which need not exist.
func target(files FS, path string) (string, error) {
	if files != OS {
		return path, nil
	}
	for range mostLinks {
		info, err := os.Lstat(path)
		if err != nil || info.Mode()&fs.ModeSymlink == 0 {
			return path, nil // creating the file reports any error
		}
		to, err := os.Readlink(path)
		if err != nil {
			return "", err
		}
		if !filepath.IsAbs(to) {
			to = filepath.Dir(path) + string(filepath.Separator) + to // Join would take dir/.. away, and dir may be a link
		}
		path = to
	}
	return "", fmt.Errorf("follows more than %d symbolic links", mostLinks)
}

// discard removes the bytes of a killed writer.
func discard(files FS, temporary string) error {
	if err := inTheWay(files, temporary); err != nil {
		return err
	}
	if err := files.Remove(temporary); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Commit renames the file to its final name, replacing any existing file. When it returns nil, bytes and name are durable. If it fails, the
// new file is removed, except if it already has its final name and only that name may not be durable.
func (w *File) Commit() error {
	err := errors.Join(w.Sync(), w.Close())
	if err == nil {
		err = w.files.Rename(w.Name(), w.path)
	}
	if err == nil {
		err = w.files.SyncDir(filepath.Dir(w.path))
	}
	if err != nil {
		w.Abort()
		return w.failed(err)
	}
	w.done = true
	return w.lock.Release()
}

// Abort removes the file if it was not committed. It ignores errors, because the file is not needed.
func (w *File) Abort() {
	if !w.done {
		w.done = true
		_ = w.Close()
		_ = w.files.Remove(w.Name())
		_ = w.lock.Release()
	}
}

// failed returns err with the file's name in place of its temporary name.
func (w *File) failed(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err
	} else if link, ok := errors.AsType[*os.LinkError](err); ok {
		err = link.Err
	}
	return &fs.PathError{Op: "write", Path: w.name, Err: err}
}

// WriteFile writes a whole file.
func WriteFile(path string, content []byte) error { return WriteFileIn(OS, path, content) }

// WriteFileIn is WriteFile in any file system.
func WriteFileIn(files FS, path string, content []byte) error {
	return writeFile(files, path, content, 0o644)
}

// WriteSecretIn is WriteFileIn for a file that only its owner can read, unless the file exists with other permissions.
func WriteSecretIn(files FS, path string, content []byte) error {
	return writeFile(files, path, content, 0o600)
}

func writeFile(files FS, path string, content []byte, mode fs.FileMode) error {
	w, err := create(files, path, mode)
	if err != nil {
		return err
	}
	if _, err := w.Write(content); err != nil {
		w.Abort()
		return w.failed(err)
	}
	return w.Commit()
}

// ReadFile reads a regular file of no more than most bytes.
func ReadFile(path string, most int64) ([]byte, error) {
	if info, err := os.Stat(path); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() { // opening a pipe could block forever
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	return readMost(path, most)
}

// MostSettings is the maximum size in bytes of a file of settings, tokens or certificates.
const MostSettings = 1 << 20

// ReadSettings reads a file of at most MostSettings bytes, which may be a pipe. A longer one is an error, even an endless one such as
// /dev/zero.
func ReadSettings(path string) ([]byte, error) { return readMost(path, MostSettings) }

func readMost(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(content)) > most {
		err = fmt.Errorf("%s has more than %d bytes", path, most)
	}
	return content, err
}

// CacheDir is the folder for files that this program can recreate: the value of EVALD_CACHE_DIR, or else evald in the user's cache. The
// folder need not exist yet. An error means that the system has no such folder.
func CacheDir() (string, error) {
	if dir := os.Getenv("EVALD_CACHE_DIR"); dir != "" {
		return dir, nil
	}
	dir, err := os.UserCacheDir()
	return filepath.Join(dir, "evald"), err
}

// Sweep removes the temporary files that killed writers left in a folder. It keeps those that another process is still writing.
func Sweep(dir string) error { return SweepIn(OS, dir) }

// SweepIn is Sweep in any file system.
func SweepIn(files FS, dir string) error {
	entries, err := files.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name, ours := strings.CutSuffix(e.Name(), newSuffix)
		if !ours {
			name, ours = strings.CutSuffix(e.Name(), lockSuffix)
		}
		if name, hidden := strings.CutPrefix(name, "."); ours && hidden && e.Type().IsRegular() {
			if err := sweep(files, filepath.Join(dir, name)); err != nil && !errors.Is(err, ErrInUse) {
				return err
			}
		}
	}
	return nil
}

func sweep(files FS, path string) error {
	lock, err := acquire(files, beside(path, lockSuffix), ErrInUse)
	if err != nil {
		return err
	}
	return errors.Join(discard(files, beside(path, newSuffix)), lock.Release())
}
