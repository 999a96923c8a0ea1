//go:build !windows

package filelock

import "os"

func openFile(path string, how int) (*os.File, error) {
	return os.OpenFile(path, os.O_RDWR|how, 0o644)
}
