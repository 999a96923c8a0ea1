package learn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"

	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/score"
	"github.com/evald/evald/engine/selfplay"
	"github.com/evald/evald/nn/open"
	"github.com/evald/evald/nn/train"
	"github.com/evald/evald/nn/train/tensorboard"
)

// Evaluators opens the network in a file; its name in answers is name. The caller must call close when it no longer needs the evaluator.
type Evaluators func(file, name string) (e *eval.Evaluator, close func(), err error)

// Run is a run in a folder. The caller must close it.
type Run struct {
	Config     Config
	Changed    []Change     // what Open has changed in the run's configuration
	Log        func(string) // if not nil, is called with messages that should stay visible, such as that the disk is full
	evaluators Evaluators
	progress   func(string)  // called many times per second with a description of the current work
	player     Player        // nil if this process plays the games
	by         train.Compute // what computes the training steps

	saying sync.Mutex // held while Log is called

	mix         game.Mix
	boards      []*game.Board // boards of the mix's games, in order
	dir         *durable.Dir
	positions   []score.Position
	generations []Generation
	changes     []Change // all changes of the run's configuration, in order

	// Used only in a continuous run (continuous.go).
	ahead *ahead                  // nil if no games are played
	fail  context.CancelCauseFunc // cancels Learn's context
	both  *both                   // nil if the run is not continuous
}

// Open begins a run, or resumes the run in the folder, which must have the same configuration
// except for settings that may change, whose changes it records. progress is called with
// descriptions of the current work. by selects what computes the training steps.
func Open(dir string, c Config, evaluators Evaluators, by train.Compute, progress func(string)) (r *Run, err error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	r = &Run{Config: c, evaluators: evaluators, by: by, progress: progress}
	if c.Continuous && progress != nil {
		r.both = &both{say: progress}
		r.progress = r.both.learn
	}
	if r.tables() && by.Python != "" {
		return nil, fmt.Errorf("learn: network %s: networks of pattern tables learn without PyTorch", c.Network)
	}
	if r.mix, err = game.ParseMix(c.Rules); err != nil {
		return nil, err
	}
	for _, p := range r.mix {
		board, err := game.NewBoard(p.Rules)
		if err != nil {
			return nil, err
		}
		r.boards = append(r.boards, board)
	}
	if r.dir, err = durable.OpenDir(dir); err != nil {
		return nil, err
	}
	if !exists(r.path(configFile)) { // copy the network first, so that any run that has a configuration can be resumed without --init
		err = r.keepInitial()
	}
	if err == nil {
		err = r.readGenerations()
	}
	if err == nil {
		err = r.keepConfig()
	}
	// A killed process may have left unfinished files. Self-play and training clean up their own folders.
	folders := []string{r.path("networks")}
	for _, b := range r.boards {
		folders = append(folders, r.path("positions", r.sub(b)))
	}
	for _, dir := range folders {
		if err == nil {
			err = os.MkdirAll(dir, 0o755)
		}
		if err == nil {
			err = durable.Sweep(dir)
		}
	}
	if err == nil {
		err = r.keepInitial()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", dir, err), r.Close())
	}
	return r, nil
}

// Player plays the missing games of a batch, as selfplay.Run does. It is called with every batch of an incomplete generation, in order,
// including batches none of whose games are missing. Calls do not overlap. A continuous run also calls it while a network is trained and
// measured.
type Player func(context.Context, selfplay.Batch) error

// PlayBy makes p play the games. Otherwise this process plays them before each training.
func (r *Run) PlayBy(p Player) { r.player = p }

// Close releases the folder for other processes.
func (r *Run) Close() error { return r.dir.Close() }

func (r *Run) path(names ...string) string { return r.dir.Path(names...) }

func (r *Run) folder(generation int, names ...string) string {
	return r.path(append([]string{fmt.Sprintf("%03d", generation)}, names...)...)
}

// sub returns the name of a board's own folder; "" in a run on one board, which has no such folders.
func (r *Run) sub(b *game.Board) string {
	if len(r.boards) == 1 {
		return ""
	}
	return b.Rules().String()
}

// of returns a board's name for progress reports; "" in a run on one board.
func (r *Run) of(b *game.Board) string {
	if len(r.boards) == 1 {
		return ""
	}
	return " of " + b.Rules().String()
}

// share divides n among the boards by their shares; each gets at least one.
func (r *Run) share(n int) []int {
	counts := r.mix.Counts(n)
	for i := range counts {
		counts[i] = max(1, counts[i])
	}
	return counts
}

// Generations returns the complete generations.
func (r *Run) Generations() []Generation { return r.generations }

func (r *Run) readGenerations() error {
	for {
		n := len(r.generations)
		text, err := os.ReadFile(r.folder(n, "generation.json"))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		var g Generation
		if err := durable.Unmarshal(text, &g); err != nil {
			return fmt.Errorf("%s: %w: remove it, and the generation is measured again", r.folder(n, "generation.json"), err)
		}
		if g.Number != n {
			return fmt.Errorf("%s is of generation %d", r.folder(n, "generation.json"), g.Number)
		}
		r.generations = append(r.generations, g)
	}
}

// Learn runs until Config.Generations are complete, and calls report for each one. If ctx ends,
// Learn stops; only unfinished games and the training steps since the last checkpoint are lost. If
// the disk is full, Learn waits for room and continues; if it was full when report was called, it
// calls report again.
func (r *Run) Learn(ctx context.Context, report func(Generation) error) error {
	inner, fail := context.WithCancelCause(ctx)
	r.fail = fail
	err := r.learn(inner, report)
	if err != nil && ctx.Err() == nil && inner.Err() != nil { // the play of games has failed, which cancelled everything else
		err = context.Cause(inner)
	}
	fail(nil)
	if r.ahead != nil {
		<-r.ahead.done
		r.ahead = nil
	}
	return err
}

func (r *Run) learn(ctx context.Context, report func(Generation) error) (err error) {
	var events *tensorboard.Writer
	defer func() {
		if events != nil {
			err = errors.Join(err, events.Close())
		}
	}()
	// keep writes everything that follows from the complete generations. A killed process may not
	// have done so.
	keep := func() (err error) {
		if err := r.promote(); err != nil {
			return err
		}
		r.updateRatings()
		if err := r.writeLines(); err != nil || events != nil {
			return err
		}
		events, err = r.openCurves()
		return err
	}
	if err := r.withRoom(ctx, func() error { return r.openPositions(ctx) }); err != nil {
		return err
	}
	if err := r.withRoom(ctx, keep); err != nil {
		return err
	}
	for len(r.generations) < r.Config.Generations {
		var g Generation
		err := r.withRoom(ctx, func() (err error) {
			g, err = r.generation(ctx, len(r.generations), len(r.generations)+1 < r.Config.Generations)
			return err
		})
		if err != nil {
			return fmt.Errorf("generation %d: %w", len(r.generations), err)
		}
		r.generations = append(r.generations, g)
		if err := r.withRoom(ctx, keep); err != nil {
			return err
		}
		g = r.generations[len(r.generations)-1]
		err = r.withRoom(ctx, func() (err error) {
			if events == nil {
				return keep()
			}
			if err = events.Scalars(g.Number, curves(g)...); err != nil { // the file may have a part of them
				err, events = errors.Join(err, events.Close()), nil
			}
			return err
		})
		if err != nil {
			return err
		}
		if report == nil {
			continue
		}
		if err := r.withRoom(ctx, func() error { return report(g) }); err != nil {
			return err
		}
	}
	return nil
}

// best returns the number of the network that was promoted last, or beginning.
func (r *Run) best() int {
	for n := len(r.generations) - 1; n >= 0; n-- {
		if r.generations[n].Promoted {
			return n
		}
	}
	return beginning
}

// noNetwork reports whether no network can play games yet, so that the bitsquares heuristic must play them.
func (r *Run) noNetwork() bool { return r.best() == beginning && r.Config.Init == "" }

func name(generation int) string {
	if generation == beginning {
		return "init"
	}
	return fmt.Sprintf("%03d", generation)
}

func (r *Run) network(generation int) string { return r.folder(generation, "train", train.NetworkFile) }

// promoted returns the path of a generation's promoted network, or of the network with which the run began.
func (r *Run) promoted(generation int) string {
	return r.path("networks", name(generation)+".safetensors")
}

// promote compares the promoted networks with the trained ones, and copies those that are missing or differ.
func (r *Run) promote() error {
	for n, g := range r.generations {
		if !g.Promoted {
			continue
		}
		if err := r.copyNetwork(r.network(n), r.promoted(n)); err != nil {
			return err
		}
	}
	if r.noNetwork() {
		return nil
	}
	return r.copyNetwork(r.promoted(r.best()), r.path("best.safetensors"))
}

// copyNetwork copies a network's file unless an equal copy exists.
func (r *Run) copyNetwork(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	there, err := os.ReadFile(to)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil && bytes.Equal(there, text) {
		return nil
	}
	if _, err := open.Parse(text); err != nil { // the file is damaged
		return fmt.Errorf("%s: %w", from, err)
	}
	return durable.WriteFile(to, text)
}
