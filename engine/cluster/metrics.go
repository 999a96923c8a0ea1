package cluster

import "github.com/prometheus/client_golang/prometheus"

// Describe implements prometheus.Collector.
func (l *Learner) Describe(to chan<- *prometheus.Desc) { prometheus.DescribeByCollect(l, to) }

// Collect implements prometheus.Collector.
func (l *Learner) Collect(to chan<- prometheus.Metric) {
	s := l.Status()
	fetching := 0
	for _, n := range s.Networks {
		fetching += n.Fetching
	}
	for _, m := range []struct {
		name, help string
		kind       prometheus.ValueType
		value      float64
	}{
		{"workers", "Workers that were heard in the last minute.", prometheus.GaugeValue, float64(s.Heard)},
		{"workers_games_per_second", "Games a second that the workers say they play.", prometheus.GaugeValue, s.Played},
		{"spool_games", "Games that workers keep because the learner has not confirmed them.", prometheus.GaugeValue, float64(s.Spool)},
		{"networks", "Networks that workers play with or get.", prometheus.GaugeValue, float64(len(s.Networks))},
		{"workers_fetching", "Workers that get a network.", prometheus.GaugeValue, float64(fetching)},
		{"older_games", "Games of earlier generations that workers have begun, or keep.", prometheus.GaugeValue, float64(s.Older)},
		{"generation", "The generation that is played, or the last one.", prometheus.GaugeValue, float64(s.Generation)},
		{"generation_games", "Games of the generation that are kept.", prometheus.GaugeValue, float64(s.Games)},
		{"generation_games_wanted", "Games of the generation.", prometheus.GaugeValue, float64(s.All)},
		{"generation_games_proved", "Games of the generation, kept since the learner's start, that ended because they were proved.", prometheus.GaugeValue, float64(s.Proved)},
		{"jobs_waiting", "Jobs that no worker has taken.", prometheus.GaugeValue, float64(s.Jobs)},
		{"lag_messages", "Messages with games that the learner has not looked at.", prometheus.GaugeValue, float64(s.Lag)},
		{"games_kept_total", "Games that were kept since the learner's start.", prometheus.CounterValue, float64(s.Kept)},
		{"games_duplicate_total", "Games that came again.", prometheus.CounterValue, float64(s.Duplicates)},
		{"messages_refused_total", "Messages with games that were refused.", prometheus.CounterValue, float64(s.Refused)},
		{"write_failures_total", "Times that games could not be written to the disk.", prometheus.CounterValue, float64(s.Failures)},
	} {
		to <- prometheus.MustNewConstMetric(prometheus.NewDesc("evald_cluster_"+m.name, m.help, nil, nil), m.kind, m.value)
	}
}
