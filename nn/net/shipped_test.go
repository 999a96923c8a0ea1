package net

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/models"
)

// update rewrites the shipped files that can be computed: go test ./nn/net -run TestSeededModels -update
var update = flag.Bool("update", false, "rewrite the untrained networks in models/ from their seeds")

const modelsFolder = "../../models"

// The shipped network that is made from a seed alone.
func TestSeededModels(t *testing.T) {
	const name = "seeded-2x16"
	n := mustNew(t, Config{Blocks: 2, Channels: 16, HeadChannels: 8, Hidden: 16}, 1)
	n.Metadata["evald.name"] = name
	n.Metadata["evald.note"] = "untrained"
	want := mustMarshal(t, n)
	if *update {
		rewriteModel(t, n, name, want)
		return
	}
	got, e, err := models.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	if e.Config != n.Config().String() || e.Trained {
		t.Errorf("the manifest says %s, trained %t; the network is %s of random weights", e.Config, e.Trained, n.Config())
	}
	if !bytes.Equal(got, want) {
		t.Error("the shipped file is not what the seed gives; if the change is meant, run this test with -update")
	}
}

// rewriteModel writes the file, and its checksum into the manifest on disk.
func rewriteModel(t *testing.T, n *Network, name string, file []byte) {
	t.Helper()
	path := filepath.Join(modelsFolder, "manifest.json")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var entries []models.Entry
	gametest.OK(t, json.Unmarshal(text, &entries))
	for i, e := range entries {
		if e.Name != name {
			continue
		}
		sum := sha256.Sum256(file)
		entries[i].SHA256 = hex.EncodeToString(sum[:])
		gametest.OK(t, os.WriteFile(filepath.Join(modelsFolder, e.File), mustMarshal(t, n), 0o644))
	}
	text, err = json.MarshalIndent(entries, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	gametest.OK(t, os.WriteFile(path, append(text, '\n'), 0o644))
	t.Logf("rewrote %s; run the tests again without -update", name)
}

// shipped opens a shipped network.
func shipped(t testing.TB, name string) *Network {
	t.Helper()
	file, _, err := models.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	n := gametest.Must(Parse(file))(t)
	return n
}
