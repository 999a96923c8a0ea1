package web

import (
	"cmp"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/evald/evald/cmd/evald/internal/answer"
)

// sample is the state of the service's metrics at one time. The page draws the difference of two samples.
type sample struct {
	Time   float64 `json:"time"` // seconds since 1970
	Panels []panel `json:"panels"`
	Others []value `json:"others"` // metrics in no panel
	Error  string  `json:"error,omitempty"`
}

// panel is a group of metrics that are drawn together.
type panel struct {
	Title  string  `json:"title"`
	Kind   string  `json:"kind"` // rate (of counters), gauge or histogram
	Unit   string  `json:"unit"`
	Series []value `json:"series"`
}

// value is a metric with its labels.
type value struct {
	Name    string   `json:"name"`
	Help    string   `json:"help,omitempty"`
	Value   float64  `json:"value"`           // of a histogram: the sum of its observations
	Count   float64  `json:"count,omitempty"` // of a histogram: the number of its observations
	Buckets []bucket `json:"buckets,omitempty"`
}

// bucket counts the observations up to a value. No bucket counts observations above the last bucket's value.
type bucket struct {
	Most  float64 `json:"most"`
	Count float64 `json:"count"` // cumulative
}

func (h *Handler) serveMetrics(w http.ResponseWriter, _ *http.Request) error {
	if h.config.Metrics == nil {
		return refuse(http.StatusNotFound, "", "there are no metrics: the page runs without the service")
	}
	return h.metrics.serve(w, "", func() (any, error) { return readMetrics(h.config.Metrics), nil })
}

func readMetrics(from prometheus.Gatherer) sample {
	families, err := from.Gather() // Gather returns what it could read together with an error
	s := arrange(families)
	s.Time = float64(time.Now().UnixMicro()) / 1e6
	if err != nil {
		s.Error = err.Error()
	}
	return s
}

// view selects the metrics of a panel. Any of them may be missing.
type view struct {
	title, kind, unit string
	is                func(f *dto.MetricFamily) bool
}

func named(names ...string) func(*dto.MetricFamily) bool {
	return func(f *dto.MetricFamily) bool { return slices.Contains(names, f.GetName()) }
}

// of selects metrics of a type whose names contain one of the words and, unless label is "", that have the label.
func of(kind dto.MetricType, label string, words ...string) func(*dto.MetricFamily) bool {
	return func(f *dto.MetricFamily) bool {
		return f.GetType() == kind && slices.ContainsFunc(words, func(word string) bool { return strings.Contains(f.GetName(), word) }) &&
			(label == "" || slices.ContainsFunc(f.GetMetric(), func(m *dto.Metric) bool {
				return slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool { return l.GetName() == label })
			}))
	}
}

// views are the panels in order. A metric goes to the first panel that selects it. Names that begin with nv_ are Triton's.
var views = []view{
	{"Requests", "rate", "a second", named("nv_inference_request_success", "nv_inference_request_failure")},
	{"Positions", "rate", "a second", named("nv_inference_count")},
	{"Who answered", "rate", "positions a second", of(dto.MetricType_COUNTER, "source", "")},
	{"Batch sizes", "histogram", "rows", of(dto.MetricType_HISTOGRAM, "", "batch")},
	{"Why batches were sent", "rate", "a second", of(dto.MetricType_COUNTER, "reason", "batch")},
	{"Batches", "rate", "a second", named("nv_inference_exec_count")},
	{"Waiting", "gauge", "", of(dto.MetricType_GAUGE, "", "pending", "queue", "in_flight")},
	{"Time", "histogram", "seconds", of(dto.MetricType_HISTOGRAM, "", "_seconds")},
	{"Time in all", "rate", "µs a second", of(dto.MetricType_COUNTER, "", "duration_us")},
	{"Cache", "rate", "a second", of(dto.MetricType_COUNTER, "", "cache")},
	{"GPUs that answer", "gauge", "", named("evald_gpu_working")},
	{"GPUs at work", "rate", "busy", named("evald_gpu_busy_seconds_total")},
	{"Goroutines", "gauge", "", named("go_goroutines")},
	{"Memory", "gauge", "bytes", named("process_resident_memory_bytes")},
	{"Processors", "rate", "busy", named("process_cpu_seconds_total")},
}

// Bounds of a sample.
const (
	maxSeries = 24  // of a panel
	maxOthers = 500 // metrics in no panel
)

// arrange distributes the metrics to panels.
func arrange(families []*dto.MetricFamily) (s sample) {
	panels := make([]panel, len(views))
	s.Panels, s.Others = []panel{}, []value{}
	for _, f := range families {
		at := slices.IndexFunc(views, func(v view) bool { return v.is(f) })
		for _, m := range f.GetMetric() {
			v := describeMetric(f, m)
			switch {
			case at >= 0 && v.Value == 0 && v.Count == 0 && views[at].kind != "gauge":
				// nothing counted yet
			case at >= 0 && len(panels[at].Series) < maxSeries:
				panels[at].Series = append(panels[at].Series, v)
			case at < 0 && len(s.Others) < maxOthers:
				s.Others = append(s.Others, v)
			}
		}
	}
	for i, p := range panels {
		if len(p.Series) > 0 {
			p.Title, p.Kind, p.Unit = views[i].title, views[i].kind, views[i].unit
			shorten(p.Series)
			s.Panels = append(s.Panels, p)
		}
	}
	return s
}

// describeMetric converts a metric; its name becomes NAME{LABEL=VALUE,...}.
func describeMetric(f *dto.MetricFamily, m *dto.Metric) value {
	v := value{Name: f.GetName(), Help: f.GetHelp()}
	if labels := m.GetLabel(); len(labels) > 0 {
		var texts []string
		for _, l := range labels {
			texts = append(texts, l.GetName()+"="+l.GetValue())
		}
		v.Name += "{" + strings.Join(texts, ",") + "}"
	}
	switch {
	case m.Counter != nil:
		v.Value = m.Counter.GetValue()
	case m.Gauge != nil:
		v.Value = m.Gauge.GetValue()
	case m.Histogram != nil:
		v.Value, v.Count = m.Histogram.GetSampleSum(), float64(m.Histogram.GetSampleCount())
		for _, b := range m.Histogram.GetBucket() {
			if !math.IsInf(b.GetUpperBound(), 1) {
				v.Buckets = append(v.Buckets, bucket{b.GetUpperBound(), float64(b.GetCumulativeCount())})
			}
		}
	case m.Summary != nil:
		v.Value, v.Count = m.Summary.GetSampleSum(), float64(m.Summary.GetSampleCount())
	default:
		v.Value = m.Untyped.GetValue()
	}
	v.Value = answer.Finite(v.Value)
	return v
}

// shorten removes the parts of the names that all series of a panel have in common. A single series is named by its labels without model
// and version, or by its metric if it has no other labels.
func shorten(series []value) {
	parts := make([][]string, len(series))
	for i, v := range series {
		name, labels, _ := strings.Cut(strings.TrimSuffix(v.Name, "}"), "{")
		for _, prefix := range []string{"nv_inference_", "evald_"} {
			name = strings.TrimPrefix(name, prefix)
		}
		parts[i] = append([]string{name}, strings.Split(labels, ",")...)
	}
	tells := func(part string) bool { // whether the part distinguishes the series
		if len(series) == 1 {
			return part != parts[0][0] && !strings.HasPrefix(part, "model=") && !strings.HasPrefix(part, "version=")
		}
		return slices.ContainsFunc(parts, func(p []string) bool { return !slices.Contains(p, part) })
	}
	for i := range series {
		var own []string
		for _, part := range parts[i] {
			if part == "" || !tells(part) {
				continue
			}
			if _, text, _ := strings.Cut(part, "="); text != "" {
				part = text
			}
			own = append(own, part)
		}
		series[i].Name = cmp.Or(strings.Join(own, " "), parts[i][0])
	}
}
