package main

import (
	"crypto/sha256"
	"debug/elf"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/evald/evald/cmd/evald/client/python"
)

// writeWheel writes a wheel of the Python package with a file of code. code is the library, which the script evald also starts as a program.
// On systems without the library it is the program, which pip installs beside Python and the package starts.
func writeWheel(folder string, r release, p platform, code string) error {
	version := pythonVersion(r.version)
	tag, err := wheelTag(p, code)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(code)
	if err != nil {
		return err
	}
	license, err1 := os.ReadFile("LICENSE")
	readme, err2 := os.ReadFile("README.md")
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	info := "evald-" + version + ".dist-info/"
	var files []file
	err = fs.WalkDir(python.Files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := python.Files.ReadFile(path)
		files = append(files, file{path, 0o644, content})
		return err
	})
	if err != nil {
		return err
	}
	if filepath.Base(code) == p.library() {
		files = append(files, file{"evald/" + p.library(), 0o755, content}, file{info + "entry_points.txt", 0o644, []byte("[console_scripts]\nevald = evald.__main__:main\n")})
	} else {
		files = append(files, file{"evald-" + version + ".data/scripts/" + p.program(), 0o755, content})
	}
	files = append(files, []file{
		{info + "METADATA", 0o644, fmt.Appendf(nil, `Metadata-Version: 2.4
Name: evald
Version: %s
Summary: Evaluates ConnectX positions (Connect Four on any board) in large batches
License-Expression: Apache-2.0
License-File: LICENSE
Requires-Python: >=3.10
Requires-Dist: numpy>=1.22
Description-Content-Type: text/markdown

%s`, version, readme)},
		{info + "WHEEL", 0o644, fmt.Appendf(nil, `Wheel-Version: 1.0
Generator: evald
Root-Is-Purelib: false
Tag: py3-none-%s
`, tag)},
		{info + "licenses/LICENSE", 0o644, license},
	}...)
	var record strings.Builder
	for _, f := range files {
		sum := sha256.Sum256(f.content)
		fmt.Fprintf(&record, "%s,sha256=%s,%d\n", f.name, base64.RawURLEncoding.EncodeToString(sum[:]), len(f.content))
	}
	fmt.Fprintf(&record, "%sRECORD,,\n", info)
	files = append(files, file{info + "RECORD", 0o644, []byte(record.String())})
	return writeZip(filepath.Join(folder, fmt.Sprintf("evald-%s-py3-none-%s.whl", version, tag)), r, files)
}

// pythonVersion converts a version to Python's form (PEP 440).
func pythonVersion(version string) string { return strings.Replace(version, "-dev+", ".dev0+", 1) }

// wheelTag returns the tag for the systems of a wheel. On macOS it follows from Go, on Linux from the C library that the program needs.
func wheelTag(p platform, program string) (string, error) {
	python := map[string]string{"linux/amd64": "x86_64", "linux/arm64": "aarch64", "darwin/amd64": "x86_64", "darwin/arm64": "arm64"}[p.String()]
	switch p.system {
	case "linux":
		minor, err := glibc(program)
		return fmt.Sprintf("manylinux_2_%d_%s", minor, python), err
	case "darwin":
		return "macosx_12_0_" + python, nil // Go 1.26 needs macOS 12
	}
	return "win_amd64", nil
}

// glibc returns the n of the glibc 2.n that a program needs, at least 17, because tags of this form begin with glibc 2.17.
func glibc(program string) (int, error) {
	f, err := elf.Open(program)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	needs := 17
	symbols, _ := f.ImportedSymbols() // an error means that the program is static and has none
	for _, s := range symbols {
		n := 0
		_, _ = fmt.Sscanf(s.Version, "GLIBC_2.%d", &n) // skips versions of other libraries
		needs = max(needs, n)
	}
	return needs, nil
}
