package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/labels"
	"github.com/evald/evald/engine/rundir"
	"github.com/evald/evald/engine/sample"
	"github.com/evald/evald/engine/solver"
)

// recordsConfig is what all files of a folder have in common. More files may be asked for later.
type recordsConfig struct {
	Rules string `json:"rules"`
	Seed  uint64 `json:"seed"`
}

// recordsConfigFile is the file in which the folder's configuration is.
const recordsConfigFile = "positions.json"

// makeRecords makes the missing files of records in a folder that is locked. Each thread makes a file at a time.
func (c *positionsCmd) makeRecords(ctx context.Context, s streams, board *game.Board, known solver.Book, dir *rundir.Dir) error {
	if err := rundir.Keep(dir.Path(recordsConfigFile), recordsConfig{c.Rules, c.Seed}); err != nil {
		return err
	}
	type file struct {
		kind   sample.Kind
		number int
	}
	var todo []file
	there := 0
	for _, kind := range c.Kinds {
		for number := range (c.Count + labels.PerFile - 1) / labels.PerFile {
			switch _, err := os.Stat(labels.Path(c.Out, sample.Kind(kind), number)); {
			case err == nil:
				there++
			case errors.Is(err, fs.ErrNotExist):
				todo = append(todo, file{sample.Kind(kind), number})
			default:
				return err
			}
		}
	}
	progress := newProgress(s.err, 0)
	defer progress.clear()
	show := progress.counting("files of records", there, there+len(todo))
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var next, records, made atomic.Int64
	var threads sync.WaitGroup
	var showing sync.Mutex
	for range min(runtime.GOMAXPROCS(0), len(todo)) {
		threads.Go(func() {
			one, err := solver.New(board, solver.Options{Book: known})
			for i := next.Add(1) - 1; err == nil && i < int64(len(todo)); i = next.Add(1) - 1 {
				f := todo[i]
				var n int
				if n, err = labels.Write(ctx, one, f.kind, c.Seed, f.number, labels.Path(c.Out, f.kind, f.number)); err == nil {
					records.Add(int64(n))
					showing.Lock()
					show(there + int(made.Add(1)))
					showing.Unlock()
				}
			}
			if err != nil {
				stop(err)
			}
		})
	}
	threads.Wait()
	progress.clear()
	if err := context.Cause(ctx); errors.Is(err, context.Canceled) {
		fmt.Fprintf(s.err, "evald: interrupted; %d of %d files are complete; the same command goes on\n", there+int(made.Load()), there+len(todo))
		return errInterrupted
	} else if err != nil {
		return err
	}
	_, err := fmt.Fprintf(s.out, "%s: %d files of records, %d of them from before; %d records were made now\n", c.Out, there+len(todo), there, records.Load())
	return err
}
