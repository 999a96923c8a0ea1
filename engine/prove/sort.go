package prove

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/evald/evald/engine/jobs"
)

// sorter sorts rows and removes duplicates. Each worker collects rows in its own memory. When that is full, its rows are written as a
// sorted file, a run. At the end the runs are merged.
type sorter struct {
	dir   string  // folder of the runs
	parts [][]row // by worker; their capacity is the memory

	mu    sync.Mutex // guards the fields below
	runs  []string
	count int // number of runs so far, for their names
}

// mostRuns is the maximum number of runs that are merged at once.
const mostRuns = 64

func newSorter(dir string, workers int, memory int64) *sorter {
	s := &sorter{dir: dir, parts: make([][]row, workers)}
	for i := range s.parts {
		s.parts[i] = make([]row, 0, max(1, memory/2/rowBytes/int64(workers))) // half, because the garbage collector lets memory grow
	}
	return s
}

// begin removes files of an earlier use.
func (s *sorter) begin() error {
	for i := range s.parts {
		s.parts[i] = s.parts[i][:0]
	}
	s.runs = nil
	if err := os.RemoveAll(s.dir); err != nil {
		return err
	}
	return os.Mkdir(s.dir, 0o755)
}

func (s *sorter) add(worker int, r row) error {
	part := s.parts[worker]
	if len(part) == cap(part) {
		if err := s.spill(worker); err != nil {
			return err
		}
		part = s.parts[worker]
	}
	s.parts[worker] = append(part, r)
	return nil
}

// spill writes a worker's rows as a run.
func (s *sorter) spill(worker int) error {
	rows := s.parts[worker]
	s.parts[worker] = rows[:0]
	slices.SortFunc(rows, row.compare)
	w, err := s.create()
	if err != nil {
		return err
	}
	var buf [rowBytes]byte
	for _, r := range slices.Compact(rows) {
		if _, err := w.Write(r.appendTo(buf[:0])); err != nil {
			w.abort()
			return err
		}
	}
	return w.close()
}

func (s *sorter) create() (*writer, error) {
	s.mu.Lock()
	path := filepath.Join(s.dir, fmt.Sprint(s.count))
	s.count++
	s.runs = append(s.runs, path)
	s.mu.Unlock()
	return createRun(path)
}

// merge calls each with all rows in ascending order, without duplicates, and removes the runs.
func (s *sorter) merge(ctx context.Context, each func(row) error) error {
	err := jobs.Each(ctx, len(s.parts), len(s.parts), func(_ context.Context, _, part int) error { return s.spill(part) })
	if err != nil {
		return err
	}
	for len(s.runs) > mostRuns {
		some := s.runs[:mostRuns]
		s.runs = s.runs[mostRuns:]
		w, err := s.create()
		if err != nil {
			return err
		}
		var buf [rowBytes]byte
		err = mergeRuns(ctx, some, func(r row) error {
			_, err := w.Write(r.appendTo(buf[:0]))
			return err
		})
		if err != nil {
			w.abort()
			return err
		}
		if err := w.close(); err != nil {
			return err
		}
		for _, path := range some {
			if err := os.Remove(path); err != nil {
				return err
			}
		}
	}
	if err := mergeRuns(ctx, s.runs, each); err != nil {
		return err
	}
	return os.RemoveAll(s.dir)
}

// run is a sorted file that is being merged.
type run struct {
	*reader
	row  // the next row
	rest []byte
	buf  [256 * rowBytes]byte
}

// next reads the next row. ok is false after the last one.
func (r *run) next() (ok bool, err error) {
	if len(r.rest) == 0 {
		if r.rest, err = r.reader.next(r.buf[:]); len(r.rest) == 0 || err != nil {
			return false, err
		}
	}
	r.row, r.rest = rowAt(r.rest), r.rest[rowBytes:]
	return true, nil
}

// mergeRuns calls each with the rows of all runs in ascending order, without duplicates.
func mergeRuns(ctx context.Context, paths []string, each func(row) error) error {
	var heap []*run // a binary heap: the smallest row is first
	for _, path := range paths {
		file, err := open(path, rowBytes)
		if err != nil {
			return err
		}
		defer file.Close()
		r := &run{reader: file}
		if ok, err := r.next(); err != nil {
			return err
		} else if ok {
			heap = append(heap, r)
		}
	}
	slices.SortFunc(heap, func(a, b *run) int { return a.compare(b.row) })
	var last row
	for n := 0; len(heap) > 0; n++ {
		if n%(1<<16) == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if first := heap[0].row; n == 0 || first != last {
			if err := each(first); err != nil {
				return err
			}
			last = first
		}
		if ok, err := heap[0].next(); err != nil {
			return err
		} else if !ok {
			heap[0] = heap[len(heap)-1]
			heap = heap[:len(heap)-1]
		}
		sink(heap)
	}
	return nil
}

// sink restores the heap after the first run's row has changed.
func sink(heap []*run) {
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(heap); child++ {
			if heap[child].compare(heap[least].row) < 0 {
				least = child
			}
		}
		if least == i {
			return
		}
		heap[i], heap[least] = heap[least], heap[i]
		i = least
	}
}
