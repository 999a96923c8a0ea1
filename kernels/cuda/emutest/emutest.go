// Package emutest runs kernels on the CPU in tests: it compiles their sources with g++ against kernels/cuda/emu.
package emutest

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// Emulator is a program that emulates launches.
type Emulator struct{ path string }

// Optimised and Sanitised are the flags of two builds: one for speed, and one that ends with a message on invalid memory accesses
// and undefined behaviour.
var (
	Optimised = []string{"-O3", "-march=native"}
	Sanitised = []string{"-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"}
)

// Build compiles C++ and kernel sources, whose paths start in kernels/cuda, into a program in folder. If there is no g++,
// the test is skipped, or fails if EVALD_REQUIRE_TOOLS=1.
func Build(t testing.TB, folder string, flags []string, sources ...string) Emulator {
	t.Helper()
	path, err := compile(folder, flags, sources)
	return Emulator{required(t, path, err)}
}

// All returns a program with all kernels of Library, in the same folder.
func All(t testing.TB, folder string) Emulator {
	t.Helper()
	library, err := Library(folder)
	return Build(t, folder, Optimised, "emu/main.cpp", "-x", "none", required(t, library, err))
}

func required(t testing.TB, path string, err error) string {
	t.Helper()
	if errors.Is(err, ErrNoCompiler) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// ErrNoCompiler is a reason to skip tests: there is no g++, and EVALD_REQUIRE_TOOLS=1 is not set.
var ErrNoCompiler = errors.New("no g++ to emulate kernels with")

// Library compiles all kernels into a library in folder and returns its path. The fake driver runs its functions
// (fake.UseKernels).
func Library(folder string) (string, error) {
	return compile(folder, append([]string{"-shared", "-fPIC"}, Optimised...),
		[]string{"tower64.cu", "tower128.cu", "tower256.cu", "any.cu", "tables.cu", "hopper64.cu", "hopper128.cu", "hopper256.cu", "emu/emu.cpp", "emu/sm90.cpp", "emu/fake.cpp"})
}

// compile compiles sources, whose paths start in kernels/cuda, and returns the file in folder. If EVALD_EMULATORS names a folder,
// the file is in that one and stays there, so that several test programs share it.
func compile(folder string, flags, sources []string) (path string, err error) {
	if _, err := exec.LookPath("g++"); err != nil {
		if os.Getenv("EVALD_REQUIRE_TOOLS") == "1" {
			return "", fmt.Errorf("EVALD_REQUIRE_TOOLS=1, but kernels cannot be emulated: %w", err)
		}
		return "", ErrNoCompiler
	}
	if shared := os.Getenv("EVALD_EMULATORS"); shared != "" {
		folder = shared
	}
	args := []string{"-std=c++20", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas", "-DEMULATED"}
	args = append(append(append(args, flags...), "-x", "c++"), sources...)
	_, self, _, _ := runtime.Caller(0)
	root := filepath.Dir(filepath.Dir(self))
	said := args // part of the name, as the folder may outlive a compiler and be shared by machines of different processors
	for _, ask := range [][]string{{"--version"}, {"-march=native", "-Q", "--help=target"}} {
		text, err := exec.Command("g++", ask...).Output()
		if err != nil {
			return "", fmt.Errorf("g++ %v: %w", ask, err)
		}
		said = append(said, string(text))
	}
	sum, err := hash(root, said)
	if err != nil {
		return "", err
	}
	path = filepath.Join(folder, "emulated-"+sum)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	part := fmt.Sprintf("%s.%d", path, os.Getpid())
	build := exec.Command("g++", append([]string{"-o", part}, args...)...)
	build.Dir = root
	if log, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%v: %w\n%s", build, err, log)
	}
	return path, os.Rename(part, path)
}

// hash returns a hash of the arguments and of all sources in root. It opens them, so that `go test` records the dependency.
func hash(root string, args []string) (string, error) {
	h := sha256.New()
	fmt.Fprintf(h, "%q", args)
	for _, pattern := range []string{"*.cu", "*.h", "emu/*"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(files) == 0 {
			return "", fmt.Errorf("no sources %s in %s: %w", pattern, root, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return "", err
			}
			h.Write(text)
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:8]), nil
}

// Output runs the program with an input, and returns its output and its standard error.
func (e Emulator) Output(in []byte, args ...string) (out []byte, log string, err error) {
	var stderr bytes.Buffer
	run := exec.Command(e.path, args...)
	run.Stdin, run.Stderr = bytes.NewReader(in), &stderr
	out, err = run.Output()
	return out, stderr.String(), err
}

// Launch is one launch of a kernel.
type Launch struct {
	Kernel  string
	Blocks  int    // of the grid
	Shared  int    // bytes of shared memory
	Order   uint32 // of warps and lanes: 0 ascending, 1 descending, else shuffled by this seed
	Job     []byte // the fields of Job from n on
	Weights []byte
	Pos     []byte
	Out     int // bytes of out
	Scratch int // bytes of scratch per block
}

// Run runs a launch in a program built from kernels and emu/main.cpp, and returns the bytes of out; bytes that were not written
// are 0xcd. A mistake of the kernel fails the test, and so does an ldmatrix that reads shared memory with bank conflicts.
func (e Emulator) Run(t testing.TB, l Launch) []byte {
	t.Helper()
	in := append([]byte(nil), l.Job...)
	for _, size := range [...]int{len(l.Weights), len(l.Pos), l.Out, l.Scratch} {
		in = binary.LittleEndian.AppendUint64(in, uint64(size))
	}
	in = append(append(in, l.Weights...), l.Pos...)
	out, log, err := e.Output(in, l.Kernel, strconv.Itoa(l.Blocks), strconv.Itoa(l.Shared), strconv.Itoa(int(l.Order)))
	if err != nil {
		t.Fatalf("emulating %s: %v\n%s", l.Kernel, err, log)
	}
	if len(out) != l.Out {
		t.Fatalf("emulating %s: %d bytes of output, want %d\n%s", l.Kernel, len(out), l.Out, log)
	}
	var phases, wavefronts int
	last := log[strings.LastIndexByte(strings.TrimSpace(log), '\n')+1:]
	if _, err := fmt.Sscanf(last, "ldmatrix: %d phases, %d wavefronts\n", &phases, &wavefronts); err != nil {
		t.Fatalf("emulating %s: %v in %q", l.Kernel, err, log)
	}
	if wavefronts != phases {
		t.Errorf("emulating %s: %.2f wavefronts of shared memory a phase of ldmatrix, want 1", l.Kernel, float64(wavefronts)/float64(phases))
	}
	return out
}
