package open

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/heuristic"
	"github.com/evald/evald/engine/solver"
	"github.com/evald/evald/nn/cpu"
	"github.com/evald/evald/nn/gpu"
)

// Opened is a ready evaluator and its description. It is safe for concurrent use. The caller must close it, and must not use it after that.
type Opened struct {
	*eval.Evaluator

	Model   string // the model's name in answers, such as "default", "mine@3" or "bitsquares"
	Version int    // of a stored or shipped network; 0 for others
	Network bool   // a network answers, not a heuristic
	OnGPU   bool   // GPUs answer first
	NoGPU   bool   // the machine has GPUs that should answer first, but none works
	How     string // text for users: how answers are computed
	CPUPath string // path of the CPU's kernels; "" unless they compute a network of convolutions

	// Games are the games that the model answers, in the order of its manifest; nil means every
	// game whose shapes fit. Other games are an error or, with Options.Substitute, AnyModel answers
	// those in its range, and bitsquares the rest.
	Games []game.Rules

	mirrored bool // Model also contains this

	any     *anyNetwork  // nil unless Options.Substitute made AnyModel answer other games
	gpu     *gpu.Backend // nil if no GPU is used
	closers []io.Closer  // backends of ONNX Runtime, connections to services
	choice  cpu.Choice   // the choice of CPUPath; zero if the user named the path
}

// bitsquares returns the backend for games that no network supports.
func bitsquares() eval.Backend { return heuristic.Usual(eval.Bitsquares).New() }

func evaluator(b eval.Backend) *eval.Evaluator { return eval.New(b, eval.Options{}) }

// mirroredName is appended to the name of a model whose answers are means of a position and its mirror image.
const mirroredName = ", mirrored"

// mirror makes the evaluator answer with the mean of each position and its mirror image, if the options request it.
func (e *Opened) mirror(o Options) {
	if !o.Mirror {
		return
	}
	e.Evaluator = evaluator(eval.NewMirrored(e.Backend()))
	e.mirrored, e.Model = true, e.Model+mirroredName // a name of its own, because these are not the network's own answers
	e.How += ", the mean of each position and its mirror image"
}

// Prove applies Options.Exact to an open evaluator.
func (o *Opened) Prove(nodes solver.Nodes) {
	o.Evaluator = o.WithExact(eval.NewExact(nodes))
	o.How += fmt.Sprintf("; exact where %d nodes prove the result", nodes)
}

// Devices returns statistics of the evaluator's GPUs; nil if it uses none.
func (o *Opened) Devices() []gpu.DeviceStats {
	if o.gpu == nil {
		return nil
	}
	return o.gpu.Stats()
}

// ModelOn returns the name, as in answers, of the model that answers a game: Model or, with
// Options.Substitute, AnyModel or bitsquares.
func (o *Opened) ModelOn(r game.Rules) string {
	switch {
	case o.any == nil || slices.Contains(o.Games, r):
		return o.Model
	case o.any.ranges.Contains(r):
		if o.mirrored { // AnyModel is mirrored too
			return AnyModel + mirroredName
		}
		return AnyModel
	}
	return eval.Bitsquares.String()
}

// Close waits for batches in progress on GPUs and in ONNX Runtime, frees their memory, and ends connections. Further calls do nothing.
func (o *Opened) Close() error {
	var errs []error
	if o.gpu != nil {
		errs = append(errs, o.gpu.Close())
	}
	if o.any != nil {
		errs = append(errs, o.any.close())
	}
	for _, b := range o.closers {
		errs = append(errs, b.Close())
	}
	o.closers = nil
	return errors.Join(errs...)
}
