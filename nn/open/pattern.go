package open

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/heuristic"
	"github.com/evald/evald/nn/pattern"
)

// onPattern opens Options.Model if it is the path of a network of pattern tables; otherwise ok is false. Bitsquares answers
// the games that such a network does not know.
func onPattern(o Options) (e *Opened, ok bool, err error) {
	if _, named, err := Find(o.Model); named || err != nil {
		return nil, false, nil
	}
	content, err := readFile(o.Model)
	if err != nil || !pattern.Is(content) {
		return nil, false, nil // Model says what is wrong
	}
	n, err := pattern.Parse(content)
	if err == nil && o.Backend == GPU {
		err = errors.New("a network of pattern tables is computed by the backend cpu alone")
	}
	if err != nil {
		return nil, true, fmt.Errorf("%s: %w", o.Model, err)
	}
	last, err := heuristic.New(eval.Bitsquares)
	if err != nil {
		return nil, true, err
	}
	of := pattern.NewEvaluator(n)
	base := filepath.Base(o.Model)
	e = &Opened{
		Evaluator: of, Model: strings.TrimSuffix(base, filepath.Ext(base)), Network: true, Games: []game.Rules{game.Connect4},
		How: fmt.Sprintf("network %s on the cpu, path %s", n, of.Path()),
	}
	e.mirror(o)
	e.Evaluator = trained{e.Evaluator, last, e.Games}
	e.How += "; bitsquares on boards that it was not trained on"
	return e, true, nil
}
