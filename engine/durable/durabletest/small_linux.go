package durabletest

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// SmallDisk mounts a disk in memory with these options (size=8m) on a folder of a test, and returns
// the folder. Without the right to mount, the test is skipped.
func SmallDisk(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Skip("a small disk cannot be mounted: ", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}

// Fill fills a disk until left bytes are free, and returns a function that frees the space.
func Fill(t *testing.T, dir string, left int64) (empty func()) {
	t.Helper()
	path := filepath.Join(dir, "ballast")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size := int64(0)
	for block := make([]byte, 4096); len(block) > 0; {
		n, err := f.Write(block)
		if size += int64(n); err != nil && n == 0 {
			block = block[:len(block)/2]
		}
	}
	if err := f.Truncate(size - left); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Error(err)
		}
	}
}
