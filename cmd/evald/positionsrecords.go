package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/jobs"
	"github.com/evald/evald/engine/labels"
	"github.com/evald/evald/engine/sample"
	"github.com/evald/evald/engine/solver"
	"github.com/evald/evald/engine/solver/book"
	"github.com/evald/evald/nn/open"
)

// recordsConfig has the settings that all files of a folder share. A later command with the same settings may add files.
type recordsConfig struct {
	Rules string `json:"rules"`
	Seed  uint64 `json:"seed"`
	Plies string `json:"plies,omitempty"`
	Nodes uint64 `json:"nodes,omitempty"`
	From  string `json:"from,omitempty"` // folder of the records whose positions are taken; empty if positions are drawn

	Importance string `json:"importance,omitempty"` // the checksum of the network's file
}

// recordFile is the path of a file of records and the function that makes it.
type recordFile struct {
	path string
	make func(context.Context, *solver.Solver) (records int, err error)
}

// recordFiles returns all files of the run. from is the folder of FILES, or "" if positions are drawn.
func (c *positionsCmd) recordFiles(board *game.Board, learner *eval.Evaluator) (from string, all []recordFile, err error) {
	options := labels.Options{Seed: c.Seed, Learner: learner}
	if c.Plies != "" {
		if options.Plies, err = parsePlies(c.Plies, board.Cells()-1); err == nil && options.Plies.To == 0 {
			err = errors.New("must include more than the empty board")
		}
		if err != nil {
			return "", nil, usage("--plies %w", err)
		}
	}
	for _, file := range c.Files {
		folder, err := filepath.Abs(filepath.Dir(file))
		if err != nil {
			return "", nil, err
		}
		if from != "" && folder != from {
			return "", nil, fmt.Errorf("%s: is not in %s as the others are: take it by another command, to another folder", file, from)
		}
		if from = folder; from == c.Out {
			return "", nil, fmt.Errorf("%s: is in the folder of the files to make: name another one with -o", file)
		}
		path := filepath.Join(c.Out, filepath.Base(file))
		if slices.ContainsFunc(all, func(f recordFile) bool { return f.path == path }) {
			continue // the file is named twice
		}
		all = append(all, recordFile{path, func(ctx context.Context, s *solver.Solver) (int, error) {
			return labels.WriteFrom(ctx, s, file, options, path)
		}})
	}
	if len(c.Files) > 0 {
		return from, all, nil
	}
	for _, name := range c.Kinds {
		if name == bookKind {
			if learner != nil {
				return "", nil, usage("--kinds %s takes no --importance: its results are known", bookKind)
			}
			files, err := c.bookFiles(board, options.Plies)
			if err != nil {
				return "", nil, err
			}
			all = append(all, files...)
			continue
		}
		kind := sample.Kind(name)
		for number := range (c.Count + labels.PerFile - 1) / labels.PerFile {
			path := labels.Path(c.Out, kind, number)
			all = append(all, recordFile{path, func(ctx context.Context, s *solver.Solver) (int, error) {
				return labels.Write(ctx, s, kind, options, number, path)
			}})
		}
	}
	return "", all, nil
}

// bookKind is the kind that takes all positions of the first plies.
const bookKind = "book"

// bookFiles returns the files of the positions whose results ship, one for each number of stones.
func (c *positionsCmd) bookFiles(board *game.Board, plies labels.Plies) (all []recordFile, err error) {
	results := book.Results(board.Rules())
	if results == nil {
		return nil, fmt.Errorf("--kinds %s: the results of no first plies of %v ship", bookKind, board.Rules())
	}
	if plies == (labels.Plies{}) {
		plies.To = results.Plies()
	}
	if plies.To > results.Plies() {
		return nil, fmt.Errorf("--plies %s: the results of %v ship for up to %d stones: ask for no more of --kinds %s", c.Plies, board.Rules(), results.Plies(), bookKind)
	}
	for stones := plies.From; stones <= plies.To; stones++ {
		path := labels.Path(c.Out, bookKind, stones)
		all = append(all, recordFile{path, func(ctx context.Context, s *solver.Solver) (int, error) {
			return labels.WriteBook(ctx, s, results, stones, path)
		}})
	}
	return all, nil
}

// makeRecords makes the missing files of records, or a part of them, one at a time on each thread.
func (c *positionsCmd) makeRecords(ctx context.Context, s streams, board *game.Board, known solver.Book) error {
	learner, checksum, closeLearner, err := openAdviser("importance", c.Importance, []*game.Board{board}, s.err)
	if err != nil {
		return err
	}
	defer closeLearner()
	from, all, err := c.recordFiles(board, learner)
	if err != nil {
		return err
	}
	if err := keepConfig(ctx, filepath.Join(c.Out, "positions.json"), recordsConfig{c.Rules, c.Seed, c.Plies, c.nodes(), from, checksum}); err != nil {
		return err
	}
	all = ofPart(all, c.Part)
	var todo []recordFile
	for _, f := range all {
		if _, err := os.Stat(f.path); errors.Is(err, fs.ErrNotExist) {
			todo = append(todo, f)
		} else if err != nil {
			return err
		}
	}
	there := len(all) - len(todo)
	progress := newProgress(s.err, 0)
	defer progress.clear()
	show := progress.counting("files of records", there, len(all))
	solvers := make([]*solver.Solver, runtime.GOMAXPROCS(0))
	var mu sync.Mutex // guards made and records
	made, records := 0, 0
	err = jobs.Each(ctx, len(solvers), len(todo), func(ctx context.Context, worker, i int) (err error) {
		if solvers[worker] == nil {
			if solvers[worker], err = solver.New(board, solver.Options{Book: known, Nodes: c.nodes()}); err != nil {
				return err
			}
		}
		n, err := todo[i].make(ctx, solvers[worker])
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		made, records = made+1, records+n
		show(there + made)
		return nil
	})
	progress.clear()
	if err := orInterrupted(ctx, err, s.err, "; %d of %d files are complete; the same command resumes it", there+made, len(all)); err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.out, "%s: %d files of records, %d of them from before; %d records were made now\n", c.Out, len(all), there, records)
	return err
}

// openAdviser opens the network that a flag names, which must support the boards, and returns it
// with the checksum of its file. adviser is nil if model is "". close is never nil.
func openAdviser(flag, model string, boards []*game.Board, notes io.Writer) (adviser *eval.Evaluator, checksum string, close func() error, err error) {
	close = func() error { return nil }
	if model == "" {
		return nil, "", close, nil
	}
	m, _, err := open.Any(model)
	if err != nil {
		return nil, "", close, fmt.Errorf("--%s: %w", flag, err)
	}
	e, err := backend{Backend: open.Auto, Model: model}.choose(notes)
	if err != nil {
		return nil, "", close, fmt.Errorf("--%s: %w", flag, err)
	}
	for _, b := range boards {
		if err := e.Supports(b); err != nil {
			return nil, "", close, errors.Join(fmt.Errorf("--%s: %w", flag, err), e.Close())
		}
	}
	return e.Evaluator, m.SHA256, e.Close, nil
}
