package open

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/short"
)

// Network is a model's network. Its methods do what is the same for all networks, and those of its
// Kind what is not. So callers ask the network, and need not know of which kind it is.
type Network struct{ Kind }

// Kind is a network of one kind. A kind that cannot do something returns an error with the reason.
//
// A new kind is a file that implements Kind and its form, and a line in kinds.
type Kind interface {
	What() string                // the kind in a sentence: "a network of pattern tables"
	Config() string              // the network's shape, such as "9x64"
	Parameters() int             // number of weights and biases
	Metadata() map[string]string // free text in the file
	About() [][2]string          // names and values for people: the shape, and what is special
	Only() string                // the only game that the network answers; "" if it answers each game that fits
	Runtime() string             // the library that computes the network, if this program's kernels do not
	Trains() error               // nil, or why evald does not train such networks: "which ..."
	Halves() error               // nil, or why there are no ONNX files with numbers of 16 bits: "which ..."

	Becomes(config string, seed uint64) error          // nil, or why training for another shape cannot begin with the network
	File() string                                      // models.OwnFile or models.ONNXFile: the name of the network's file in the store
	With(key, text string) ([]byte, error)             // the network's file with another metadata value
	ONNX(name string, halves bool) ([]byte, error)     // the network as an ONNX file; halves: with numbers of 16 bits, see Halves
	open(name string, o Options) (*Opened, error)      // opens the network on the devices of the options
	reference(name string, o Options) (*Opened, error) // opens the evaluator to which all others are compared
	fits() func(*game.Board) error                     // returns what reports whether a board fits; nil if all do
}

// form says how the files of a kind are recognised and read.
type form struct {
	is     func(file []byte) bool
	parse  func(file []byte) (Kind, error)
	beside func(path string, file []byte) ([]byte, error) // adds what is written beside a file; may be nil
	shape  func(config string) bool                       // whether a manifest's Config is one of this kind
	memory func(s Stored) (int64, error)                  // see Stored.Bytes
}

// kinds are all kinds of networks. A file is of the first kind that recognises it.
var kinds = []form{foreignForm, tablesForm, convForm}

func formOf(file []byte) form {
	return kinds[slices.IndexFunc(kinds, func(f form) bool { return f.is(file) })]
}

// Parse parses the file of a network of any kind.
func Parse(file []byte) (Network, error) {
	k, err := formOf(file).parse(file)
	return Network{k}, err
}

// Open opens the network, which must not change from then on; its name in answers is name. Options.Model and Exact are ignored, and the
// backend must compute networks. Errors are those of the function Open. If the network does not support all games, Options.Substitute
// decides what answers the others.
func (n Network) Open(name string, o Options) (*Opened, error) {
	if o.Backend = cmp.Or(o.Backend, Auto); !slices.Contains(Backends(), o.Backend) {
		return nil, fmt.Errorf("backend %s: must be one of %s for a network, and a heuristic's name such as bitsquares without one", short.Quote(o.Backend), strings.Join(Backends(), ", "))
	}
	if err := o.findGPUs(); err != nil {
		return nil, err
	}
	e, err := n.open(name, o)
	if err != nil {
		return nil, err
	}
	e.mirror(o)
	if n.Only() == "" {
		if fits := n.fits(); fits != nil {
			e.limit(func(b *game.Board) string {
				if err := fits(b); err != nil {
					return fmt.Sprintf("boards whose shapes fit it (%v)", err)
				}
				return ""
			})
		}
		return e, nil
	}
	only, err := game.ParseRules(n.Only())
	if err == nil {
		err = e.elsewhere([]game.Rules{only}, o)
	}
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// Rules returns the games on which the network was trained, according to its file: the comma-separated games of evald.rules, or else the
// only one that it answers, or else those of the run of evald train that made it. It returns none if the file names none.
func (n Network) Rules() []string {
	if text := n.Metadata()["evald.rules"]; text != "" {
		return strings.Split(text, ",")
	}
	if n.Trains() != nil && n.Only() != "" { // evald would have written on what it trained it
		return []string{n.Only()}
	}
	var run struct {
		Config struct {
			Rules string `json:"rules"`
		} `json:"config"`
		Step int `json:"step"`
	}
	if err := json.Unmarshal([]byte(n.Metadata()["evald.training"]), &run); err != nil || run.Step == 0 || run.Config.Rules == "" {
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
func (n Network) Range() []string {
	if text := n.Metadata()["evald.range"]; text != "" {
		return strings.Split(text, ",")
	}
	return nil
}

// Check evaluates a few positions of the games and of some others that the network answers, because a network with finite weights can still
// overflow.
func (n Network) Check(ctx context.Context, name string, games []string, o Options) error {
	of, err := n.reference(name, o)
	if err != nil {
		return err
	}
	defer of.Close()
	others := []string{"7x6x4", "9x5x4", "3x3x3free"}
	if only := n.Only(); only != "" {
		others, games = nil, []string{only}
	}
	e, fits := eval.New(of.Backend(), eval.Options{OwnRules: true}), n.fits()
	for i, text := range append(others, games...) {
		board, err := new(game.Boards).Parse(text)
		if err != nil {
			return err
		}
		if i < len(others) && fits != nil && fits(board) != nil {
			continue
		}
		batch := eval.NewBatch(board, 3)
		clear(batch.Pos)
		for i, before := range batch.Pos[:2] { // each position adds one move, in the leftmost open column
			batch.Pos[i+1] = before
			if legal := board.Legal(before); !legal.IsZero() && board.Result(before) == game.Ongoing {
				batch.Pos[i+1] = board.PlayCell(before, legal.LowBit())
			}
		}
		if err := e.Evaluate(ctx, batch); err != nil { // this also fails if an answer is not finite
			return fmt.Errorf("on %s it does not work: %w", text, err)
		}
	}
	return nil
}
