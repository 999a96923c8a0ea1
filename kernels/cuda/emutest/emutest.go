// Package emutest runs kernels on the CPU in tests: it compiles their sources with g++ against kernels/cuda/emu.
package emutest

import (
	"bytes"
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

// Optimised and Sanitised are the flags of two builds: one for speed, and one that ends with a message on accesses outside
// of memory and on undefined behaviour.
var (
	Optimised = []string{"-O3", "-march=native"}
	Sanitised = []string{"-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"}
)

// Build compiles C++ and kernel sources, whose paths start in kernels/cuda, into a program in folder. If there is no g++,
// the test is skipped, or fails if EVALD_REQUIRE_TOOLS=1.
func Build(t testing.TB, folder string, flags []string, sources ...string) Emulator {
	t.Helper()
	return build(t, kernels(), folder, flags, sources)
}

// kernels is the folder kernels/cuda.
func kernels() string {
	_, self, _, _ := runtime.Caller(0)
	return filepath.Dir(filepath.Dir(self))
}

// Change replaces a text of a source, which has it once.
type Change struct{ File, Old, New string }

// BuildChanged is Build of other sources: a copy of them in folder, with the changes.
func BuildChanged(t testing.TB, folder string, flags []string, changes []Change, sources ...string) Emulator {
	t.Helper()
	if err := os.CopyFS(folder, os.DirFS(kernels())); err != nil {
		t.Fatal(err)
	}
	for _, c := range changes {
		path := filepath.Join(folder, c.File)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(text), c.Old); n != 1 {
			t.Fatalf("%s has %d times %q, want once", c.File, n, c.Old)
		}
		if err := os.WriteFile(path, []byte(strings.Replace(string(text), c.Old, c.New, 1)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return build(t, folder, folder, flags, sources)
}

// build is Build of sources whose paths start in root.
func build(t testing.TB, root, folder string, flags, sources []string) Emulator {
	t.Helper()
	e := Emulator{filepath.Join(folder, "emulate")}
	err := compile(root, e.path, flags, sources)
	if errors.Is(err, ErrNoCompiler) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// ErrNoCompiler is a reason to skip tests: there is no g++, and EVALD_REQUIRE_TOOLS=1 is not set.
var ErrNoCompiler = errors.New("no g++ to emulate kernels with")

// Library compiles all kernels into a library in folder and returns its path. The fake driver runs its functions
// (fake.UseKernels).
func Library(folder string) (string, error) {
	path := filepath.Join(folder, "libkernels.so")
	flags := append([]string{"-shared", "-fPIC"}, Optimised...)
	return path, compile(kernels(), path, flags,
		[]string{"tower64.cu", "tower128.cu", "tower256.cu", "any.cu", "hopper64.cu", "hopper128.cu", "hopper256.cu", "emu/emu.cpp", "emu/sm90.cpp", "emu/fake.cpp"})
}

// compile compiles sources, whose paths start in root, into the file path.
func compile(root, path string, flags, sources []string) error {
	if _, err := exec.LookPath("g++"); err != nil {
		if os.Getenv("EVALD_REQUIRE_TOOLS") == "1" {
			return fmt.Errorf("EVALD_REQUIRE_TOOLS=1, but kernels cannot be emulated: %w", err)
		}
		return ErrNoCompiler
	}
	if err := read(root); err != nil {
		return err
	}
	args := []string{"-std=c++20", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas", "-DEMULATED"}
	args = append(append(args, flags...), "-o", path, "-x", "c++")
	build := exec.Command("g++", append(args, sources...)...)
	build.Dir = root
	if log, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%s", build, err, log)
	}
	return nil
}

// read opens all sources, so that `go test` knows that its results depend on them.
func read(root string) error {
	for _, pattern := range []string{"*.cu", "*.h", "emu/*"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(files) == 0 {
			return fmt.Errorf("no sources %s in %s: %w", pattern, root, err)
		}
		for _, file := range files {
			if _, err := os.ReadFile(file); err != nil {
				return err
			}
		}
	}
	return nil
}

// Output runs the program with an input, and returns its output and its messages.
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

// Output runs the launch in a program built from the kernels and emu/main.cpp. It returns the bytes of out, where those that nothing
// wrote are 0xcd, and the program's messages. An error is a mistake of the kernel, which the messages name.
func (l Launch) Output(e Emulator) (out []byte, log string, err error) {
	in := append([]byte(nil), l.Job...)
	for _, size := range [...]int{len(l.Weights), len(l.Pos), l.Out, l.Scratch} {
		in = binary.LittleEndian.AppendUint64(in, uint64(size))
	}
	in = append(append(in, l.Weights...), l.Pos...)
	return e.Output(in, l.Kernel, strconv.Itoa(l.Blocks), strconv.Itoa(l.Shared), strconv.Itoa(int(l.Order)))
}

// Run is Output of a kernel that makes no mistake. It also fails the test if an ldmatrix reads shared memory with bank conflicts.
func (e Emulator) Run(t testing.TB, l Launch) []byte {
	t.Helper()
	out, log, err := l.Output(e)
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
