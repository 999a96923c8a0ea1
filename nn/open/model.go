package open

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/short"
	"github.com/evald/evald/models"
	"github.com/evald/evald/nn/net"
)

// Stored is a model's file and its entry in the manifest.
type Stored struct {
	models.Entry        // a file outside the store has only Name, File, SHA256, Config and Rules; Version is 0
	Path         string // of the file; "" if it is inside the program
	Content      []byte // of the file
}

// Label returns the model's name in answers: the name of a shipped model, NAME@VERSION in the user's store, or a file's name without folder
// and extension.
func (s Stored) Label() string {
	if s.Version > 0 && s.Path != "" {
		return s.Ref()
	}
	return s.Name
}

// Warning returns a sentence for the user if the model's answers are meaningless, and otherwise "".
func (s Stored) Warning() string {
	if s.Version > 0 && !s.Trained {
		return fmt.Sprintf("model %s is not trained; its answers mean nothing", s.Label())
	}
	return ""
}

// Find looks up NAME or NAME@VERSION among the shipped models and then in the user's store, but not among files. If ok is false and err is
// nil, no model has that name. The error describes a fault of the model or the store.
func Find(ref string) (s Stored, ok bool, err error) {
	if s, ok, err = Lookup(ref); err != nil || !ok {
		return s, ok, err
	}
	if s.Path == "" {
		s.Content, _, err = models.Open(ref)
		return s, err == nil, err
	}
	store, err := models.UserStore()
	if err == nil {
		s.Content, err = store.Read(s.Entry)
	}
	return s, err == nil, err
}

// Lookup is Find without reading the file.
func Lookup(ref string) (s Stored, ok bool, err error) {
	if entry, shipped := models.Find(ref); shipped {
		return Stored{Entry: entry}, true, nil
	}
	store, err := models.UserStore()
	if _, _, bad := models.ParseRef(ref); bad != nil || err != nil {
		return Stored{}, false, nil // not a valid name, or there is no store: it may be a path
	}
	entry, ok, err := store.Find(ref)
	if err != nil || !ok {
		return Stored{}, false, err
	}
	return Stored{Entry: entry, Path: store.Path(entry)}, true, nil
}

// Model is Any for callers that need a network of convolutions. Any other kind is an error.
func Model(nameOrPath string) (Stored, *net.Network, error) {
	s, n, err := Any(nameOrPath)
	if err != nil {
		return Stored{}, nil, err
	}
	c, err := n.Convolutions()
	if err != nil {
		return Stored{}, nil, fmt.Errorf("model %s %w", nameOrPath, err)
	}
	return s, c, nil
}

// Any finds a network by its Name, or else reads the file at that path, and parses it. If neither exists, the error lists what there is.
func Any(nameOrPath string) (Stored, Network, error) {
	name, err := ParseName(nameOrPath)
	if err == nil {
		err = name.notNetwork()
	}
	if err != nil {
		return Stored{}, Network{}, err
	}
	s, ok, err := Find(nameOrPath)
	if !ok {
		content, p, fileErr := File(nameOrPath)
		switch {
		case err != nil && fileErr != nil: // an unreadable store must not prevent reading a file
			return Stored{}, Network{}, err
		case errors.Is(fileErr, fs.ErrNotExist):
			return Stored{}, Network{}, unknown(nameOrPath)
		case fileErr != nil:
			return Stored{}, Network{}, fileErr
		}
		base, sum := filepath.Base(nameOrPath), sha256.Sum256(content)
		name := strings.TrimSuffix(base, filepath.Ext(base))
		return Stored{models.Entry{Name: name, File: base, SHA256: hex.EncodeToString(sum[:]), Config: p.Config(), Rules: p.Rules(), Range: p.Range()}, nameOrPath, content}, p, nil
	}
	p, err := Parse(s.Content)
	if err != nil {
		return Stored{}, Network{}, fmt.Errorf("%s: %w", nameOrPath, err)
	}
	if s.Config = cmp.Or(s.Config, p.Config()); s.Config != p.Config() {
		return Stored{}, Network{}, fmt.Errorf("model %s: the manifest says %s, the network is %s: import it again", s.Ref(), short.Text(s.Config), p.Config())
	}
	if !s.Trained && s.Path != "" { // earlier versions of evald imported networks whose files do not contain the rules
		s.Rules = p.Rules()
		s.Trained = len(s.Rules) > 0
	}
	return s, p, nil
}

// Bytes returns the maximum memory in bytes that the open model uses on the CPU, on any path.
func (s Stored) Bytes() (int64, error) {
	return kinds[slices.IndexFunc(kinds, func(f form) bool { return f.shape(s.Config) })].memory(s)
}

// maxFile is larger than the file of any network.
const maxFile = 1 << 30

// File reads a network's file and parses it. The description of an ONNX file may be beside it, in NAME.yaml; File then adds it to the
// metadata of the returned content.
func File(path string) ([]byte, Network, error) {
	content, err := durable.ReadFile(path, maxFile)
	if err != nil {
		return nil, Network{}, fmt.Errorf("read network: %w", err)
	}
	if beside := formOf(content).beside; beside != nil {
		if content, err = beside(path, content); err != nil {
			return nil, Network{}, err
		}
	}
	p, err := Parse(content)
	if err != nil {
		return nil, Network{}, fmt.Errorf("%s: %w", path, err)
	}
	return content, p, nil
}
