package open

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

// Stored is the file of a model, and what is known of it.
type Stored struct {
	models.Entry        // of a file outside of the store it has Name, File, SHA256 and Config; Version is 0
	Path         string // of the file; empty if it is inside the program
	Content      []byte // of the file
}

// Label is what answers call the model: the name of a shipped one, NAME@VERSION of one of the user's store, or the name of
// a file without its folder and extension.
func (s Stored) Label() string {
	if s.Version > 0 && s.Path != "" {
		return s.Ref()
	}
	return s.Name
}

// Warning is a sentence for the user of a model whose answers mean nothing; empty if there is nothing to say.
func (s Stored) Warning() string {
	if s.Version > 0 && !s.Trained {
		return fmt.Sprintf("model %s is not trained; its answers mean nothing", s.Label())
	}
	return ""
}

// Find looks a name or NAME@VERSION up, first among the shipped models, then in the user's store; never among files. If ok
// is false and there is no error, there is no model of that name. An error says what is wrong with the model or its store.
func Find(ref string) (s Stored, ok bool, err error) {
	if _, shipped := models.Find(ref); shipped {
		content, entry, err := models.Open(ref)
		return Stored{entry, "", content}, err == nil, err
	}
	store, err := models.UserStore()
	if _, _, bad := models.ParseRef(ref); bad != nil || err != nil {
		return Stored{}, false, nil // it is no name, or there is no store: it may be a path
	}
	entry, ok, err := store.Find(ref)
	if err != nil || !ok {
		return Stored{}, false, err
	}
	content, err := store.Read(entry)
	return Stored{entry, store.Path(entry), content}, err == nil, err
}

// Model finds a model by its name, or else reads the safetensors file at that path, and parses its network. The error of a
// name that nobody knows lists the models that there are.
func Model(nameOrPath string) (Stored, *net.Network, error) {
	s, ok, err := Find(nameOrPath)
	if !ok {
		content, fileErr := readFile(nameOrPath)
		switch {
		case err != nil && fileErr != nil: // a store that cannot be read does not keep anybody from reading a file
			return Stored{}, nil, err
		case errors.Is(fileErr, fs.ErrNotExist):
			return Stored{}, nil, fmt.Errorf("model %s is neither a file nor a shipped model (%s)%s", short.Quote(nameOrPath), strings.Join(models.Names(), ", "), inStore())
		case fileErr != nil:
			return Stored{}, nil, fmt.Errorf("read network: %w", fileErr)
		}
		base, sum := filepath.Base(nameOrPath), sha256.Sum256(content)
		s = Stored{models.Entry{Name: strings.TrimSuffix(base, filepath.Ext(base)), File: base, SHA256: hex.EncodeToString(sum[:]), Rules: []string{}}, nameOrPath, content}
	}
	n, err := net.Parse(s.Content)
	if err != nil {
		return Stored{}, nil, fmt.Errorf("%s: %w", nameOrPath, err)
	}
	if config := n.Config().String(); s.Config == "" {
		s.Config = config
	} else if s.Config != config {
		return Stored{}, nil, fmt.Errorf("model %s: the manifest says %s, the network is %s: import it again", s.Ref(), short.Text(s.Config), config)
	}
	return s, n, nil
}

// File reads a safetensors file and parses the network in it.
func File(path string) ([]byte, *net.Network, error) {
	content, err := readFile(path)
	if err != nil {
		return nil, nil, fmt.Errorf("read network: %w", err)
	}
	n, err := net.Parse(content)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return content, n, nil
}

// maxFile is more bytes than any network needs.
const maxFile = 1 << 30

func readFile(path string) ([]byte, error) {
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
	content, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(content) > maxFile {
		err = fmt.Errorf("%s has more than %d bytes", path, maxFile)
	}
	return content, err
}

// inStore names what the user's store has, for an error.
func inStore() string {
	store, err := models.UserStore()
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
