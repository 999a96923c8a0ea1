// Package prove lets a deterministic agent play one side of a game against all possible play of the other side.
//
// Run counts the positions in which the agent moves and the ends of its games, each once. It finds the first mistakes: the positions in
// which the agent gives away the result that it could reach from the start. If there are none, the agent is proved to reach that result.
//
// A layer is all positions with a given number of stones in which the agent is to move; so successive layers differ by two stones. There
// are three passes:
//
//	forward.go   layer by layer, the agent's moves and all replies to them; rows that exceed the memory are sorted on disk (sort.go)
//	backward.go  layer by layer from the last, the bad positions: the result is lost, or a mistake follows;
//	             then forward again, only through bad positions and up to the first mistake on each path
//	rows.go      the files of both
//
// A position is bad only if after some reply the agent does not reach the result. So the solver searches few positions: those from which
// such a reply leads to a lost position. If it finds that another move keeps the result, the agent's move is a mistake.
//
// # The folder of a run
//
// NN.positions contains the positions of a layer, NN.moves the agent's moves there, NN.bad its bad positions, and mistakes the first
// mistakes. steps.jsonl is the journal: the files of each layer in it are complete, and are not computed again. At the end, the run removes
// all these files except the journal. The records of the mistakes, mistakes-NNNNN.parquet, and of a sample of each layer,
// sample-NN.parquet, also remain.
//
// If the agent is symmetric, a position and its mirror image count as one.
package prove

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/jobs"
	"github.com/evald/evald/engine/labels"
	"github.com/evald/evald/engine/solver"
)

// Options of a run. A resumed run must have the same options, except for Memory and Progress.
type Options struct {
	Board     *game.Board   // of at most 64 bits
	Agents    []agent.Agent // one copy of the agent for each goroutine
	Symmetric bool          // the agent plays mirrored moves in mirrored positions
	Book      solver.Book   // for the solver; may be nil
	Memory    int64         // bytes for positions; agents and their solvers use further memory
	Sample    int           // number of positions of each layer to store as records, or all if there are fewer

	// Progress, if not nil, is called often: done of the layer's total positions are finished.
	Progress func(work string, done, total int64)
}

// Ends is numbers of final positions, by the agent's result.
type Ends struct {
	Won   int64 `json:"won"`
	Drawn int64 `json:"drawn"`
	Lost  int64 `json:"lost"`
}

// Layer is the result of a run for the positions with a given number of stones.
type Layer struct {
	Stones    int   `json:"stones"`
	Positions int64 `json:"positions"` // with the agent to move
	Ends
	Mistakes int64 `json:"mistakes"` // number of first mistakes: the first of a path
}

// Report is the result of a run.
type Report struct {
	Result int     `json:"result"` // the result that the agent can reach: 1 win, 0 draw, -1 loss
	Held   bool    `json:"held"`   // the agent reaches it against all possible play
	Layers []Layer `json:"layers"` // by stones; those without positions and ends are omitted
	All    Layer   `json:"all"`    // the sums; Stones is that of the start
}

// step is a line of the journal.
type step struct {
	Pass      string  `json:"pass"`
	Stones    int     `json:"stones"`              // of the layer, or of the start
	Result    int     `json:"result,omitempty"`    // start: the result that the agent can reach
	Positions int64   `json:"positions,omitempty"` // forward: of the layer; backward: the bad ones
	Next      int64   `json:"next,omitempty"`      // forward: number of positions of the next layer
	Ends      [2]Ends `json:"ends,omitzero"`       // ends with one more stone, and with two
	Mistakes  []int64 `json:"mistakes,omitempty"`  // first: by stones
}

// The passes of a run. A step of the last pass completes the run.
const (
	passStart    = "start"
	passForward  = "forward"
	passBackward = "backward"
	passFirst    = "first"
	passRecords  = "records"
)

// proof is a run in progress.
type proof struct {
	Options
	dir     *durable.Dir
	start   game.Position
	result  int
	steps   []step
	journal *durable.Journal
	workers []worker
}

// worker is the memory of one goroutine.
type worker struct {
	solver *solver.Solver // nil until it is needed
	after  []game.Position
}

// Run plays from start, in which the agent is to move or the game is over. It creates the run's folder dir, or resumes an interrupted or
// killed run there; the caller must ensure that the run had the same options. If ctx ends, the error wraps ctx.Err().
func Run(ctx context.Context, dir string, start game.Position, o Options) (report *Report, err error) {
	if o.Board.Wide() {
		return nil, fmt.Errorf("the board %v has too many positions: (rows + 1) * columns may be at most 64", o.Board.Rules())
	}
	folder, err := durable.OpenDir(dir)
	if err != nil {
		return nil, err
	}
	p := &proof{Options: o, dir: folder, workers: make([]worker, len(o.Agents))}
	p.start = p.canonical(start)
	defer func() { err = errors.Join(err, folder.Close()) }()
	path := folder.Path("steps.jsonl")
	p.steps, err = durable.ReadJournal[step](path, "and its work is done again")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if p.journal, err = durable.BeginJournal(path, p.steps); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.journal.Close()) }()
	for _, pass := range []func(context.Context) error{p.first, p.forward, p.backward, p.mistakes, p.records} {
		if err := pass(ctx); err != nil {
			return nil, err
		}
	}
	return p.report(), p.clean()
}

// canonical returns the position that represents p.
func (p *proof) canonical(at game.Position) game.Position {
	if p.Symmetric {
		at, _ = p.Board.Canonical(at)
	}
	return at
}

// find returns the step of a pass at a layer, or nil if the step is not done.
func (p *proof) find(pass string, stones int) *step {
	for i := range p.steps {
		if s := &p.steps[i]; s.Pass == pass && s.Stones == stones {
			return s
		}
	}
	return nil
}

// done records a step. Its files must be complete.
func (p *proof) done(s step) error {
	if err := p.dir.Sync(); err != nil {
		return err
	}
	p.steps = append(p.steps, s)
	return errors.Join(p.journal.Add(s), p.journal.Sync())
}

// path is the path of a layer's file.
func (p *proof) path(stones int, what string) string {
	return p.dir.Path(fmt.Sprintf("%02d.%s", stones, what))
}

func (p *proof) show(work string, done, total int64) {
	if p.Progress != nil {
		p.Progress(work, done, total)
	}
}

// solve returns the result of a position for its side to move, the agent.
func (p *proof) solve(ctx context.Context, w *worker, at game.Position) (int, error) {
	s, err := p.solverOf(w)
	if err != nil {
		return 0, err
	}
	r, err := s.WDL(ctx, at)
	return r.Score, err
}

// solverOf returns a worker's solver. The first call creates it.
func (p *proof) solverOf(w *worker) (s *solver.Solver, err error) {
	if w.solver == nil {
		w.solver, err = solver.New(p.Board, solver.Options{Book: p.Book})
	}
	return w.solver, err
}

// first finds the result that the agent can reach, and writes the first layer.
func (p *proof) first(ctx context.Context) error {
	if s := p.find(passStart, p.start.Plies()); s != nil {
		p.result = s.Result
		return nil
	}
	p.show("the start", 0, 1)
	var err error
	if p.result, err = p.solve(ctx, &p.workers[0], p.start); err != nil {
		return err
	}
	w, err := create(p.path(p.start.Plies(), "positions"))
	if err != nil {
		return err
	}
	if p.Board.Result(p.start) == game.Ongoing {
		if _, err := w.Write(rowOf(p.start).appendTo(nil)); err != nil {
			w.abort()
			return err
		}
	}
	if err := w.close(); err != nil {
		return err
	}
	return p.done(step{Pass: passStart, Stones: p.start.Plies(), Result: p.result})
}

// perFile is the number of mistakes in a file of records.
const perFile = 10_000

// records writes records of the mistakes with the exact results of all moves. It assumes that existing files are complete.
func (p *proof) records(ctx context.Context) error {
	if p.find(passRecords, p.start.Plies()) != nil {
		return nil
	}
	r, err := open(p.dir.Path("mistakes"), rowBytes)
	if err != nil {
		return err
	}
	defer r.Close()
	files, total := int((r.left+perFile-1)/perFile), r.left
	buf := make([]byte, perFile*rowBytes*len(p.workers))
	for first := 0; first < files; first += len(p.workers) {
		p.show("records of mistakes", int64(first)*perFile, total)
		rows, err := r.next(buf)
		if err != nil {
			return err
		}
		err = jobs.Each(ctx, len(p.workers), min(len(p.workers), files-first), func(ctx context.Context, k, i int) error {
			path := p.dir.Path(fmt.Sprintf("mistakes-%05d.parquet", first+i))
			if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			var at []game.Position
			for j := i * perFile * rowBytes; j < min((i+1)*perFile*rowBytes, len(rows)); j += rowBytes {
				at = append(at, rowAt(rows[j:]).position())
			}
			return p.write(ctx, k, at, (first+i)*perFile, path)
		})
		if err != nil {
			return err
		}
	}
	if err := p.samples(ctx); err != nil {
		return err
	}
	return p.done(step{Pass: passRecords, Stones: p.start.Plies()})
}

// write creates a file of records of positions, with the exact results of their moves. It uses the memory of worker k. Games are numbered
// from first.
func (p *proof) write(ctx context.Context, k int, at []game.Position, first int, path string) error {
	s, err := p.solverOf(&p.workers[k])
	if err != nil {
		return err
	}
	_, err = labels.WriteThese(ctx, s, at, first, path)
	return err
}

// samples writes records of a sample of each layer. It assumes that existing files are complete.
func (p *proof) samples(ctx context.Context) error {
	var layers []step
	for _, s := range p.steps {
		if s.Pass == passForward && s.Positions > 0 && p.Sample > 0 {
			layers = append(layers, s)
		}
	}
	return jobs.Each(ctx, len(p.workers), len(layers), func(ctx context.Context, k, i int) error {
		p.show("records of a sample", int64(i), int64(len(layers)))
		path := p.dir.Path(fmt.Sprintf("sample-%02d.parquet", layers[i].Stones))
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		at, err := p.sample(layers[i].Stones)
		if err != nil {
			return err
		}
		return p.write(ctx, k, at, 0, path)
	})
}

// sample returns Sample of a layer's positions, evenly spaced in the layer's order, or all if there are fewer.
func (p *proof) sample(stones int) (at []game.Position, err error) {
	r, err := open(p.path(stones, "positions"), rowBytes)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	buf := make([]byte, fileBuffer)
	some, all := min(int64(p.Sample), r.left), r.left
	for row := int64(0); r.left > 0; {
		rows, err := r.next(buf)
		if err != nil {
			return nil, err
		}
		for ; len(rows) > 0; rows, row = rows[rowBytes:], row+1 {
			if (row+1)*some/all > row*some/all {
				at = append(at, rowAt(rows).position())
			}
		}
	}
	return at, nil
}

// clean removes the files of a complete run.
func (p *proof) clean() error {
	for _, name := range []string{"*.positions", "*.moves", "*.bad", "mistakes", "runs"} {
		paths, err := filepath.Glob(p.dir.Path(name))
		if err != nil {
			return err
		}
		for _, path := range paths {
			if err := os.RemoveAll(path); err != nil {
				return err
			}
		}
	}
	return nil
}

// report sums up the steps.
func (p *proof) report() *Report {
	layers := make([]Layer, p.Board.Cells()+3)
	r := &Report{Result: p.result, Held: true, All: Layer{Stones: p.start.Plies()}}
	layers[p.start.Plies()].add(p.end(p.start))
	for _, s := range p.steps {
		switch s.Pass {
		case passForward:
			layers[s.Stones].Positions = s.Positions
			for i, e := range s.Ends {
				layers[s.Stones+1+i].Ends.add(e)
			}
		case passBackward:
			r.Held = r.Held && (s.Stones > p.start.Plies() || s.Positions == 0)
		case passFirst:
			for stones, n := range s.Mistakes {
				layers[stones].Mistakes = n
			}
		}
	}
	for stones, l := range layers {
		if l == (Layer{}) {
			continue
		}
		r.All.Positions, r.All.Mistakes = r.All.Positions+l.Positions, r.All.Mistakes+l.Mistakes
		r.All.Ends.add(l.Ends)
		l.Stones = stones
		r.Layers = append(r.Layers, l)
	}
	return r
}

func (e *Ends) add(o Ends) { e.Won, e.Drawn, e.Lost = e.Won+o.Won, e.Drawn+o.Drawn, e.Lost+o.Lost }

// end returns the count of a final position, or zeros if the game is not over.
func (p *proof) end(at game.Position) Ends {
	switch p.Board.Result(at) {
	case game.Draw:
		return Ends{Drawn: 1}
	case game.Loss:
		if (at.Plies()-p.start.Plies())%2 == 0 { // the agent is to move
			return Ends{Lost: 1}
		}
		return Ends{Won: 1}
	}
	return Ends{}
}

// score is the agent's result in a final position: 1, 0 or -1.
func (e Ends) score() int { return int(e.Won - e.Lost) }
