package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/evald/evald/engine/game/gametest"
)

// Every PTX file is compiled from the sources that are there, and its stamp covers all that they include.
func TestPTXIsCurrent(t *testing.T) {
	t.Chdir("..")
	include := regexp.MustCompile(`(?m)^#include "(\w+\.h)"`)
	for _, m := range modules {
		for _, name := range m.files {
			text := gametest.Must(os.ReadFile(name))(t)
			for _, header := range include.FindAllSubmatch(text, -1) {
				if !slices.Contains(m.files, string(header[1])) {
					t.Errorf("%s includes %s, which module %s does not list", name, header[1], m.name)
				}
			}
		}
		ptx, err := os.ReadFile(ptxFile(m.name))
		first, err2 := m.stamp()
		if errors.Join(err, err2) != nil || !bytes.HasPrefix(ptx, []byte(first)) {
			t.Errorf("%s was compiled from other sources or flags: run make kernels; %v, %v", ptxFile(m.name), err, err2)
		}
	}
}

// The archive of machine code has every module for every architecture, assembled from the PTX that is there: by the hashes in
// it, and if there is a ptxas, one module byte by byte, in make soak all.
func TestCubinsAreCurrent(t *testing.T) {
	t.Chdir("..")
	got := archive(t)
	ptxas, noPTXAS := findPTXAS()
	n := 0
	for _, m := range modules {
		if sum, err := hashOf(m.name); err != nil || got[m.name+".sha256"] != sum {
			t.Errorf("%s has machine code of other PTX than %s, %v: run make kernels", cubinsFile, ptxFile(m.name), err)
		}
		n++
		for _, arch := range m.machines() {
			n++
			if len(got[m.name+"."+arch]) < 10_000 {
				t.Errorf("%s lacks %s.%s", cubinsFile, m.name, arch)
			}
			if noPTXAS != nil || !soak && m.name+arch != "anysm_80" {
				continue
			}
			if cubin, err := m.assemble(ptxas, arch); err != nil || got[m.name+"."+arch] != string(cubin) {
				t.Errorf("%s.%s is not what ptxas makes of the PTX, %v", m.name, arch, err)
			}
		}
	}
	if len(got) != n {
		t.Errorf("%s has %d files, want %d", cubinsFile, len(got), n)
	}
}

// archive returns the files of the archive of machine code, by name.
func archive(t *testing.T) map[string]string {
	t.Helper()
	file := gametest.Must(os.Open(cubinsFile))(t)
	defer file.Close()
	in := gametest.Must(zstd.NewReader(file))(t)
	defer in.Close()
	all := map[string]string{}
	for files := tar.NewReader(in); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		content, err2 := io.ReadAll(files)
		gametest.OK(t, errors.Join(err, err2))
		all[header.Name] = string(content)
	}
}

// soak says whether all is assembled, which takes minutes. What is recorded has the hashes of what it was made from anyway.
var soak = os.Getenv("EVALD_SOAK") != ""

// The recorded registers, spills and shared memory are those of the kernels, as far as there is a ptxas: of two modules, in
// make soak of all.
func TestResources(t *testing.T) {
	t.Chdir("..")
	ptxas, err := findPTXAS()
	if err != nil && os.Getenv("EVALD_REQUIRE_TOOLS") == "1" {
		t.Fatalf("EVALD_REQUIRE_TOOLS=1, but there is %v", err)
	}
	if err != nil {
		t.Skip(err)
	}
	want := gametest.Must(os.ReadFile(resourcesFile))(t)
	if !soak {
		for _, m := range modules {
			if m.name != "any" && m.name != "hopper64" {
				continue
			}
			if got, err := m.resources(ptxas, "sm_90a"); err != nil || !strings.Contains(string(want), got) {
				t.Errorf("%s: assembled %q, which is not recorded, %v", m.name, got, err)
			}
		}
		return
	}
	got := gametest.Must(resources(ptxas))(t)
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-recorded +assembled); make kernels records anew:\n%s", resourcesFile, diff)
	}
}

// ptxas says so if products cannot overlap, and then there is no record.
func TestSerialisedProductsAreFound(t *testing.T) {
	for text, want := range map[string]bool{
		"ptxas info    : (C7512) Potential Performance Loss: wgmma.mma_async instructions are serialized due to insufficient register resources": true,
		"ptxas info    : Used 168 registers, used 1 barriers": false,
	} {
		if got := serialised.MatchString(text); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

// In the machine code of the kernels for Hopper no instruction accesses registers of products in flight: in the code that ships, which
// is also as fast as it can be (function.check), and in make soak in that of each ptxas of EVALD_PTXAS_VERSIONS.
func TestMachineCode(t *testing.T) {
	t.Chdir("..")
	nvdisasm, err := findNvdisasm()
	if err != nil && os.Getenv("EVALD_REQUIRE_TOOLS") == "1" {
		t.Fatalf("EVALD_REQUIRE_TOOLS=1, but there is %v", err)
	}
	if err != nil {
		t.Skip(err)
	}
	files := archive(t)
	for _, m := range modules {
		if len(m.archs) == 1 {
			for _, slow := range checkMachineCode(t, nvdisasm, m, []byte(files[m.name+".sm_90a"])) {
				t.Error(slow)
			}
		}
	}
	for _, ptxas := range filepath.SplitList(os.Getenv("EVALD_PTXAS_VERSIONS")) {
		t.Run(filepath.Base(ptxas), func(t *testing.T) {
			for _, m := range modules {
				if len(m.archs) == 1 {
					for _, slow := range checkMachineCode(t, nvdisasm, m, gametest.Must(m.assemble(ptxas, "sm_90a"))(t)) {
						t.Log(slow)
					}
				}
			}
		})
	}
}

// checkMachineCode checks the kernels of a module, and returns what makes them slow.
func checkMachineCode(t *testing.T, nvdisasm string, m module, cubin []byte) (slow []string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cubin")
	gametest.OK(t, os.WriteFile(path, cubin, 0o600))
	text := gametest.Must(exec.Command(nvdisasm, "-c", path).Output())(t)
	ptx := string(gametest.Must(os.ReadFile(ptxFile(m.name)))(t))
	kernels := functions(string(text))
	for _, f := range kernels {
		_, entry, _ := strings.Cut(ptx, ".entry "+f.name+"(")
		entry, _, _ = strings.Cut(entry, ".entry ")
		wrong, more, n := f.check()
		slow = append(slow, more...)
		for _, mistake := range wrong {
			t.Error(mistake)
		}
		if want := strings.Count(entry, "wgmma.mma_async"); n < want || want == 0 {
			t.Errorf("%s has %d products in machine code, and %d in PTX", f.name, n, want)
		}
	}
	if want := strings.Count(ptx, ".entry "); len(kernels) != want {
		t.Errorf("%s has %d kernels in machine code, and %d in PTX", m.name, len(kernels), want)
	}
	return slow
}

// findNvdisasm returns NVIDIA's disassembler: EVALD_NVDISASM, or that of the Python in EVALD_PYTHON.
func findNvdisasm() (string, error) {
	if path := os.Getenv("EVALD_NVDISASM"); path != "" {
		return path, nil
	}
	found, _ := filepath.Glob(filepath.Join(filepath.Dir(filepath.Dir(os.Getenv("EVALD_PYTHON"))), "lib/python*/site-packages/nvidia/*/bin/nvdisasm"))
	if len(found) != 1 {
		return "", errors.New("no nvdisasm: set EVALD_NVDISASM, or EVALD_PYTHON to a Python with nvidia-cuda-nvdisasm (pip install -r .ci/requirements.txt)")
	}
	return found[0], nil
}
