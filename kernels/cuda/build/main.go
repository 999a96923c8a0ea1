// Command build compiles the GPU kernels to PTX and machine code, and records their use of registers and memory: `make kernels`,
// or go generate in kernels/cuda, where it runs. It needs clang-19, and no CUDA toolkit; machine code and the record need ptxas.
//
//	ptx/*.ptx          the kernels, each file with a hash of its sources and of the compiler's flags
//	ptx/resources.txt  registers, spills and shared memory of each kernel
//	ptx/cubins.tar.zst the kernels as machine code, and the hashes of the PTX that they were assembled from
package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/evald/evald/kernels/cuda"
)

// module is a compiled file, with the files that it includes.
type module struct {
	name     string
	files    []string
	compiler []string
	archs    []string // for which ptxas reports resources
}

// everywhere is the common architectures; the PTX for sm_80 runs on all of them.
var everywhere = []string{"sm_80", "sm_89", "sm_90a", "sm_100"}

var modules = []module{
	{"tower64", []string{"tower64.cu", "wide.h", "tower.h", "heads.h", "board.h", "device.h"}, compiler, everywhere},
	{"tower128", []string{"tower128.cu", "wide.h", "tower.h", "heads.h", "board.h", "device.h"}, compiler, everywhere},
	{"tower256", []string{"tower256.cu", "wide.h", "tower.h", "heads.h", "board.h", "device.h"}, compiler, everywhere},
	{"any", []string{"any.cu", "heads.h", "board.h", "device.h"}, compiler, everywhere},
	{"tables", []string{"tables.cu", "tables.h", "board.h", "device.h"}, tablesCompiler, slices.Concat([]string{"sm_75"}, everywhere[:2], []string{"sm_90"}, everywhere[3:])},
	{"hopper64", []string{"hopper64.cu", "few.h", "hopper256.h", "tower.h", "hopper.h", "sm90.h", "heads.h", "board.h", "device.h"}, hopperCompiler, []string{"sm_90a"}},
	{"hopper128", []string{"hopper128.cu", "few.h", "hopper256.h", "tower.h", "hopper.h", "sm90.h", "heads.h", "board.h", "device.h"}, hopperCompiler, []string{"sm_90a"}},
	{"hopper256", []string{"hopper256.cu", "few.h", "hopper256.h", "hopper.h", "tower.h", "sm90.h", "heads.h", "board.h", "device.h"}, hopperCompiler, []string{"sm_90a"}},
}

// compiler makes PTX. sm_80 runs on every later GPU (cuda.Kernel.Arch), sm_90a only on Hopper. Tables are compared with the CPU's bits, so
// no product may be contracted with a sum.
var (
	compiler       = strings.Fields("clang-19 -x cuda --cuda-device-only --cuda-gpu-arch=sm_80 -nocudainc -nocudalib -std=c++17 -O3 -S")
	tablesCompiler = strings.Fields("clang-19 -x cuda --cuda-device-only --cuda-gpu-arch=sm_75 --cuda-feature=+ptx65 -nocudainc -nocudalib -std=c++17 -O3 -ffp-contract=off -S")
	hopperCompiler = strings.Fields("clang-19 -x cuda --cuda-device-only --cuda-gpu-arch=sm_90a --cuda-feature=+ptx80 -nocudainc -nocudalib -std=c++17 -O3 -S")
)

const resourcesFile = "ptx/resources.txt"

func main() {
	if err := build(); err != nil {
		fmt.Fprintln(os.Stderr, "build kernels:", err)
		os.Exit(1)
	}
}

func build() error {
	for _, m := range modules {
		ptx, err := m.compile()
		if err != nil {
			return err
		}
		if err := os.WriteFile(ptxFile(m.name), ptx, 0o644); err != nil {
			return err
		}
	}
	ptxas, err := findPTXAS()
	if err != nil {
		return fmt.Errorf("the PTX is written, %s is not: %w", resourcesFile, err)
	}
	text, err := resources(ptxas)
	if err != nil {
		return err
	}
	if err := os.WriteFile(resourcesFile, []byte(text), 0o644); err != nil {
		return err
	}
	return writeCubins(ptxas)
}

func ptxFile(module string) string { return filepath.Join("ptx", module+".ptx") }

// stamp returns the first line of a PTX file, with a hash of its sources and of the compiler's flags.
func (m module) stamp() (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, m.compiler)
	for _, name := range m.files {
		text, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		fmt.Fprintln(h, name, len(text))
		h.Write(text)
	}
	return fmt.Sprintf("// sources and flags: sha256 %x\n", h.Sum(nil)), nil
}

// compile returns the PTX file of a module.
func (m module) compile() ([]byte, error) {
	first, err := m.stamp()
	if err != nil {
		return nil, err
	}
	var log bytes.Buffer
	run := exec.Command(m.compiler[0], append(slices.Clone(m.compiler[1:]), m.files[0], "-o", "-")...)
	run.Stderr = &log
	ptx, err := run.Output()
	if err == nil && log.Len() > 0 {
		err = errors.New("warnings")
	}
	if err != nil {
		return nil, fmt.Errorf("%v: %w\n%s(clang-19 is in Debian and Ubuntu: apt-get install clang-19)", run, err, log.Bytes())
	}
	ptx = regexp.MustCompile(`(?m)^\s*(//.*)?\n`).ReplaceAll(ptx, nil) // comments and empty lines are a third of the file
	// clang 19 can only set a cluster's maximum size; this makes it the size (CLUSTER_KERNEL in sm90.h).
	ptx = regexp.MustCompile(`(?m)^\.maxclusterrank (\d+).*$`).ReplaceAll(ptx, []byte(".explicitcluster\n.reqnctapercluster $1, 1, 1"))
	return append([]byte(first), ptx...), nil
}

// resources returns ptxas's report on the kernels, as a table: registers per thread, bytes of spilled registers, and the shared
// memory that the host requests.
func resources(ptxas string) (string, error) {
	var text strings.Builder
	fmt.Fprintf(&text, "%-18s %-7s %9s %12s %11s %7s\n", "kernel", "arch", "registers", "spill stores", "spill loads", "shared")
	for _, m := range modules {
		for _, arch := range m.archs {
			lines, err := m.resources(ptxas, arch)
			if err != nil {
				return "", err
			}
			text.WriteString(lines)
		}
	}
	return text.String(), nil
}

// resources returns the lines of a module's kernels for one architecture.
func (m module) resources(ptxas, arch string) (string, error) {
	out, err := exec.Command(ptxas, "-v", "-arch="+arch, ptxFile(m.name), "-o", os.DevNull).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("ptxas -arch=%s %s: %w\n%s", arch, ptxFile(m.name), err, out)
	}
	if serialised.Match(out) {
		return "", fmt.Errorf("ptxas -arch=%s %s does not let products of warpgroups overlap:\n%s", arch, ptxFile(m.name), out)
	}
	found := map[string]string{}
	for _, m := range assembled.FindAllStringSubmatch(string(out), -1) {
		found[m[1]] = fmt.Sprintf("%9s %12s %11s", m[4], m[2], m[3])
	}
	lines := ""
	kernels := cuda.Kernels()
	for _, k := range cuda.TablesKernels() {
		kernels = append(kernels, k.Kernel(k.Widths([4]int{k.Lanes / 2, 64, 32, 16})))
	}
	for _, k := range kernels {
		if of, ok := found[k.Name]; ok {
			lines += fmt.Sprintf("%-18s %-7s %s %7d\n", k.Name, arch, of, k.Shared)
		}
	}
	if lines == "" {
		return "", fmt.Errorf("ptxas -arch=%s %s reports no kernel:\n%s", arch, ptxFile(m.name), out)
	}
	return lines, nil
}

var assembled = regexp.MustCompile(`Function properties for (\w+)\n.* (\d+) bytes spill stores, (\d+) bytes spill loads\n.*Used (\d+) registers`)

// serialised matches ptxas's warnings of products that wait for each other (C7508 to C7519). The kernel is then correct, but
// slow.
var serialised = regexp.MustCompile(`\(C75\d\d\)`)

// findPTXAS returns the assembler of NVIDIA's toolkit: EVALD_PTXAS, or that of the Python in EVALD_PYTHON.
func findPTXAS() (string, error) {
	if path := os.Getenv("EVALD_PTXAS"); path != "" {
		return path, nil
	}
	if python := os.Getenv("EVALD_PYTHON"); python != "" {
		pattern := filepath.Join(filepath.Dir(filepath.Dir(python)), "lib/python*/site-packages/nvidia/cuda_nvcc/bin/ptxas")
		if found, _ := filepath.Glob(pattern); len(found) == 1 {
			return found[0], nil
		}
	}
	return "", errors.New("no ptxas: set EVALD_PTXAS, or EVALD_PYTHON to a Python with nvidia-cuda-nvcc-cu12 (pip install -r .ci/requirements.txt)")
}

const cubinsFile = "ptx/cubins.tar.zst"

// machines are the architectures of the machine code. That of 8.0 runs on every later 8.x, and so on; Hopper's has instructions
// of 9.0 only.
var machines = []string{"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100", "sm_120"}

// writeCubins assembles all modules into one archive. Its files differ so little that the archive takes a fifth of the sum of the
// files packed separately.
func writeCubins(ptxas string) error {
	var all bytes.Buffer
	out, err := zstd.NewWriter(&all, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithWindowSize(8<<20), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	files := tar.NewWriter(out)
	add := func(name string, content []byte) error {
		if err := files.WriteHeader(&tar.Header{Name: name, Size: int64(len(content)), Mode: 0o644, Format: tar.FormatUSTAR}); err != nil {
			return err
		}
		_, err := files.Write(content)
		return err
	}
	for _, m := range modules {
		sum, err := hashOf(m.name)
		if err != nil {
			return err
		}
		if err := add(m.name+".sha256", []byte(sum)); err != nil {
			return err
		}
		for _, arch := range m.machines() {
			cubin, err := m.assemble(ptxas, arch)
			if err != nil {
				return err
			}
			if err := add(m.name+"."+arch, cubin); err != nil {
				return err
			}
		}
	}
	if err := errors.Join(files.Close(), out.Close()); err != nil {
		return err
	}
	return os.WriteFile(cubinsFile, all.Bytes(), 0o644)
}

// machines returns the architectures for which the module's PTX can be assembled.
func (m module) machines() []string {
	switch {
	case len(m.archs) == 1:
		return m.archs
	case m.archs[0] == "sm_75": // no instruction of one architecture alone
		return []string{"sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"}
	}
	return machines
}

// hashOf returns the hash of a module's PTX.
func hashOf(module string) (string, error) {
	ptx, err := os.ReadFile(ptxFile(module))
	return fmt.Sprintf("%x", sha256.Sum256(ptx)), err
}

// assemble returns the machine code of a module. The same ptxas gives the same bytes.
func (m module) assemble(ptxas, arch string) ([]byte, error) {
	folder, err := os.MkdirTemp("", "evald-cubin")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "cubin")
	if out, err := exec.Command(ptxas, "-arch="+arch, ptxFile(m.name), "-o", path).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("ptxas -arch=%s %s: %w\n%s", arch, ptxFile(m.name), err, out)
	}
	return os.ReadFile(path)
}
