package main

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// hatchling has the Python package's own builder write a wheel or a source distribution, and returns its path.
func hatchling(folder, python, target string, r release, env ...string) (string, error) {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return "", err
	}
	c := exec.Command(python, "-m", "hatchling", "build", "--target", target, "--directory", folder)
	c.Dir = "cmd/evald/client/python"
	c.Env = append(append(os.Environ(), "EVALD_VERSION="+pythonVersion(r.version), fmt.Sprint("SOURCE_DATE_EPOCH=", r.time.Unix())), env...)
	out, err := c.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%v: %w\n%s", c, err, out)
	}
	lines := strings.Fields(string(out)) // the path is the last
	return filepath.Join(folder, filepath.Base(lines[len(lines)-1])), nil
}

// writeWheel writes a wheel of the Python package with a file of code, and returns its path. code is the library, which the script evald also
// starts as a program. On systems without the library it is the program, which pip installs beside Python and the package starts.
func writeWheel(folder, python string, r release, p platform, code string) (string, error) {
	tag, err := wheelTag(p, code)
	if err != nil {
		return "", err
	}
	return hatchling(folder, python, "wheel", r, "EVALD_BUILT="+code, "EVALD_WHEEL_TAG="+tag)
}

// writeSource writes the source distribution, from which pip builds the library with Go.
func writeSource(folder, python string, r release) error {
	path, err := hatchling(folder, python, "sdist", r)
	if err == nil {
		fmt.Fprintf(os.Stderr, "dist: %s: not tried: pip builds it with Go and a C compiler\n", filepath.Base(path))
	}
	return err
}

// try installs a wheel where nothing else is, evaluates a position, and returns what was done.
func try(wheel, python string) (string, error) {
	site, err := os.MkdirTemp("", "evald-wheel")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(site)
	const code = "import evald; print(evald.__version__, evald.search('445566', visits=20).best[0], evald.__file__)"
	for _, args := range [][]string{
		{"-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--disable-pip-version-check", "--target", site, wheel},
		{"-c", code},
	} {
		c := exec.Command(python, args...)
		c.Env = append(os.Environ(), "PYTHONPATH="+site, "EVALD_LIBRARY=", "EVALD_PROGRAM=")
		out, err := c.CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("%v: %w\n%s", c, err, out)
		}
		if says := strings.Fields(string(out)); args[0] == "-c" && (len(says) != 3 || says[1] != "2" || !strings.HasPrefix(says[2], site)) {
			return "", fmt.Errorf("%s of the installed wheel prints %q, want the version, move 2 and a file in %s", code, out, site)
		}
	}
	return "installed, imported and asked", nil
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
