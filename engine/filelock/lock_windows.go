package filelock

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/windows"
)

// lock locks a byte far behind the file's end: locks keep others from reading there.
func lock(f *os.File, held error) error {
	at := &windows.Overlapped{OffsetHigh: 1 << 30}
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, at)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return held
	}
	return err
}

// openFile lets others delete the file, which os.OpenFile does not do. Windows counts a new name as a deletion of the old one.
func openFile(path string, how int) (*os.File, error) {
	disposition := uint32(windows.OPEN_EXISTING)
	switch {
	case how&os.O_EXCL != 0:
		disposition = windows.CREATE_NEW
	case how&os.O_CREATE != 0:
		disposition = windows.OPEN_ALWAYS
	}
	name, err := windows.UTF16PtrFromString(path)
	var file windows.Handle
	if err == nil {
		file, err = windows.CreateFile(name, windows.GENERIC_READ|windows.GENERIC_WRITE,
			windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE|windows.FILE_SHARE_DELETE, nil, disposition, windows.FILE_ATTRIBUTE_NORMAL, 0)
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(file), path), nil
}
