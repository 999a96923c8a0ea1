package models

import (
	"path/filepath"
	"testing"

	"github.com/evald/evald/engine/game/gametest"
)

func TestManifest(t *testing.T) {
	gametest.OneGoroutine(t)
	seen := map[string]bool{}
	for _, e := range List() {
		if e.Name == "" || seen[e.Name] {
			t.Errorf("name %q is empty or not unique", e.Name)
		}
		seen[e.Name] = true
		if seen[e.File] || filepath.Base(e.File) != e.File {
			t.Errorf("%s: file %q is not one file in this folder of its own", e.Name, e.File)
		}
		seen[e.File] = true
		if e.Note == "" || e.Config == "" || e.Version < 1 || checkName(e.Name) != nil {
			t.Errorf("%s lacks something: %+v", e.Name, e)
		}
		if e.Trained == (len(e.Rules) == 0) {
			t.Errorf("%s: trained is %v, but the rules it was trained on are %v", e.Name, e.Trained, e.Rules)
		}
		file, got, err := Open(e.Name)
		if err != nil {
			t.Error(err)
		}
		if got.Name != e.Name || len(file) == 0 {
			t.Errorf("Open(%q) gave %d bytes of %q", e.Name, len(file), got.Name)
		}
	}
	onDisk := gametest.Must(filepath.Glob("*.safetensors*"))(t)
	for _, file := range onDisk {
		if !seen[file] {
			t.Errorf("%s is not in the manifest", file)
		}
	}
}

func TestOpenUnknown(t *testing.T) {
	_, _, err := Open("nonesuch")
	if want := `model "nonesuch" is unknown; there are: default, default-fast, any, seeded-2x16`; err == nil || err.Error() != want {
		t.Errorf("error is %v, want %s", err, want)
	}
}
