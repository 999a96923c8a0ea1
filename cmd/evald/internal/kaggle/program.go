package kaggle

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// common are the libraries of glibc. Every system with Python has them.
var common = []string{"libc.so.6", "libpthread.so.0", "libdl.so.2", "libm.so.6", "libresolv.so.2", "librt.so.1", "ld-linux-x86-64.so.2"}

// checkProgram refuses a file that does not run on linux/amd64 with glibc alone. linked lists the libraries of a dynamic
// program; it is empty for a static one.
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
	newest := "" // which comes before all versions
	for _, library := range versions {
		for _, v := range library.Needs {
			if strings.HasPrefix(v.Dep, "GLIBC_2.") && compareVersions(v.Dep, newest) > 0 {
				newest = v.Dep
			}
		}
	}
	return strings.TrimSpace(strings.Join(libraries, ", ") + " " + newest), nil
}

// compareVersions orders names such as GLIBC_2.3.2, GLIBC_2.9 and GLIBC_2.34, number by number.
func compareVersions(a, b string) int {
	numbers := func(version string) (all []int) {
		_, version, _ = strings.Cut(version, "_")
		for field := range strings.SplitSeq(version, ".") {
			n, _ := strconv.Atoi(field) // a field that is not a number comes first
			all = append(all, n)
		}
		return all
	}
	return slices.Compare(numbers(a), numbers(b))
}
