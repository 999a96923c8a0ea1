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

// Stored is the file of a model, and what is known of it.
type Stored struct {
	models.Entry        // of a file outside of the store it has Name, File, SHA256, Config and Rules; Version is 0
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

// Lookup is Find without the content of the file.
func Lookup(ref string) (s Stored, ok bool, err error) {
	if entry, shipped := models.Find(ref); shipped {
		return Stored{Entry: entry}, true, nil
	}
	store, err := models.UserStore()
	if _, _, bad := models.ParseRef(ref); bad != nil || err != nil {
		return Stored{}, false, nil // it is no name, or there is no store: it may be a path
	}
	entry, ok, err := store.Find(ref)
	if err != nil || !ok {
		return Stored{}, false, err
	}
	return Stored{Entry: entry, Path: store.Path(entry)}, true, nil
}

// Parsed is the network of a model, which is of one of three kinds: the others are nil.
type Parsed struct {
	Conv    *net.Network     // of convolutions, by evald's own kernels
	Pattern *pattern.Network // of pattern tables
	Foreign *Foreign         // of an ONNX file
}

// parse reads a network of any kind.
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

// Open is Network for a network of any kind. AnyModel and bitsquares answer the games that one of pattern tables or of an ONNX file does
// not know.
func (p Parsed) Open(name string, o Options) (*Opened, error) {
	switch {
	case p.Pattern != nil:
		return ofTables(p.Pattern, name, o)
	case p.Foreign != nil:
		return p.Foreign.open(name, o)
	}
	return Network(p.Conv, name, o)
}

// Config is the shape of the network: "9x64", "pattern256x64x32", ForeignConfig.
func (p Parsed) Config() string {
	switch {
	case p.Pattern != nil:
		return p.Pattern.String()
	case p.Foreign != nil:
		return ForeignConfig
	}
	return p.Conv.Config().String()
}

// Parameters is how many numbers it has.
func (p Parsed) Parameters() int {
	switch {
	case p.Pattern != nil:
		return p.Pattern.Parameters()
	case p.Foreign != nil:
		return int(p.Foreign.Info.Parameters)
	}
	return p.Conv.Config().Parameters()
}

// Metadata is the free text of its file.
func (p Parsed) Metadata() map[string]string {
	switch {
	case p.Pattern != nil:
		return p.Pattern.Metadata
	case p.Foreign != nil:
		return p.Foreign.Info.Metadata
	}
	return p.Conv.Metadata
}

// Rules are the games that the network was trained on according to its file: those that evald.rules lists with commas, or else
// that of its description, or those of the run of evald train that made it. None: the file names none.
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
		return []string{run.Config.Rules} // whoever needs the games reports it
	}
	rules := make([]string, len(games))
	for i, p := range games {
		rules[i] = p.Rules.String()
	}
	return rules
}

// Range is the ranges of games that the network is for according to its file, beside those that it was trained on. They may not be valid.
func (p Parsed) Range() []string {
	if text := p.Metadata()["evald.range"]; text != "" {
		return strings.Split(text, ",")
	}
	return nil
}

// Model is Any for those who need a network of convolutions. The error of another one says so.
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

// Any finds a model by its name, or else reads the safetensors or ONNX file at that path, and parses its network. The error of a
// name that nobody knows lists the models that there are.
func Any(nameOrPath string) (Stored, Parsed, error) {
	s, ok, err := Find(nameOrPath)
	if !ok {
		content, p, fileErr := File(nameOrPath)
		switch {
		case err != nil && fileErr != nil: // a store that cannot be read does not keep anybody from reading a file
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
	if !s.Trained && s.Path != "" { // an earlier version of evald may have imported it without the rules in its file
		s.Rules = p.Rules()
		s.Trained = len(s.Rules) > 0
	}
	return s, p, nil
}

// Bytes is how many bytes of memory the model takes at most once it is open on the CPU, by any path.
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
	return int64(c.Parameters()) * 24, err // packed for the kernels in up to three forms, of which Winograd's has four numbers for one
}

// maxFile is more bytes than any network needs.
const maxFile = 1 << 30

// File reads a safetensors or ONNX file and parses the network in it. An ONNX file may have its description beside it, in NAME.yaml; the
// content has it in its metadata then.
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

// inStore names what the user's store has, for an error.
func inStore() string {
	if store, err := models.UserStore(); err == nil && store.Names() != "" {
		return fmt.Sprintf(" nor in %s (%s)", store.Dir(), store.Names())
	}
	return ""
}
