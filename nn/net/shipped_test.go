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

	"github.com/evald/evald/models"
)

// update rewrites the shipped files that can be computed: go test ./nn/net -run TestSeededModels -update
var update = flag.Bool("update", false, "rewrite the untrained networks in models/ from their seeds")

const modelsFolder = "../../models"

// seededModels are the shipped networks that are made from a seed alone.
var seededModels = []struct {
	name   string
	config Config
	seed   uint64
}{
	{"seeded-2x16", Config{Blocks: 2, Channels: 16, HeadChannels: 8, Hidden: 16}, 1},
}

func TestSeededModels(t *testing.T) {
	for _, m := range seededModels {
		t.Run(m.name, func(t *testing.T) {
			n, err := NewScrambled(m.config, m.seed)
			if err != nil {
				t.Fatal(err)
			}
			n.Metadata["evald.name"] = m.name
			n.Metadata["evald.note"] = "untrained"
			want, err := n.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			if *update {
				rewriteModel(t, n, m.name, want)
				return
			}
			got, e, err := models.Open(m.name)
			if err != nil {
				t.Fatal(err)
			}
			if e.Config != m.config.String() {
				t.Errorf("the manifest says %s, the network is %s", e.Config, m.config)
			}
			if e.Trained {
				t.Error("the manifest calls a network of random weights trained")
			}
			if !bytes.Equal(got, want) {
				t.Errorf("the shipped file is not what seed %d gives; if the change is meant, run this test with -update", m.seed)
			}
			if _, err := Parse(got); err != nil {
				t.Error(err)
			}
		})
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
	if err := json.Unmarshal(text, &entries); err != nil {
		t.Fatal(err)
	}
	for i, e := range entries {
		if e.Name != name {
			continue
		}
		sum := sha256.Sum256(file)
		entries[i].SHA256 = hex.EncodeToString(sum[:])
		if err := n.WriteFile(filepath.Join(modelsFolder, e.File)); err != nil {
			t.Fatal(err)
		}
	}
	text, err = json.MarshalIndent(entries, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Logf("rewrote %s; run the tests again without -update", name)
}

// shipped opens a shipped network.
func shipped(t testing.TB, name string) *Network {
	t.Helper()
	file, _, err := models.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	n, err := Parse(file)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
