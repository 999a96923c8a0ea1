package open

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/heuristic"
	"github.com/evald/evald/engine/short"
	"github.com/evald/evald/nn/pattern"
)

// Pattern finds a model by its name, or else reads the file at that path, if it is a network of pattern tables; otherwise ok
// is false, and Model has it or says what is wrong.
func Pattern(nameOrPath string) (s Stored, n *pattern.Network, ok bool, err error) {
	s, named, err := Find(nameOrPath)
	if err == nil && !named {
		base := filepath.Base(nameOrPath)
		s.Name, s.File, s.Path, s.Rules = strings.TrimSuffix(base, filepath.Ext(base)), base, nameOrPath, []string{}
		s.Content, err = readFile(nameOrPath)
	}
	if err != nil || !pattern.Is(s.Content) {
		return Stored{}, nil, false, nil
	}
	n, err = pattern.Parse(s.Content)
	if err != nil {
		return s, nil, true, fmt.Errorf("%s: %w", nameOrPath, err)
	}
	if s.Config == "" {
		sum := sha256.Sum256(s.Content)
		s.Config, s.SHA256 = n.String(), hex.EncodeToString(sum[:])
	} else if s.Config != n.String() {
		return s, nil, true, fmt.Errorf("model %s: the manifest says %s, the network is %s: import it again", s.Ref(), short.Text(s.Config), n)
	}
	return s, n, true, nil
}

// onPattern opens Options.Model if it is a network of pattern tables; otherwise ok is false. Bitsquares answers the games
// that such a network does not know.
func onPattern(o Options) (e *Opened, ok bool, err error) {
	s, n, ok, err := Pattern(o.Model)
	if !ok || err != nil {
		return nil, ok, err
	}
	if o.Backend == GPU {
		return nil, true, fmt.Errorf("%s: a network of pattern tables is computed by the backend cpu alone", o.Model)
	}
	last, err := heuristic.New(eval.Bitsquares)
	if err != nil {
		return nil, true, err
	}
	if text := s.Warning(); text != "" {
		o.note("%s", text)
	}
	of := pattern.NewEvaluator(n)
	e = &Opened{
		Evaluator: of, Model: s.Label(), Network: true, Games: []game.Rules{game.Connect4},
		How: fmt.Sprintf("network %s on the cpu, path %s", n, of.Path()),
	}
	e.mirror(o)
	e.Evaluator = trained{e.Evaluator, last, e.Games}
	e.How += "; bitsquares on boards that it was not trained on"
	return e, true, nil
}
