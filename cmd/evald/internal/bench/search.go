package bench

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/heuristic"
	"github.com/evald/evald/engine/mcts"
)

// The trees that Search searches, as many as games in self-play.
const (
	searchTrees  = 2048
	searchVisits = 200
	searchBatch  = 256
	deviceTime   = 50 * time.Microsecond // time of the stub device for a batch of any size
)

// Search measures tree search: visits on one core, allocations, and the share of a device's rate that many trees use. A round takes about d,
// but at least one search of all trees.
func Search(ctx context.Context, d time.Duration, progress Progress) ([]Figure, error) {
	s := &evalBench{ctx: ctx, d: d, board: game.MustBoard(game.Connect4), progress: progress}
	s.positions = playedPositions(s.board, searchTrees)
	for _, source := range []eval.Source{eval.Uniform, eval.Bitsquares} {
		e, err := heuristic.New(source)
		if err != nil {
			return nil, err
		}
		for _, selection := range []mcts.Selection{mcts.PUCT, mcts.UCT, mcts.Gumbel} {
			if err := s.oneCore(e, source.String()+", "+selection.String(), selection, false); err != nil {
				return nil, err
			}
		}
		if err := s.oneCore(e, source.String()+", puct with transpositions", mcts.PUCT, true); err != nil {
			return nil, err
		}
	}
	if err := s.manyTrees(); err != nil {
		return nil, err
	}
	return s.figures, s.err
}

// forest returns n trees whose roots are played positions.
func (s *evalBench) forest(n int, selection mcts.Selection, transpositions bool) ([]*mcts.Tree, error) {
	c := mcts.DefaultConfig(selection)
	c.Transpositions, c.Visits, c.MaxNodes = transpositions, searchVisits, 1<<16
	trees := make([]*mcts.Tree, n)
	for i := range trees {
		t, err := mcts.New(s.board, c)
		if err != nil {
			return nil, err
		}
		t.Reset(s.positions[i])
		trees[i] = t
	}
	return trees, nil
}

// search searches all trees anew, each with limit visits, and returns the total number of visits.
func (s *evalBench) search(e *eval.Evaluator, trees []*mcts.Tree, limit, batch int) (visits int) {
	for _, t := range trees {
		t.Reset(t.Root())
	}
	if err := mcts.Search(s.ctx, e, trees, mcts.Limits{Visits: limit, Batch: batch}); err != nil && s.err == nil {
		s.err = err
	}
	for _, t := range trees {
		visits += t.Visits()
	}
	return visits
}

// oneCore measures the visits per second of 64 trees on one core, and the number of memory allocations per visit.
func (s *evalBench) oneCore(e *eval.Evaluator, name string, selection mcts.Selection, transpositions bool) error {
	trees, err := s.forest(64, selection, transpositions)
	if err != nil {
		return err
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	visits := s.search(e, trees, searchVisits, len(trees))
	s.measure(Figure{Name: name + ", 1 core", Unit: "visits"}, visits, func() { s.search(e, trees, searchVisits, len(trees)) })
	if s.err != nil {
		return s.err
	}
	// Each search allocates its batches once, so the allocations of visits are the difference between a long and a short search.
	half, halfVisits := s.allocated(e, trees, searchVisits/2)
	all, allVisits := s.allocated(e, trees, searchVisits)
	each := max(0, all-half) / (allVisits - halfVisits)
	s.figures[len(s.figures)-1].Allocations = &each
	return s.err
}

// allocated returns the numbers of allocations and visits of a search.
func (s *evalBench) allocated(e *eval.Evaluator, trees []*mcts.Tree, limit int) (allocations, visits float64) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	visits = float64(s.search(e, trees, limit, len(trees)))
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs - before.Mallocs), visits
}

// manyTrees measures the share of a device's rate that a search of many trees on all cores uses. Rounds of the device alone and of the
// search alternate, so that other load affects both equally.
func (s *evalBench) manyTrees() error {
	f := Figure{Name: "puct of 2048 trees on all cores", Unit: "evaluations", Why: "a stub device alone, 50 us a batch of 256"}
	trees, err := s.forest(searchTrees, mcts.PUCT, false)
	if err != nil {
		return err
	}
	d := &device{}
	behind := eval.New(d, eval.Options{})
	alone := &contender{name: f.Why, round: d.round(s.d, func() { s.alone(d) })}
	searched := &contender{name: f.Name, round: d.round(s.d, func() { s.search(behind, trees, searchVisits, searchBatch) })}
	if err := race(s.ctx, []*contender{alone, searched}, s.d, s.progress); err != nil {
		return err
	}
	f.Rate, f.Ceiling = median(searched.rates), median(alone.rates)
	s.figures = append(s.figures, f)
	return s.err
}

// alone sends full batches to the device without a search, three at once.
func (s *evalBench) alone(d *device) {
	var wait sync.WaitGroup
	for range 3 {
		wait.Go(func() {
			b := newBatch(s.board, s.positions, searchBatch)
			for range 200 {
				if d.Compute(s.ctx, b) != nil {
					return // the search will report the error
				}
			}
		})
	}
	wait.Wait()
}

// round returns a function that repeats work for about the given time and returns the device's rows per second.
func (d *device) round(during time.Duration, work func()) func() (float64, error) {
	return func() (float64, error) {
		t, err := count(1, during, func(int) (int, error) {
			before := d.rows
			work()
			return d.rows - before, nil
		})
		return t.rate(), err
	}
}

// device is a stub of an accelerator. It answers batches one after the other, each in deviceTime, and leaves the processor free meanwhile.
type device struct {
	mu    sync.Mutex
	ready time.Time // when it will have answered all batches received so far
	rows  int
}

// Attributes implements eval.Backend.
func (*device) Attributes() eval.Attributes {
	return eval.Attributes{Rows: searchBatch, Invariant: true}
}

// Compute implements eval.Backend with even odds and policies.
func (d *device) Compute(_ context.Context, b *eval.Batch) error {
	d.mu.Lock()
	if now := time.Now(); d.ready.Before(now) {
		d.ready = now
	}
	d.ready = d.ready.Add(deviceTime)
	d.rows += len(b.Pos)
	ready := d.ready
	d.mu.Unlock()
	for time.Now().Before(ready) {
		runtime.Gosched() // a sleep this short would last a millisecond
	}
	for i := range b.Pos {
		wdl := b.WDLRow(i)
		wdl[0], wdl[1], wdl[2] = 0.5, 0, 0.5
		legal := b.Board.Legal(b.Pos[i])
		p, policy := 1/float32(legal.OnesCount()), b.PolicyRow(i)
		clear(policy)
		for ; !legal.IsZero(); legal = legal.WithoutFirst() {
			policy[b.Board.Action(legal.First())] = p
		}
		b.Source[i] = eval.Uniform
	}
	return nil
}
