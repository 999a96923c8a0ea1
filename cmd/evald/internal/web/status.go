package web

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/evald/evald/cmd/evald/internal/answer"
)

// status is the state of the service at one time. Counts are those since its start; the page shows the difference of two states. Curves
// of all metrics are what Prometheus and Grafana draw.
type status struct {
	Time    float64       `json:"time"` // seconds since 1970
	Ready   bool          `json:"ready"`
	Version string        `json:"version"`
	CPU     float64       `json:"cpu"`    // processor seconds
	Memory  float64       `json:"memory"` // bytes
	Models  []modelStatus `json:"models"` // in order of their names
	Error   string        `json:"error,omitempty"`
}

// modelStatus is what the service has counted for a model. The names of its metrics are Triton's, or begin with evald_.
type modelStatus struct {
	Name    string  `json:"name"`
	Version string  `json:"version"`
	Rows    float64 `json:"rows"`    // positions answered
	Done    float64 `json:"done"`    // requests answered
	Failed  float64 `json:"failed"`  // requests that failed
	Refused float64 `json:"refused"` // requests refused because the service was busy
	Seconds float64 `json:"seconds"` // time of the answered requests
	Waiting float64 `json:"waiting"` // positions that wait now
	GPUs    float64 `json:"gpus"`    // GPUs that answer now
	Lost    float64 `json:"lost"`    // GPUs that do not answer any more, or did not at the start
}

// counts are the fields of modelStatus that add up the metrics of a name.
var counts = map[string]func(*modelStatus) *float64{
	"nv_inference_count":           func(m *modelStatus) *float64 { return &m.Rows },
	"nv_inference_request_success": func(m *modelStatus) *float64 { return &m.Done },
	"nv_inference_request_failure": func(m *modelStatus) *float64 { return &m.Failed },
	"evald_refused_total":          func(m *modelStatus) *float64 { return &m.Refused },
	"evald_request_seconds":        func(m *modelStatus) *float64 { return &m.Seconds },
	"evald_queued_rows":            func(m *modelStatus) *float64 { return &m.Waiting },
}

func (h *Handler) serveStatus(w http.ResponseWriter, _ *http.Request) error {
	if h.config.Metrics == nil {
		return refuse(http.StatusNotFound, "", "there is no status: the page runs without the service")
	}
	return h.status.serve(w, "", func() (any, error) { return readStatus(h.config.Metrics), nil })
}

func readStatus(from prometheus.Gatherer) status {
	families, err := from.Gather() // Gather returns what it could read together with an error
	s := status{Time: float64(time.Now().UnixMicro()) / 1e6, Models: []modelStatus{}}
	if err != nil {
		s.Error = err.Error()
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			s.add(f.GetName(), m)
		}
	}
	slices.SortFunc(s.Models, func(a, b modelStatus) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Version, b.Version))
	})
	return s
}

// add adds a metric that the status has.
func (s *status) add(name string, m *dto.Metric) {
	x := answer.Finite(metricValue(m))
	switch name {
	case "evald_ready":
		s.Ready = x == 1
	case "evald_build_info":
		s.Version = labelOf(m, "version")
	case "process_cpu_seconds_total":
		s.CPU = x
	case "process_resident_memory_bytes":
		s.Memory = x
	case "evald_gpu_working":
		of := s.model(m)
		of.GPUs, of.Lost = of.GPUs+x, of.Lost+1-x
	case "evald_gpu_missing":
		s.model(m).Lost += x
	default:
		if field := counts[name]; field != nil && labelOf(m, "model") != "" {
			*field(s.model(m)) += x
		}
	}
}

// model returns the status of a metric's model.
func (s *status) model(m *dto.Metric) *modelStatus {
	name, version := labelOf(m, "model"), labelOf(m, "version")
	i := slices.IndexFunc(s.Models, func(m modelStatus) bool { return m.Name == name && m.Version == version })
	if i < 0 {
		i = len(s.Models)
		s.Models = append(s.Models, modelStatus{Name: name, Version: version})
	}
	return &s.Models[i]
}

func labelOf(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// metricValue returns the value of a counter or gauge, or the sum of a histogram's observations.
func metricValue(m *dto.Metric) float64 {
	switch {
	case m.Counter != nil:
		return m.Counter.GetValue()
	case m.Gauge != nil:
		return m.Gauge.GetValue()
	case m.Histogram != nil:
		return m.Histogram.GetSampleSum()
	}
	return 0
}
