// Package models stores networks. Shipped networks are safetensors files inside the binary, with a manifest that describes them. A user's own
// networks are in a Store, which is a folder. The package does not interpret the files; it only checks their checksums.
//
// Networks of pattern tables ship compressed, which reduces them to a third. Callers get the uncompressed file, which the checksum is of.
//
// The untrained networks follow from seeds. A test of package nn/net has the seeds and compares the files. To rewrite the files and their
// checksums, run
//
//	go test ./nn/net -run TestSeededModels -update
package models

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/evald/evald/engine/short"
)

//go:embed manifest.json *.safetensors *.safetensors.gz
var files embed.FS

// Entry describes one network in the manifest.
type Entry struct {
	Name    string    `json:"name"`            // the name in commands and answers
	Version int       `json:"version"`         // from 1
	File    string    `json:"file"`            // in this folder; compressed by gzip if it ends in .gz
	SHA256  string    `json:"sha256"`          // of the uncompressed file, in lower-case hexadecimal
	Config  string    `json:"config"`          // the network's shape in the notation of package net, "6x64", or pattern, "pattern128x64x32"
	Trained bool      `json:"trained"`         // false: a network for tests, whose answers are meaningless
	Rules   []string  `json:"rules"`           // the games that it was trained on, such as "7x6x4"; empty if untrained
	Range   []string  `json:"range,omitempty"` // further games that it supports, in the form of game.ParseRanges: "3-12x3-13x3-6"
	Note    string    `json:"note"`            // a description of one or two sentences
	Created time.Time `json:"created,omitzero"`
}

// Ref returns the name with the version: "mine@3".
func (e Entry) Ref() string { return fmt.Sprintf("%s@%d", e.Name, e.Version) }

// List returns every shipped network, in the manifest's order. The caller may change the result.
func List() (entries []Entry) {
	text, err := files.ReadFile("manifest.json")
	if err == nil {
		err = json.Unmarshal(text, &entries)
	}
	if err != nil { // a bug: the manifest is part of the program
		panic(fmt.Sprintf("models: manifest.json: %v", err))
	}
	return entries
}

// Names returns the names of the shipped networks, in the manifest's order.
func Names() []string {
	var names []string
	for _, e := range List() {
		names = append(names, e.Name)
	}
	return names
}

// Find returns the shipped network with a reference such as "seeded-2x16" or "seeded-2x16@1"; ok is false if there is none.
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

// Open returns the uncompressed file of a shipped network, which the caller may change, and its entry. The error for an unknown name lists
// the known ones. A wrong checksum is an error, too.
func Open(ref string) ([]byte, Entry, error) {
	e, ok := Find(ref)
	if !ok {
		return nil, Entry{}, fmt.Errorf("model %s is unknown; there are: %s", short.Quote(ref), strings.Join(Names(), ", "))
	}
	file, err := files.ReadFile(e.File)
	if err == nil && strings.HasSuffix(e.File, ".gz") {
		var unpacked io.Reader
		if unpacked, err = gzip.NewReader(bytes.NewReader(file)); err == nil {
			file, err = io.ReadAll(unpacked)
		}
	}
	if err != nil {
		return nil, Entry{}, fmt.Errorf("model %q: %w", ref, err)
	}
	return file, e, e.verify(file)
}

// verify compares a file with the checksum in the manifest.
func (e Entry) verify(file []byte) error {
	if got := checksum(file); got != e.SHA256 {
		return fmt.Errorf("model %q: %s has sha256 %s, but the manifest says %s", e.Name, e.File, got, e.SHA256)
	}
	return nil
}

func checksum(file []byte) string { return fmt.Sprintf("%x", sha256.Sum256(file)) }
