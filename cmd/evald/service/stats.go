package service

import (
	"cmp"
	"maps"
	"math/bits"
	"slices"
	"sync"
	"time"

	"github.com/evald/evald/cmd/evald/kserve"
	"github.com/evald/evald/engine/eval"
)

// times are what a request has spent its time on.
type times struct{ total, input, queue, infer, output time.Duration }

// duration is a sum of times.
type duration struct {
	count uint64
	sum   time.Duration
}

func (d *duration) add(x time.Duration) {
	d.count++
	d.sum += x
}

func (d *duration) message() *kserve.StatisticDuration {
	return &kserve.StatisticDuration{Count: d.count, Ns: uint64(d.sum)}
}

// counts are those of one model since it was loaded first.
type counts struct {
	pending                     int // requests under way
	success                     duration
	failure                     [len(reasons)]duration
	input, queue, infer, output duration // of requests that were answered
	last                        time.Time
	rows                        uint64                 // of requests that were answered
	sources                     map[eval.Source]uint64 // rows
	batches                     [eval.BatchReasons]uint64
	sizes                       [histogramBins]uint64 // of batches, by rows: bin i is of more than 2^(i-1) and up to 2^i
	batchRows                   uint64
	latencies                   [histogramBins]uint64 // of requests that were answered, in the same way by microseconds
}

const histogramBins = 26

// bin is the bin of a value in such a histogram.
func bin(x uint64) int { return min(bits.Len64(max(x, 1)-1), histogramBins-1) }

// stats are counts that many requests change.
type stats struct {
	mu sync.Mutex
	counts
	sent map[int]*duration // rows of a batch -> how many such batches there were, and their time
}

func (s *stats) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending++
}

func (s *stats) end(t *times, rows int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending--
	if err != nil {
		s.failure[reason(err)].add(t.total)
		return
	}
	s.success.add(t.total)
	s.input.add(t.input)
	s.queue.add(t.queue)
	s.infer.add(t.infer)
	s.output.add(t.output)
	s.latencies[bin(uint64(t.total.Microseconds()))]++
	s.rows += uint64(rows)
	s.last = time.Now()
}

func (s *stats) batch(b eval.Sent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.batches[b.Reason]++
	s.sizes[bin(uint64(b.Rows))]++
	s.batchRows += uint64(b.Rows)
	if s.sent == nil {
		s.sent = map[int]*duration{}
	}
	d := s.sent[b.Rows]
	if d == nil {
		d = new(duration)
		s.sent[b.Rows] = d
	}
	d.add(b.Took)
}

func (s *stats) answered(rows []eval.Source) {
	type total struct {
		source eval.Source
		rows   uint64
	}
	totals := make([]total, 0, 16)       // added up before the lock, which all requests of the model take
	for first := 0; first < len(rows); { // most rows have the source of the row before
		end := first + 1
		for end < len(rows) && rows[end] == rows[first] {
			end++
		}
		k := slices.IndexFunc(totals, func(t total) bool { return t.source == rows[first] })
		if k < 0 {
			k = len(totals)
			totals = append(totals, total{source: rows[first]})
		}
		totals[k].rows += uint64(end - first)
		first = end
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sources == nil {
		s.sources = map[eval.Source]uint64{}
	}
	for _, t := range totals {
		s.sources[t.source] += t.rows
	}
}

// now is a copy of the counts as they are.
func (s *stats) now() counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.counts
	c.sources = maps.Clone(c.sources)
	return c
}

// cacheMisses is the rows that networks computed, because the cache did not have their answers.
func (c *counts) cacheMisses() (rows uint64) {
	for source, n := range c.sources {
		if source.Network() && source != eval.Cached {
			rows += n
		}
	}
	return rows
}

// BatchSizes are the batches that a model's requests were merged into, by rows: [i] of up to 2^i.
func (s *Server) BatchSizes(model string) []uint64 {
	m, err := s.models.find(model, "")
	if err != nil {
		return nil
	}
	c := m.stats.now()
	return c.sizes[:]
}

// executions is how many batches were evaluated.
func (c *counts) executions() (n uint64) {
	for _, b := range c.batches {
		n += b
	}
	return n
}

// message is the counts as the protocol has them.
func (m *model) message() *kserve.ModelStatistics {
	s := &m.stats
	s.mu.Lock()
	defer s.mu.Unlock()
	var fail duration
	for _, f := range s.failure {
		fail.count += f.count
		fail.sum += f.sum
	}
	cached := &kserve.StatisticDuration{Count: s.sources[eval.Cached]}
	out := &kserve.ModelStatistics{
		Name: m.name, Version: m.current.Load().Version, InferenceCount: s.rows, ExecutionCount: s.executions(),
		InferenceStats: &kserve.InferStatistics{
			Success: s.success.message(), Fail: fail.message(), Queue: s.queue.message(), ComputeInput: s.input.message(),
			ComputeInfer: s.infer.message(), ComputeOutput: s.output.message(),
			CacheHit: cached, CacheMiss: &kserve.StatisticDuration{Count: s.cacheMisses()},
		},
	}
	if !s.last.IsZero() {
		out.LastInference = uint64(s.last.UnixMilli())
	}
	for rows, d := range s.sent {
		none := &kserve.StatisticDuration{Count: d.count}
		out.BatchStats = append(out.BatchStats, &kserve.InferBatchStatistics{
			BatchSize: uint64(rows), ComputeInput: none, ComputeInfer: d.message(), ComputeOutput: none,
		})
	}
	slices.SortFunc(out.BatchStats, func(a, b *kserve.InferBatchStatistics) int { return cmp.Compare(a.BatchSize, b.BatchSize) })
	return out
}
