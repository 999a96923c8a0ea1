package main

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Every PTX file is compiled from the sources that are there.
func TestPTXIsCurrent(t *testing.T) {
	t.Chdir("..")
	for _, m := range modules {
		ptx, err := os.ReadFile(ptxFile(m.name))
		if err != nil {
			t.Fatal(err)
		}
		first, err := stamp(m.files)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.HasPrefix(ptx, []byte(first)) {
			t.Errorf("%s was compiled from other sources or flags: run make kernels", ptxFile(m.name))
		}
	}
}

// Every include of a module is in the list that its stamp covers.
func TestModulesListTheirIncludes(t *testing.T) {
	t.Chdir("..")
	include := regexp.MustCompile(`(?m)^#include "(\w+\.h)"`)
	for _, module := range modules {
		for _, name := range module.files {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range include.FindAllSubmatch(text, -1) {
				if !slices.Contains(module.files, string(m[1])) {
					t.Errorf("%s includes %s, which module %s does not list", name, m[1], module.name)
				}
			}
		}
	}
}

// The recorded registers, spills and shared memory are those of the kernels, as far as there is a ptxas.
func TestResources(t *testing.T) {
	t.Chdir("..")
	ptxas, err := findPTXAS()
	if err != nil && os.Getenv("EVALD_REQUIRE_TOOLS") == "1" {
		t.Fatalf("EVALD_REQUIRE_TOOLS=1, but there is %v", err)
	}
	if err != nil {
		t.Skip(err)
	}
	got, err := resources(ptxas)
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(resourcesFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-recorded +assembled); make kernels records anew:\n%s", resourcesFile, diff)
	}
}
