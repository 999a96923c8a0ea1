package kaggle

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// common lists the libraries of glibc, which every system with Python has.
var common = []string{"libc.so.6", "libpthread.so.0", "libdl.so.2", "libm.so.6", "libresolv.so.2", "librt.so.1", "ld-linux-x86-64.so.2"}

// checkProgram refuses a file that is not a program for linux/amd64, or needs libraries other than glibc. linked lists the libraries of a
// dynamic program; it is empty for a static one.
func checkProgram(path string) (linked string, err error) {
	f, err := elf.Open(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return "", fmt.Errorf("program: %w", err)
	}
	if err != nil {
		return "", fmt.Errorf("program %s: is not for linux/amd64: %w", path, err)
	}
	defer f.Close()
	native := f.OSABI == elf.ELFOSABI_NONE || f.OSABI == elf.ELFOSABI_LINUX
	if f.Class != elf.ELFCLASS64 || f.Machine != elf.EM_X86_64 || !native {
		return "", fmt.Errorf("program %s: is for %v (%v), not for linux/amd64: build it with GOOS=linux GOARCH=amd64", path, f.Machine, f.OSABI)
	}
	if f.Type != elf.ET_EXEC && f.Type != elf.ET_DYN {
		return "", fmt.Errorf("program %s: is no program, but %v", path, f.Type)
	}
	libraries, err := f.ImportedLibraries()
	if err != nil {
		return "", fmt.Errorf("program %s: %w", path, err)
	}
	for _, l := range libraries {
		if !slices.Contains(common, l) {
			return "", fmt.Errorf("program %s: needs %s, which Kaggle may not have: build it with CGO_ENABLED=0", path, l)
		}
	}
	if len(libraries) == 0 {
		return "", nil
	}
	versions, err := f.DynamicVersionNeeds()
	if err != nil {
		return "", fmt.Errorf("program %s: %w", path, err)
	}
	newest := 0
	for _, library := range versions {
		for _, v := range library.Needs {
			minor := 0
			_, _ = fmt.Sscanf(v.Dep, "GLIBC_2.%d", &minor) // skips other versions than those of glibc
			newest = max(newest, minor)
		}
	}
	return fmt.Sprintf("%s GLIBC_2.%d", strings.Join(libraries, ", "), newest), nil
}
