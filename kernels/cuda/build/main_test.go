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
	file := gametest.Must(os.Open(cubinsFile))(t)
	defer file.Close()
	in := gametest.Must(zstd.NewReader(file))(t)
	defer in.Close()
	got := map[string]string{}
	for files := tar.NewReader(in); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		content, err2 := io.ReadAll(files)
		gametest.OK(t, errors.Join(err, err2))
		got[header.Name] = string(content)
	}
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

// In Hopper's machine code the products of a group follow each other without a wait, and a wait leaves one group under way
// in the loop of the tower. Nothing there waits for all memory of the device. It needs an nvdisasm beside ptxas.
func TestHopperMachineCode(t *testing.T) {
	t.Chdir("..")
	ptxas, err := findPTXAS()
	if err != nil {
		t.Skip(err)
	}
	nvdisasm := filepath.Join(filepath.Dir(ptxas), "nvdisasm")
	if _, err := os.Stat(nvdisasm); err != nil {
		t.Skip(err)
	}
	const combine, step = "PGWPGWPGW", "PPPPGwPPPPPGwPPPPGw"
	const narrow = combine + step + step + "W" + combine
	const wide, cluster = "PGwPGwW", "F" + "PGwPGwW" + "F"
	for name, want := range map[string]string{"hopper64": narrow, "hopper128": narrow, "hopper256": cluster + wide} {
		cubin := filepath.Join(t.TempDir(), "cubin")
		if out, err := exec.Command(ptxas, "-arch=sm_90a", ptxFile(name), "-o", cubin).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		text := gametest.Must(exec.Command(nvdisasm, cubin).Output())(t)
		// P is a product, G the last one of a group, W a wait for all, w a wait that leaves one group under way, and F a fence.
		var code strings.Builder
		for line := range strings.Lines(string(text)) {
			switch {
			case strings.Contains(line, "HGMMA") && strings.Contains(line, "gsb0"):
				code.WriteByte('G')
			case strings.Contains(line, "HGMMA"):
				code.WriteByte('P')
			case strings.Contains(line, "WARPGROUP.DEPBAR.LE gsb0, 0x1"):
				code.WriteByte('w')
			case strings.Contains(line, "WARPGROUP.DEPBAR"):
				code.WriteByte('W')
			case strings.Contains(line, "MEMBAR.ALL.GPU"):
				code.WriteByte('F')
			case strings.Contains(line, " STL") || strings.Contains(line, " LDL"):
				t.Errorf("%s: %s", name, line)
			}
		}
		if code.String() != want {
			t.Errorf("%s: products and waits are %s, want %s", name, code.String(), want)
		}
	}
}
