package service

import (
	"math"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/evald/evald/engine/eval"
)

// collector reads the models' counts when Prometheus asks, so that they are kept in one place.
type collector struct{ server *Server }

// newMetrics registers the metrics: those with Triton's names, nv_inference_*, and our own, evald_*.
func (s *Server) newMetrics() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collector{s}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// Metrics are the counts, for those who show them in another place.
func (s *Server) Metrics() prometheus.Gatherer { return s.metrics }

var modelLabels = []string{"model", "version"}

func metric(name, help string, more ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, append(modelLabels[:2:2], more...), nil)
}

var (
	successMetric  = metric("nv_inference_request_success", "Requests answered.")
	failureMetric  = metric("nv_inference_request_failure", "Requests that failed, by reason.", "reason")
	rowsMetric     = metric("nv_inference_count", "Positions answered.")
	execMetric     = metric("nv_inference_exec_count", "Batches evaluated.")
	pendingMetric  = metric("nv_inference_pending_request_count", "Requests under way.")
	totalMetric    = metric("nv_inference_request_duration_us", "Time of requests answered, in all.")
	queueMetric    = metric("nv_inference_queue_duration_us", "Time that requests waited for their batch.")
	inputMetric    = metric("nv_inference_compute_input_duration_us", "Time that reading inputs took.")
	inferMetric    = metric("nv_inference_compute_infer_duration_us", "Time that requests' batches were evaluated.")
	outputMetric   = metric("nv_inference_compute_output_duration_us", "Time that writing outputs took.")
	cacheHitMetric = metric("nv_cache_num_hits_per_model", "Positions answered from the cache.")
	cacheMissed    = metric("nv_cache_num_misses_per_model", "Positions that a network answered.")
	queuedMetric   = metric("evald_queued_rows", "Positions that wait for a batch.")
	reasonMetric   = metric("evald_batches_total", "Batches by why they were sent: full, delay, deadline, or idle, where nothing else was under way.", "reason")
	sourceMetric   = metric("evald_rows_total", "Positions evaluated, leaves of searches included, by who answered.", "source")
	sizeMetric     = metric("evald_batch_rows", "Rows of batches.")
	latencyMetric  = metric("evald_request_seconds", "Time of requests answered.")
	refusedMetric  = metric("evald_refused_total", "Requests that found too many rows waiting.")
	droppedMetric  = metric("evald_dropped_total", "Requests that ended before their batch was formed.")
	memoryMetric   = prometheus.NewDesc("evald_request_memory_bytes", "Memory that requests hold: bodies, searches, answers on their way.", nil, nil)
	mostMetric     = prometheus.NewDesc("evald_request_memory_limit_bytes", "Memory that requests may hold.", nil, nil)
	gpuWorking     = metric("evald_gpu_working", "1 while the GPU answers; 0 after a fault, until it works again.", "gpu")
	gpuLost        = metric("evald_gpu_lost", "1 after a fault that no attempt has mended: only a new process can use the GPU.", "gpu")
	gpuRows        = metric("evald_gpu_rows_total", "Positions that the GPU has computed.", "gpu")
	gpuLaunches    = metric("evald_gpu_launches_total", "Launches that the GPU has ended.", "gpu")
	gpuBusy        = metric("evald_gpu_busy_seconds_total", "Time in which launches for the model were under way on the GPU.", "gpu")
	gpuFaults      = metric("evald_gpu_faults_total", "Faults of the GPU that cost its context.", "gpu")
	readyMetric    = prometheus.NewDesc("evald_ready", "1 while the server is ready.", nil, nil)
)

// Describe sends nothing: models come and go.
func (c collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	out <- prometheus.MustNewConstMetric(readyMetric, prometheus.GaugeValue, flag(c.server.Ready()))
	out <- prometheus.MustNewConstMetric(memoryMetric, prometheus.GaugeValue, float64(c.server.memory.inUse()))
	out <- prometheus.MustNewConstMetric(mostMetric, prometheus.GaugeValue, float64(c.server.memory.total))
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

func (m *model) collect(out chan<- prometheus.Metric) {
	s, g := m.stats.now(), m.current.Load()
	labels := []string{m.name, g.Version}
	send := func(d *prometheus.Desc, kind prometheus.ValueType, value float64, more ...string) {
		out <- prometheus.MustNewConstMetric(d, kind, value, append(labels[:2:2], more...)...)
	}
	counter := prometheus.CounterValue
	send(successMetric, counter, float64(s.success.count))
	for i, name := range reasons {
		send(failureMetric, counter, float64(s.failure[i].count), name)
	}
	send(rowsMetric, counter, float64(s.rows))
	send(execMetric, counter, float64(s.executions()))
	send(pendingMetric, prometheus.GaugeValue, float64(s.pending))
	for _, t := range []struct {
		desc *prometheus.Desc
		of   duration
	}{{totalMetric, s.success}, {queueMetric, s.queue}, {inputMetric, s.input}, {inferMetric, s.infer}, {outputMetric, s.output}} {
		send(t.desc, counter, float64(t.of.sum.Microseconds()))
	}
	send(cacheHitMetric, counter, float64(s.sources[eval.Cached]))
	send(cacheMissed, counter, float64(s.cacheMisses()))
	for r := range eval.BatchReasons {
		send(reasonMetric, counter, float64(s.batches[r]), r.String())
	}
	for source, n := range s.sources {
		send(sourceMetric, counter, float64(n), source.String())
	}
	out <- histogram(sizeMetric, s.sizes, 14, 1, float64(s.batchRows), labels)
	out <- histogram(latencyMetric, s.latencies, histogramBins, 1e-6, s.success.sum.Seconds(), labels)
	if !m.searches && g.Devices != nil {
		for _, d := range g.Devices() {
			at := strconv.Itoa(d.Index)
			send(gpuWorking, prometheus.GaugeValue, flag(d.Working), at)
			send(gpuLost, prometheus.GaugeValue, flag(d.Lost), at)
			send(gpuRows, counter, float64(d.Rows), at)
			send(gpuLaunches, counter, float64(d.Launches), at)
			send(gpuBusy, counter, d.Busy.Seconds(), at)
			send(gpuFaults, counter, float64(d.Faults), at)
		}
	}
	if !m.searches {
		b := g.requests.BatcherStats()
		send(queuedMetric, prometheus.GaugeValue, float64(b.Queued))
		send(refusedMetric, counter, float64(b.Refused))
		send(droppedMetric, counter, float64(b.Dropped))
	}
}

// histogram is a histogram of Prometheus from bins of powers of two. All bins from the last shown one on are one.
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
