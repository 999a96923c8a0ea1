package cuda

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// update compiles the kernels anew: make kernels.
var update = flag.Bool("update", false, "compile ptx/ and ptx/resources.txt with clang-19 and ptxas")

// modules are the files of kernels, and what they include.
var modules = []struct {
	name  string
	files []string
}{
	{"tower64", []string{"tower64.cu", "tower.h", "heads.h", "board.h", "device.h"}},
	{"tower128", []string{"tower128.cu", "tower.h", "heads.h", "board.h", "device.h"}},
	{"tower256", []string{"tower256.cu", "tower.h", "heads.h", "board.h", "device.h"}},
	{"any", []string{"any.cu", "heads.h", "board.h", "device.h"}},
}

// compiler makes PTX without a CUDA toolkit. sm_80 runs on every later GPU.
var compiler = strings.Fields("clang-19 -x cuda --cuda-device-only --cuda-gpu-arch=sm_80 -nocudainc -nocudalib -std=c++17 -O3 -S")

// stamp is what a PTX file was made from.
func stamp(t *testing.T, files []string) string {
	t.Helper()
	h := sha256.New()
	fmt.Fprintln(h, compiler)
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(h, name, len(text))
		h.Write(text)
	}
	return "// sources and flags: sha256 " + hex.EncodeToString(h.Sum(nil)) + "\n"
}

// Every PTX file is compiled from the sources beside it.
func TestPTXIsCurrent(t *testing.T) {
	for _, m := range modules {
		path := filepath.Join("ptx", m.name+".ptx")
		if *update {
			compile(t, m.files, path)
		}
		ptx, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.HasPrefix(ptx, []byte(stamp(t, m.files))) {
			t.Errorf("%s was compiled from other sources or flags: run make kernels", path)
		}
	}
}

func compile(t *testing.T, files []string, path string) {
	t.Helper()
	var log bytes.Buffer
	run := exec.Command(compiler[0], append(compiler[1:len(compiler):len(compiler)], files[0], "-o", "-")...)
	run.Stderr = &log
	ptx, err := run.Output()
	if err != nil || log.Len() > 0 {
		t.Fatalf("%v: %v\n%s(clang-19 is in Debian and Ubuntu: apt-get install clang-19)", run, err, log.Bytes())
	}
	ptx = regexp.MustCompile(`(?m)^\s*(//.*)?\n`).ReplaceAll(ptx, nil) // comments and empty lines are a third of it
	if err := os.WriteFile(path, append([]byte(stamp(t, files)), ptx...), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Every include of a module is in the list that its stamp covers.
func TestModulesListTheirIncludes(t *testing.T) {
	include := regexp.MustCompile(`(?m)^#include "(\w+\.h)"`)
	for _, module := range modules {
		listed := map[string]bool{}
		for _, name := range module.files {
			listed[name] = true
		}
		for _, name := range module.files {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range include.FindAllSubmatch(text, -1) {
				if !listed[string(m[1])] {
					t.Errorf("%s includes %s, which module %s does not list", name, m[1], module.name)
				}
			}
		}
	}
}

// Every kernel of the list is an entry of its module, and no entry is missing from the list.
func TestEntriesAreListed(t *testing.T) {
	entry := regexp.MustCompile(`(?m)^\.visible \.entry (\w+)\(\n\s*\.param \.align 8 \.b8 \w+\[(\d+)\]\n\)\n\.maxntid (\d+)`)
	got, want := map[string]string{}, map[string]string{}
	seen := map[string]bool{}
	for _, k := range Kernels() {
		want[k.Name] = fmt.Sprintf("%d threads, job of %d bytes", k.Threads, JobBytes)
		if seen[k.PTX] {
			continue
		}
		seen[k.PTX] = true
		for _, m := range entry.FindAllStringSubmatch(k.PTX, -1) {
			got[m[1]] = fmt.Sprintf("%s threads, job of %s bytes", m[3], m[2])
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("entries in ptx/ (-listed +found):\n%s", diff)
	}
}

// resources is what ptxas says of the kernels: registers a thread, bytes that spill from registers, and the shared memory
// that the host asks for. It needs ptxas (pip install nvidia-cuda-nvcc-cu12), found beside EVALD_PYTHON or in EVALD_PTXAS.
func TestResources(t *testing.T) {
	ptxas := findPTXAS(t)
	var text strings.Builder
	fmt.Fprintf(&text, "%-18s %-7s %9s %12s %11s %7s\n", "kernel", "arch", "registers", "spill stores", "spill loads", "shared")
	for _, m := range modules {
		for _, arch := range []string{"sm_80", "sm_90a"} {
			out, err := exec.Command(ptxas, "-v", "-arch="+arch, filepath.Join("ptx", m.name+".ptx"), "-o", os.DevNull).CombinedOutput()
			if err != nil {
				t.Fatalf("ptxas -arch=%s %s.ptx: %v\n%s", arch, m.name, err, out)
			}
			report(t, &text, arch, string(out))
		}
	}
	path := "ptx/resources.txt"
	if *update {
		if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), text.String()); diff != "" {
		t.Errorf("%s (-recorded +assembled); make kernels records anew:\n%s", path, diff)
	}
}

var assembled = regexp.MustCompile(`Function properties for (\w+)\n.* (\d+) bytes spill stores, (\d+) bytes spill loads\n.*Used (\d+) registers`)

// report adds a line for each kernel of one module.
func report(t *testing.T, text *strings.Builder, arch, log string) {
	t.Helper()
	lines := map[string]string{}
	for _, m := range assembled.FindAllStringSubmatch(log, -1) {
		lines[m[1]] = fmt.Sprintf("%9s %12s %11s", m[4], m[2], m[3])
	}
	for _, k := range Kernels() {
		if line, ok := lines[k.Name]; ok {
			fmt.Fprintf(text, "%-18s %-7s %s %7d\n", k.Name, arch, line, k.Shared)
		}
	}
	if len(lines) == 0 {
		t.Fatalf("ptxas reports no kernel:\n%s", log)
	}
}

func findPTXAS(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("EVALD_PTXAS"); path != "" {
		return path
	}
	if python := os.Getenv("EVALD_PYTHON"); python != "" {
		pattern := filepath.Join(filepath.Dir(filepath.Dir(python)), "lib/python*/site-packages/nvidia/cuda_nvcc/bin/ptxas")
		if found, _ := filepath.Glob(pattern); len(found) == 1 {
			return found[0]
		}
	}
	if os.Getenv("EVALD_REQUIRE_DATA") == "1" {
		t.Fatal("EVALD_REQUIRE_DATA=1, but there is no ptxas: pip install -r .ci/requirements.txt, and set EVALD_PYTHON")
	}
	t.Skip("no ptxas: set EVALD_PTXAS, or EVALD_PYTHON to a Python with nvidia-cuda-nvcc-cu12")
	return ""
}
