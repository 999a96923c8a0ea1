package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/evald/evald/engine/short"
	"github.com/evald/evald/models"
	"github.com/evald/evald/nn/net"
)

// model is a network that was asked for, and where it is.
type model struct {
	models.Entry
	Path    string // its file; empty where it is inside the program
	content []byte
}

// userStore is the user's own models.
func userStore() (models.Store, error) {
	dir, err := models.DefaultDir()
	return models.NewStore(dir), err
}

// findModel looks a name or NAME@VERSION up: first among the shipped models, then in the user's store. Where ok is
// false without an error there is no model of that name.
func findModel(ref string) (m model, ok bool, err error) {
	if _, shipped := models.Find(ref); shipped {
		content, entry, err := models.Open(ref)
		return model{entry, "", content}, err == nil, err
	}
	store, err := userStore()
	if _, _, bad := models.ParseRef(ref); bad != nil || err != nil {
		return model{}, false, nil // not a name, or no store: it may be a path
	}
	entry, ok, err := store.Find(ref)
	if err != nil || !ok {
		return model{}, false, err
	}
	content, err := store.Read(entry)
	return model{entry, store.Path(entry), content}, err == nil, err
}

// openModel finds a model by name, or else reads a file, whose entry has what can be known of it.
func openModel(nameOrPath string) (model, *net.Network, error) {
	m, ok, err := findModel(nameOrPath)
	if !ok {
		content, fileErr := readNetworkFile(nameOrPath)
		switch {
		case err != nil && fileErr != nil: // a store that cannot be read does not keep anybody from reading a file
			return model{}, nil, err
		case errors.Is(fileErr, fs.ErrNotExist):
			return model{}, nil, fmt.Errorf("model %s is neither a file nor a shipped model (%s)%s", short.Quote(nameOrPath), strings.Join(models.Names(), ", "), inStore())
		case fileErr != nil:
			return model{}, nil, fmt.Errorf("read network: %w", fileErr)
		}
		base, sum := filepath.Base(nameOrPath), sha256.Sum256(content)
		m = model{models.Entry{Name: strings.TrimSuffix(base, filepath.Ext(base)), File: base, SHA256: hex.EncodeToString(sum[:]), Rules: []string{}}, nameOrPath, content}
	}
	n, err := net.Parse(m.content)
	if err != nil {
		return model{}, nil, fmt.Errorf("%s: %w", nameOrPath, err)
	}
	if config := n.Config().String(); m.Config == "" {
		m.Config = config
	} else if m.Config != config {
		return model{}, nil, fmt.Errorf("model %s: the manifest says %s, the network is %s: import it again", m.Ref(), short.Text(m.Config), config)
	}
	return m, n, nil
}

// maxNetworkFile is more than any network needs.
const maxNetworkFile = 1 << 30

func readNetworkFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", path) // reading a pipe may never end
	}
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxNetworkFile+1))
	if err == nil && len(content) > maxNetworkFile {
		err = fmt.Errorf("%s has more than %d bytes", path, maxNetworkFile)
	}
	return content, err
}

// inStore names what the user's store has, for an error.
func inStore() string {
	store, err := userStore()
	if err != nil {
		return ""
	}
	entries, _ := store.List()
	if len(entries) == 0 {
		return ""
	}
	var refs []string
	for _, e := range entries {
		refs = append(refs, e.Ref())
	}
	return fmt.Sprintf(" nor in %s (%s)", store.Dir(), strings.Join(refs, ", "))
}

// loadModel reads a network by its name, or else a file. The name for answers is the shipped one, NAME@VERSION of the
// user's store, or the file's without folder and extension.
func loadModel(nameOrPath string, notes io.Writer) (*net.Network, string, error) {
	m, n, err := openModel(nameOrPath)
	if err != nil {
		return nil, "", err
	}
	name := m.Name
	if m.Version > 0 {
		if m.Path != "" {
			name = m.Ref()
		}
		if !m.Trained {
			fmt.Fprintf(notes, "evald: model %s is not trained; its answers mean nothing\n", name)
		}
	}
	return n, name, nil
}
