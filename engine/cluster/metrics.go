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
		{"workers", "Workers that reported in the last minute.", prometheus.GaugeValue, float64(s.Heard)},
		{"workers_games_per_second", "Games per second, as reported by the workers.", prometheus.GaugeValue, s.Played},
		{"spool_games", "Games in workers' spools: played, but not confirmed by the learner.", prometheus.GaugeValue, float64(s.Spool)},
		{"networks", "Networks that workers play with or fetch.", prometheus.GaugeValue, float64(len(s.Networks))},
		{"workers_fetching", "Workers that are fetching a network.", prometheus.GaugeValue, float64(fetching)},
		{"older_games", "Games of earlier generations in progress or in workers' spools.", prometheus.GaugeValue, float64(s.Older)},
		{"generation", "The current generation, or the last one.", prometheus.GaugeValue, float64(s.Generation)},
		{"generation_games", "Stored games of the generation.", prometheus.GaugeValue, float64(s.Games)},
		{"generation_games_wanted", "Games of the generation.", prometheus.GaugeValue, float64(s.All)},
		{"generation_games_proved", "Games of the generation, stored since the learner started, that ended because their result was proved.", prometheus.GaugeValue, float64(s.Proved)},
		{"jobs_waiting", "Jobs that no worker has leased.", prometheus.GaugeValue, float64(s.Jobs)},
		{"lag_messages", "Messages with games that the learner has not processed yet.", prometheus.GaugeValue, float64(s.Lag)},
		{"games_kept_total", "Games stored since the learner started.", prometheus.CounterValue, float64(s.Kept)},
		{"games_duplicate_total", "Games that arrived more than once.", prometheus.CounterValue, float64(s.Duplicates)},
		{"messages_refused_total", "Rejected messages with games.", prometheus.CounterValue, float64(s.Refused)},
		{"write_failures_total", "Failed writes of games to the disk.", prometheus.CounterValue, float64(s.Failures)},
	} {
		to <- prometheus.MustNewConstMetric(prometheus.NewDesc("evald_cluster_"+m.name, m.help, nil, nil), m.kind, m.value)
	}
}
