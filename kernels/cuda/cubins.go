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

// cubinFiles returns the archive's files, by name.
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

// Cubin returns the machine code of a kernel's module for a compute capability: that of the same architecture, or of the latest
// earlier one with the same major number. It returns nil if there is only PTX.
func (k Kernel) Cubin(major, minor int) []byte {
	all, err := cubinFiles()
	if err != nil {
		return nil // the archive is part of the program and covered by a test
	}
	if exact := all[fmt.Sprintf("%s.sm_%d%da", k.Module, major, minor)]; exact != nil {
		return exact // runs on this architecture alone
	}
	for ; minor >= 0; minor-- {
		if cubin := all[fmt.Sprintf("%s.sm_%d%d", k.Module, major, minor)]; cubin != nil {
			return cubin
		}
	}
	return nil
}
