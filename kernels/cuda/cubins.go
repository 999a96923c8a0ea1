//go:build gpu

package cuda

import (
	"archive/tar"
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"
)

//go:embed ptx/cubins.tar.zst
var cubins []byte

// cubinFiles are the files of the archive, by name.
var cubinFiles = sync.OnceValues(func() (map[string][]byte, error) {
	in, err := zstd.NewReader(bytes.NewReader(cubins))
	if err != nil {
		return nil, err
	}
	defer in.Close()
	all := map[string][]byte{}
	for files := tar.NewReader(in); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		if all[header.Name], err = io.ReadAll(files); err != nil {
			return nil, err
		}
	}
})

// Cubin is the machine code of a kernel's module that runs on a compute capability, or nil if there is only the PTX: that for
// the same architecture, or for the latest one before with the same major number.
func (k Kernel) Cubin(major, minor int) []byte {
	all, err := cubinFiles()
	if err != nil {
		return nil // the archive is part of the program, and a test reads it
	}
	if exact := all[fmt.Sprintf("%s.sm_%d%da", k.Module, major, minor)]; exact != nil {
		return exact // runs on that one alone
	}
	for ; minor >= 0; minor-- {
		if cubin := all[fmt.Sprintf("%s.sm_%d%d", k.Module, major, minor)]; cubin != nil {
			return cubin
		}
	}
	return nil
}
