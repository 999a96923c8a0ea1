//go:build gpu && cgo && linux && amd64

package driver_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Our cuda.h agrees with an official one in constants, layouts, and the parameters of functions.
func TestHeader(t *testing.T) {
	official := officialHeader(t)
	header, err := os.ReadFile("include/cuda.h")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var constants strings.Builder
	names := regexp.MustCompile(`\b(CU\w+)(?: = |\s0x)`).FindAllSubmatch(header, -1)
	if len(names) < 250 {
		t.Fatalf("only %d constants in include/cuda.h", len(names))
	}
	for _, name := range names {
		if string(name[1]) == "CU_CTX_FLAGS_MASK" { // it differs between versions
			continue
		}
		fmt.Fprintf(&constants, "C(%s)\n", name[1])
	}
	if err := os.WriteFile(filepath.Join(dir, "constants.h"), []byte(constants.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	said := func(program string, folders ...string) []string {
		program = filepath.Join(dir, program)
		args := []string{"-w", "-o", program, "testdata/layout.c", "-I", dir}
		for _, f := range folders {
			args = append(args, "-I", f)
		}
		if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
			t.Fatalf("gcc %v: %v\n%s", args, err, out)
		}
		out, err := exec.Command(program).Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Split(string(out), "\n")
	}
	if diff := cmp.Diff(said("official", official, "include"), said("ours", "include")); diff != "" {
		t.Errorf("%s (-official +ours):\n%s", official, diff)
	}
}

// officialHeader returns the folder of an official cuda.h: EVALD_CUDA_INCLUDE, or that of the package in
// .ci/requirements.txt.
func officialHeader(t *testing.T) string {
	if dir := os.Getenv("EVALD_CUDA_INCLUDE"); dir != "" {
		return dir
	}
	python := os.Getenv("EVALD_PYTHON")
	if python == "" {
		t.Skip("no official cuda.h: set EVALD_CUDA_INCLUDE to its folder, or EVALD_PYTHON to a Python that has .ci/requirements.txt")
	}
	out, err := exec.Command(python, "-c", "import nvidia.cuda_runtime as p; print(list(p.__path__)[0])").Output()
	if err != nil {
		t.Skipf("no official cuda.h: %s lacks nvidia-cuda-runtime-cu11 (.ci/requirements.txt)", python)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "include")
}
