package library

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/evald/evald/cmd/evald/internal/remote"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/heuristic"
	"github.com/evald/evald/engine/solver"
	"github.com/evald/evald/nn/open"
	"github.com/evald/evald/nn/ort"
)

// Options of an evaluator, as JSON. Zero values mean the same as in open.Options.
type Options struct {
	Model   string       `json:"model"`
	Backend string       `json:"backend"`
	CPUPath string       `json:"cpu_path"`
	Mirror  bool         `json:"mirror"`
	Exact   solver.Nodes `json:"exact"`

	ORT     map[string]string `json:"ort"`     // settings of ONNX Runtime, see ort.OptionsOf
	Program string            `json:"program"` // executable file of this library or program, for trials in other processes (open.Options); "": none
}

// ErrClosed is the error of calls on a closed evaluator.
var ErrClosed = errors.New("the evaluator is closed")

// Evaluator evaluates positions. All its methods, also Close, are safe for concurrent use.
type Evaluator struct {
	evaluator *eval.Evaluator
	about     About

	using  sync.RWMutex // held for reading by calls in progress
	closed bool
	close  func() error
	rows   *sync.Pool // of *[]eval.Source; outside, as that of eval.Cache
}

// About describes an evaluator.
type About struct {
	Model   string   `json:"model"`
	How     string   `json:"how"`
	Network bool     `json:"network"`
	Games   []string `json:"games"` // games that the model supports; empty: all
	Notes   []string `json:"notes"` // messages for the user
}

// open returns the options of package open.
func (o Options) open() open.Options {
	of := open.Options{
		Model: o.Model, Backend: o.Backend, CPUPath: o.CPUPath, Mirror: o.Mirror, Exact: max(0, o.Exact), ORT: ort.OptionsOf(o.ORT), Service: remote.Open,
	}
	if o.Program != "" {
		of.Trial, of.GPUTrial = []string{o.Program, "onnx-trial"}, []string{o.Program, "gpu-trial"}
	}
	return of
}

// Open opens an evaluator. options is Options as JSON.
func Open(options string) (*Evaluator, error) {
	var o Options
	if err := decode(options, &o); err != nil {
		return nil, fmt.Errorf("options of the evaluator: %w", err)
	}
	e := &Evaluator{rows: new(sync.Pool)}
	how := o.open()
	how.Note = func(text string) { e.about.Notes = append(e.about.Notes, text) }
	opened, err := open.Open(how)
	if err != nil {
		return nil, err
	}
	e.evaluator, e.close = opened.Evaluator, opened.Close
	e.about.Model, e.about.How, e.about.Network = opened.Model, opened.How, opened.Network
	for _, r := range opened.Games {
		e.about.Games = append(e.about.Games, r.String())
	}
	return e, nil
}

// About returns the description of the evaluator as JSON.
func (e *Evaluator) About() string {
	text, err := json.Marshal(e.about)
	if err != nil {
		panic(err) // cannot happen: strings always marshal
	}
	return string(text)
}

// Close waits for the calls in progress, and releases the evaluator's resources.
func (e *Evaluator) Close() error {
	e.using.Lock()
	defer e.using.Unlock()
	if e.closed {
		return nil
	}
	e.closed = true
	return e.close()
}

// use keeps the evaluator open until done is called.
func (e *Evaluator) use() (done func(), err error) {
	e.using.RLock()
	if e.closed {
		e.using.RUnlock()
		return nil, ErrClosed
	}
	return e.using.RUnlock, nil
}

// sources lists all sources by their codes in Evaluate. Codes are only valid within a process; Sources returns their names.
var sources = func() []eval.Source {
	all := eval.Sources()
	for _, h := range heuristic.All() {
		all = append(all, h.Source)
	}
	return all
}()

// Sources returns the name of each code of Evaluate.
func Sources() []string {
	names := make([]string, len(sources))
	for i, s := range sources {
		names[i] = s.String()
	}
	return names
}

// Evaluate writes the answers of eval.Evaluator into wdl [N,3] and policy [N,A], and the codes of their sources into who [N]. With raw they
// are those of eval.Evaluator.Raw. An error about a position is a *RowError.
func (e *Evaluator) Evaluate(ctx context.Context, b *game.Board, positions []game.Position, raw bool, wdl, policy []float32, who []uint8) error {
	if err := Check(b, positions); err != nil {
		return err
	}
	done, err := e.use()
	if err != nil {
		return err
	}
	defer done()
	rows, _ := e.rows.Get().(*[]eval.Source)
	if rows == nil || cap(*rows) < len(positions) {
		s := make([]eval.Source, len(positions))
		rows = &s
	}
	defer e.rows.Put(rows)
	batch := eval.Batch{Board: b, Pos: positions, WDL: wdl, Policy: policy, Source: (*rows)[:len(positions)]}
	by := e.evaluator
	if raw {
		by = by.Raw()
	}
	if err := by.Evaluate(ctx, &batch); err != nil {
		return err
	}
	for i, s := range batch.Source {
		who[i] = code(s)
	}
	return nil
}

// code returns the index of a source in sources.
func code(s eval.Source) uint8 {
	return uint8(slices.Index(sources, s))
}
