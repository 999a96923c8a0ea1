package service

import (
	"maps"
	"math"
	"math/bits"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/evald/evald/cmd/evald/kserve"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/queue"
)

// times are the durations of a request's phases: reading, waiting for batches, computing and writing the answer.
type times struct{ total, input, queue, infer, output time.Duration }

// duration is the number and the sum of some durations.
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

// counts are the statistics of one model since it was first loaded.
type counts struct {
	pending                     int // requests in progress
	success                     duration
	failure                     [len(reasons)]duration
	input, queue, infer, output duration // phases of answered requests
	last                        time.Time
	rows                        uint64 // of answered requests
	reloadFailures              uint64
	sources                     map[eval.Source]uint64 // rows by the source of their answer
	batches                     [queue.Reasons]uint64
	sent                        map[int]duration      // number and time of the batches with each number of rows
	latencies                   [histogramBins]uint64 // answered requests by total time in microseconds: bin i counts those above 2^(i-1), up to 2^i
}

const histogramBins = 26

// bin returns the bin of a value in a histogram such as latencies.
func bin(x uint64) int { return min(bits.Len64(max(x, 1)-1), histogramBins-1) }

// stats are counts for concurrent use.
type stats struct {
	mu sync.Mutex
	counts
}

func (s *stats) update(f func(c *counts)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.counts)
}

// now returns a copy of the counts.
func (s *stats) now() (c counts) {
	s.update(func(now *counts) {
		c = *now
		c.sources, c.sent = maps.Clone(c.sources), maps.Clone(c.sent)
	})
	return c
}

// end counts a request that has ended.
func (c *counts) end(t *times, rows int, err error) {
	c.pending--
	if err != nil {
		c.failure[reason(err)].add(t.total)
		return
	}
	c.success.add(t.total)
	c.input.add(t.input)
	c.queue.add(t.queue)
	c.infer.add(t.infer)
	c.output.add(t.output)
	c.latencies[bin(uint64(t.total.Microseconds()))]++
	c.rows += uint64(rows)
	c.last = time.Now()
}

func (s *stats) batch(b queue.Sent) {
	s.update(func(c *counts) {
		c.batches[b.Reason]++
		if c.sent == nil {
			c.sent = map[int]duration{}
		}
		d := c.sent[b.Rows]
		d.add(b.Took)
		c.sent[b.Rows] = d
	})
}

func (s *stats) answered(rows []eval.Source) {
	totals := map[eval.Source]uint64{}   // summed before the lock is taken, because all requests of the model need it
	for first := 0; first < len(rows); { // consecutive rows mostly have the same source
		end := first + 1
		for end < len(rows) && rows[end] == rows[first] {
			end++
		}
		totals[rows[first]] += uint64(end - first)
		first = end
	}
	s.update(func(c *counts) {
		if c.sources == nil {
			c.sources = map[eval.Source]uint64{}
		}
		for source, n := range totals {
			c.sources[source] += n
		}
	})
}

// cacheMisses returns the number of rows whose answers the cache did not have, so that a network computed them.
func (c *counts) cacheMisses() (rows uint64) {
	for source, n := range c.sources {
		if source.Network() && source != eval.Cached {
			rows += n
		}
	}
	return rows
}

// batchSizes returns a histogram of batches by their rows, and the total numbers of batches and rows.
func (c *counts) batchSizes() (sizes [histogramBins]uint64, batches, rows uint64) {
	for n, d := range c.sent {
		sizes[bin(uint64(n))] += d.count
		batches, rows = batches+d.count, rows+d.count*uint64(n)
	}
	return sizes, batches, rows
}

// BatchSizes returns a histogram of the batches that a model's requests were merged into: element i counts batches of more than 2^(i-1)
// rows, up to 2^i. It is nil if the model is not served.
func (s *Server) BatchSizes(model string) []uint64 {
	m, err := s.models.find(model, "")
	if err != nil {
		return nil
	}
	c := m.stats.now()
	sizes, _, _ := c.batchSizes()
	return sizes[:]
}

// message returns the counts as a message of the protocol.
func (m *model) message() *kserve.ModelStatistics {
	s := m.stats.now()
	var fail duration
	for _, f := range s.failure {
		fail.count += f.count
		fail.sum += f.sum
	}
	_, batches, _ := s.batchSizes()
	out := &kserve.ModelStatistics{
		Name: m.name, Version: m.Version, InferenceCount: s.rows, ExecutionCount: batches,
		InferenceStats: &kserve.InferStatistics{
			Success: s.success.message(), Fail: fail.message(), Queue: s.queue.message(), ComputeInput: s.input.message(),
			ComputeInfer: s.infer.message(), ComputeOutput: s.output.message(),
			CacheHit: &kserve.StatisticDuration{Count: s.sources[eval.Cached]}, CacheMiss: &kserve.StatisticDuration{Count: s.cacheMisses()},
		},
	}
	if !s.last.IsZero() {
		out.LastInference = uint64(s.last.UnixMilli())
	}
	for _, rows := range slices.Sorted(maps.Keys(s.sent)) {
		d := s.sent[rows]
		none := &kserve.StatisticDuration{Count: d.count}
		out.BatchStats = append(out.BatchStats, &kserve.InferBatchStatistics{
			BatchSize: uint64(rows), ComputeInput: none, ComputeInfer: d.message(), ComputeOutput: none,
		})
	}
	return out
}

// collector reads the models' counts when Prometheus asks for them, so that no second set of counters is needed.
type collector struct{ server *Server }

// newMetrics registers the metrics: those with Triton's names, nv_inference_*, and our own, evald_*.
func (s *Server) newMetrics() *prometheus.Registry {
	r := prometheus.NewRegistry()
	s.codes = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "grpc_server_handled_total", Help: "Calls that have ended, by method and code."},
		[]string{"grpc_method", "grpc_code"})
	s.statuses = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "http_requests_total", Help: "Requests of the HTTP port that have ended, by status and group of calls."},
		[]string{"code", "group"})
	built := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "evald_build_info", Help: "Always 1; its labels say which program this is.",
		ConstLabels: prometheus.Labels{"version": s.config.Version, "go": runtime.Version()},
	})
	built.Set(1)
	r.MustRegister(s.codes, s.statuses, built, collector{s}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// Metrics returns the server's metrics, for callers that show them elsewhere.
func (s *Server) Metrics() prometheus.Gatherer { return s.metrics }

// Describe sends nothing, because the set of models changes.
func (c collector) Describe(chan<- *prometheus.Desc) {}

func (c collector) Collect(out chan<- prometheus.Metric) {
	send := func(name, help string, value float64) {
		out <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, nil, nil), prometheus.GaugeValue, value)
	}
	send("evald_ready", "1 while the server is ready.", flag(c.server.isReady()))
	send("evald_request_memory_bytes", "Memory that requests hold: bodies, searches, answers on their way.", float64(c.server.memory.inUse()))
	send("evald_request_memory_limit_bytes", "Memory that requests may hold.", float64(c.server.memory.limit()))
	count := func(name, help string, value uint64) {
		out <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, nil, nil), prometheus.CounterValue, float64(value))
	}
	count("evald_access_reload_failures_total", "Attempts to read certificates and tokens anew that failed; the old ones stay in force.", c.server.accessFailures.Load())
	count("evald_long_headers_total", "Calls that were refused because their headers are too long.", c.server.longHeaders.Load())
	count("evald_closed_headers_total", "Connections that were closed because headers were far too long, slow or malformed.", c.server.closedHeaders.Load())
	for file, end := range c.server.access.Load().Ends {
		out <- prometheus.MustNewConstMetric(prometheus.NewDesc("evald_certificate_expiry_timestamp_seconds",
			"When the first certificate of a file ends, in seconds since 1970.", []string{"file"}, nil), prometheus.GaugeValue, float64(end.Unix()), file)
	}
	if lost := c.server.config.LinesLost; lost != nil {
		count("evald_log_lines_dropped_total", "Lines of the log that standard error has not accepted in time.", lost())
	}
	c.server.clients.collect(out)
	for _, p := range c.server.openPorts() {
		p.collect(out)
	}
	for _, m := range c.server.models.list() {
		m.collect(out)
	}
}

func flag(on bool) float64 {
	if on {
		return 1
	}
	return 0
}

func (l *connections) collect(out chan<- prometheus.Metric) {
	l.mu.Lock()
	open := len(l.all)
	l.mu.Unlock()
	out <- prometheus.MustNewConstMetric(prometheus.NewDesc("evald_connections", "Open connections of a port.", []string{"port"}, nil),
		prometheus.GaugeValue, float64(open), l.port)
	refused := prometheus.NewDesc("evald_refused_connections_total", "By reason. full: calls that were refused because too many connections are open; "+
		"evicted: idle connections that made way for others; closed: connections for which there was not even a place to say so.", []string{"port", "reason"}, nil)
	for i, reason := range refusedReasons {
		out <- prometheus.MustNewConstMetric(refused, prometheus.CounterValue, float64(l.refused[i].Load()), l.port, reason)
	}
}

func (m *model) collect(out chan<- prometheus.Metric) {
	s := m.stats.now()
	names, labels := []string{"model", "version"}, []string{m.name, m.Version}
	// send sends a metric of the model; label is the value of an additional label.
	send := func(kind prometheus.ValueType, name, help string, value float64, label ...string) {
		d := prometheus.NewDesc(name, help, append(names[:2:2], label[:len(label)/2]...), nil)
		out <- prometheus.MustNewConstMetric(d, kind, value, append(labels[:2:2], label[len(label)/2:]...)...)
	}
	gauge := func(name, help string, value float64, label ...string) {
		send(prometheus.GaugeValue, name, help, value, label...)
	}
	counter := func(name, help string, value float64, label ...string) {
		send(prometheus.CounterValue, name, help, value, label...)
	}
	micros := func(name, help string, of duration) { counter(name, help, float64(of.sum.Microseconds())) }
	sizes, batches, rows := s.batchSizes()
	counter("nv_inference_request_success", "Requests answered.", float64(s.success.count))
	for i, name := range reasons {
		counter("nv_inference_request_failure", "Requests that failed, by reason.", float64(s.failure[i].count), "reason", name)
	}
	counter("nv_inference_count", "Positions answered.", float64(s.rows))
	counter("nv_inference_exec_count", "Batches evaluated.", float64(batches))
	gauge("nv_inference_pending_request_count", "Requests under way.", float64(s.pending))
	micros("nv_inference_request_duration_us", "Time of requests answered, in all.", s.success)
	micros("nv_inference_queue_duration_us", "Time that requests waited for their batch.", s.queue)
	micros("nv_inference_compute_input_duration_us", "Time that reading inputs took.", s.input)
	micros("nv_inference_compute_infer_duration_us", "Time that requests' batches were evaluated.", s.infer)
	micros("nv_inference_compute_output_duration_us", "Time that writing outputs took.", s.output)
	counter("nv_cache_num_hits_per_model", "Positions answered from the cache.", float64(s.sources[eval.Cached]))
	counter("nv_cache_num_misses_per_model", "Positions that a network answered.", float64(s.cacheMisses()))
	for r := range queue.Reasons {
		counter("evald_batches_total", "Batches by why they were sent: full, delay, deadline, or idle, where nothing else was under way.",
			float64(s.batches[r]), "reason", r.String())
	}
	for source, n := range s.sources {
		counter("evald_rows_total", "Positions evaluated, leaves of searches included, by who answered.", float64(n), "source", source.String())
	}
	out <- histogram(prometheus.NewDesc("evald_batch_rows", "Rows of batches.", names, nil), sizes, 14, 1, float64(rows), labels)
	out <- histogram(prometheus.NewDesc("evald_request_seconds", "Time of requests answered.", names, nil),
		s.latencies, histogramBins, 1e-6, s.success.sum.Seconds(), labels)
	if m.searches {
		return
	}
	gauge("evald_gpu_missing", "1 if the machine has a GPU for the model, but none worked when the model was loaded: others answer.", flag(m.NoGPU))
	for _, d := range m.devicesAndLost() {
		at := strconv.Itoa(d.Index)
		gauge("evald_gpu_working", "1 while the GPU answers; 0 after a fault, until it works again.", flag(d.Working), "gpu", at)
		gauge("evald_gpu_lost", "1 after a fault that no attempt has mended: only a new process can use the GPU.", flag(d.Lost), "gpu", at)
		counter("evald_gpu_rows_total", "Positions that the GPU has computed.", float64(d.Rows), "gpu", at)
		counter("evald_gpu_launches_total", "Launches that the GPU has ended.", float64(d.Launches), "gpu", at)
		counter("evald_gpu_busy_seconds_total", "Time in which launches for the model were under way on the GPU.", d.Busy.Seconds(), "gpu", at)
		counter("evald_gpu_faults_total", "Faults of the GPU that cost its context.", float64(d.Faults), "gpu", at)
	}
	counter("evald_reload_failures_total", "Attempts to load the model anew that failed; the weights before them serve.", float64(s.reloadFailures))
	b := m.batcher.Stats()
	gauge("evald_queued_rows", "Positions that wait for a batch.", float64(b.Queued))
	counter("evald_refused_total", "Requests that found too many rows waiting.", float64(b.Refused))
	counter("evald_dropped_total", "Requests that ended before their batch was formed.", float64(b.Dropped))
}

// histogram converts bins of powers of two to a Prometheus histogram with shown buckets. The last bucket has all remaining bins.
func histogram(d *prometheus.Desc, bins [histogramBins]uint64, shown int, unit, sum float64, labels []string) prometheus.Metric {
	buckets := map[float64]uint64{}
	var n uint64
	for i, count := range bins {
		n += count
		if i < shown-1 {
			buckets[unit*math.Ldexp(1, i)] = n
		}
	}
	return prometheus.MustNewConstHistogram(d, n, sum, buckets, labels...)
}
