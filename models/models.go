// Package models is where networks are kept: those that ship with the program, safetensors files inside the binary with
// a manifest that says what each is, and a user's own in a Store, a folder. It knows nothing of what is in a file beyond
// its checksum.
//
// The untrained networks come from seeds alone. A test of package nn/net holds the seeds and compares; to write the
// files and their checksums anew, run
//
//	go test ./nn/net -run TestSeededModels -update
package models

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/evald/evald/engine/short"
)

//go:embed manifest.json *.safetensors
var files embed.FS

// Entry is what the manifest says of one network.
type Entry struct {
	Name    string    `json:"name"`    // what users call it
	Version int       `json:"version"` // from 1
	File    string    `json:"file"`    // in this folder
	SHA256  string    `json:"sha256"`  // of the file, in lower-case hexadecimal
	Config  string    `json:"config"`  // the network's shape as package net writes it, "6x64"
	Trained bool      `json:"trained"` // false: its answers mean nothing and are for tests only
	Rules   []string  `json:"rules"`   // the games it was trained on, such as "7x6x4"; empty where untrained
	Note    string    `json:"note"`    // one or two sentences for people
	Created time.Time `json:"created,omitzero"`
}

// Ref is the name with the version: "mine@3".
func (e Entry) Ref() string { return fmt.Sprintf("%s@%d", e.Name, e.Version) }

// manifest is parsed once. It is part of the program, so that one that does not parse is a programmer's mistake.
var manifest = sync.OnceValue(func() []Entry {
	text, err := files.ReadFile("manifest.json")
	if err != nil {
		panic(err)
	}
	var entries []Entry
	if err := json.Unmarshal(text, &entries); err != nil {
		panic(fmt.Sprintf("models: manifest.json: %v", err))
	}
	return entries
})

// List is every shipped network, in the manifest's order. The caller may change it.
func List() []Entry {
	entries := slices.Clone(manifest())
	for i := range entries {
		entries[i].Rules = slices.Clone(entries[i].Rules)
	}
	return entries
}

// Names are the names of the shipped networks, in the manifest's order.
func Names() []string {
	var names []string
	for _, e := range manifest() {
		names = append(names, e.Name)
	}
	return names
}

// Find is the shipped network of a reference, "seeded-2x16" or "seeded-2x16@1".
func Find(ref string) (Entry, bool) {
	name, version, err := ParseRef(ref)
	if err != nil {
		return Entry{}, false
	}
	for _, e := range List() {
		if e.Name == name && (version == 0 || version == e.Version) {
			return e, true
		}
	}
	return Entry{}, false
}

// Open gives the bytes of a shipped network's file, which the caller may change, and its entry. The error of an
// unknown name lists those there are; a file that does not have its checksum is an error too.
func Open(ref string) ([]byte, Entry, error) {
	e, ok := Find(ref)
	if !ok {
		return nil, Entry{}, fmt.Errorf("model %s is unknown; there are: %s", short.Quote(ref), strings.Join(Names(), ", "))
	}
	file, err := files.ReadFile(e.File)
	if err != nil {
		return nil, Entry{}, fmt.Errorf("model %q: %w", ref, err)
	}
	if err := e.verify(file); err != nil {
		return nil, Entry{}, err
	}
	return file, e, nil
}

// verify checks a file against the manifest.
func (e Entry) verify(file []byte) error {
	if got := checksum(file); got != e.SHA256 {
		return fmt.Errorf("model %q: %s has sha256 %s, but the manifest says %s", e.Name, e.File, got, e.SHA256)
	}
	return nil
}

func checksum(file []byte) string {
	sum := sha256.Sum256(file)
	return hex.EncodeToString(sum[:])
}
