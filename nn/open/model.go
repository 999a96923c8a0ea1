package open

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/short"
	"github.com/evald/evald/models"
	"github.com/evald/evald/nn/net"
	"github.com/evald/evald/nn/onnx"
	"github.com/evald/evald/nn/pattern"
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

// Parsed is a model's network, of one of three kinds; the other fields are nil.
type Parsed struct {
	Conv    *net.Network     // of convolutions, computed by evald's own kernels
	Pattern *pattern.Network // of pattern tables
	Foreign *Foreign         // of an ONNX file
}

// parse parses a network of any of the kinds.
func parse(content []byte) (p Parsed, err error) {
	switch {
	case onnx.Is(content):
		p.Foreign, err = parseForeign(content)
	case pattern.Is(content):
		p.Pattern, err = pattern.Parse(content)
	default:
		p.Conv, err = net.Parse(content)
	}
	return p, err
}

// Open opens a network of any kind; see Network. If it is of pattern tables or in an ONNX file, it
// may not support all games; see Options.Substitute.
func (p Parsed) Open(name string, o Options) (*Opened, error) {
	switch {
	case p.Pattern != nil:
		return ofTables(p.Pattern, name, o)
	case p.Foreign != nil:
		return p.Foreign.open(name, o)
	}
	return Network(p.Conv, name, o)
}

// Config returns the network's shape: "9x64", "pattern256x64x32" or ForeignConfig.
func (p Parsed) Config() string {
	switch {
	case p.Pattern != nil:
		return p.Pattern.String()
	case p.Foreign != nil:
		return ForeignConfig
	}
	return p.Conv.Config().String()
}

// Parameters returns the number of weights and biases.
func (p Parsed) Parameters() int {
	switch {
	case p.Pattern != nil:
		return p.Pattern.Parameters()
	case p.Foreign != nil:
		return int(p.Foreign.Info.Parameters)
	}
	return p.Conv.Config().Parameters()
}

// Metadata returns the free text in the file.
func (p Parsed) Metadata() map[string]string {
	switch {
	case p.Pattern != nil:
		return p.Pattern.Metadata
	case p.Foreign != nil:
		return p.Foreign.Info.Metadata
	}
	return p.Conv.Metadata
}

// Rules returns the games on which the network was trained, according to its file: the comma-separated games of evald.rules, or else the
// game of its description, or else those of the run of evald train that made it. It returns none if the file names none.
func (p Parsed) Rules() []string {
	if text := p.Metadata()["evald.rules"]; text != "" {
		return strings.Split(text, ",")
	}
	if p.Foreign != nil && p.Foreign.rules() != "" {
		return []string{p.Foreign.rules()}
	}
	var run struct {
		Config struct {
			Rules string `json:"rules"`
		} `json:"config"`
		Step int `json:"step"`
	}
	if err := json.Unmarshal([]byte(p.Metadata()["evald.training"]), &run); err != nil || run.Step == 0 || run.Config.Rules == "" {
		return []string{}
	}
	games, err := game.ParseMix(run.Config.Rules)
	if err != nil {
		return []string{run.Config.Rules} // callers that need the games report an invalid one
	}
	rules := make([]string, len(games))
	for i, p := range games {
		rules[i] = p.Rules.String()
	}
	return rules
}

// Range returns the ranges of games that the network supports in addition to those on which it was trained, according to its file. They may
// be invalid.
func (p Parsed) Range() []string {
	if text := p.Metadata()["evald.range"]; text != "" {
		return strings.Split(text, ",")
	}
	return nil
}

// Model is Any for callers that need a network of convolutions. Any other kind is an error.
func Model(nameOrPath string) (Stored, *net.Network, error) {
	s, p, err := Any(nameOrPath)
	if err == nil && p.Conv == nil {
		kind := "a network of pattern tables"
		if p.Foreign != nil {
			kind = "an ONNX file"
		}
		err = fmt.Errorf("model %s is %s, and this needs a network of convolutions of evald's own", nameOrPath, kind)
	}
	if err != nil {
		return Stored{}, nil, err
	}
	return s, p.Conv, nil
}

// Any finds a model by name, or else reads the safetensors or ONNX file at that path, and parses its network. If neither exists, the error
// lists the models.
func Any(nameOrPath string) (Stored, Parsed, error) {
	s, ok, err := Find(nameOrPath)
	if !ok {
		content, p, fileErr := File(nameOrPath)
		switch {
		case err != nil && fileErr != nil: // an unreadable store must not prevent reading a file
			return Stored{}, Parsed{}, err
		case errors.Is(fileErr, fs.ErrNotExist):
			return Stored{}, Parsed{}, fmt.Errorf("model %s is neither a file nor a shipped model (%s)%s", short.Quote(nameOrPath), strings.Join(models.Names(), ", "), inStore())
		case fileErr != nil:
			return Stored{}, Parsed{}, fileErr
		}
		base, sum := filepath.Base(nameOrPath), sha256.Sum256(content)
		name := strings.TrimSuffix(base, filepath.Ext(base))
		return Stored{models.Entry{Name: name, File: base, SHA256: hex.EncodeToString(sum[:]), Config: p.Config(), Rules: p.Rules(), Range: p.Range()}, nameOrPath, content}, p, nil
	}
	p, err := parse(s.Content)
	if err != nil {
		return Stored{}, Parsed{}, fmt.Errorf("%s: %w", nameOrPath, err)
	}
	if s.Config = cmp.Or(s.Config, p.Config()); s.Config != p.Config() {
		return Stored{}, Parsed{}, fmt.Errorf("model %s: the manifest says %s, the network is %s: import it again", s.Ref(), short.Text(s.Config), p.Config())
	}
	if !s.Trained && s.Path != "" { // earlier versions of evald imported networks whose files do not contain the rules
		s.Rules = p.Rules()
		s.Trained = len(s.Rules) > 0
	}
	return s, p, nil
}

// Bytes returns the maximum memory in bytes that the open model uses on the CPU, on any path.
func (s Stored) Bytes() (int64, error) {
	shape := s.Config
	if shape == ForeignConfig {
		if s.Content != nil || s.Path == "" {
			return foreignBytes * int64(len(s.Content)), nil
		}
		info, err := os.Stat(s.Path)
		if err != nil {
			return 0, err
		}
		return foreignBytes * info.Size(), nil
	}
	if pattern.IsShape(shape) {
		lanes, _, _, err := pattern.ParseShape(shape)
		return int64(pattern.RowCount()) * int64(lanes) * 2, err
	}
	c, err := net.ParseConfig(shape)
	return int64(c.Parameters()) * 24, err // packed for the kernels in up to three forms; Winograd's has four numbers per weight
}

// maxFile is larger than the file of any network.
const maxFile = 1 << 30

// File reads a safetensors or ONNX file and parses its network. The description of an ONNX file may be beside it, in NAME.yaml; File then
// adds it to the metadata of the returned content.
func File(path string) ([]byte, Parsed, error) {
	content, err := durable.ReadFile(path, maxFile)
	if err != nil {
		return nil, Parsed{}, fmt.Errorf("read network: %w", err)
	}
	if onnx.Is(content) {
		if content, err = describeForeign(path, content); err != nil {
			return nil, Parsed{}, err
		}
	}
	p, err := parse(content)
	if err != nil {
		return nil, Parsed{}, fmt.Errorf("%s: %w", path, err)
	}
	return content, p, nil
}

// inStore lists the models of the user's store for an error.
func inStore() string {
	if store, err := models.UserStore(); err == nil && store.Names() != "" {
		return fmt.Sprintf(" nor in %s (%s)", store.Dir(), store.Names())
	}
	return ""
}
