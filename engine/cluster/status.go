package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
)

// Worker is how a worker is, as it says itself.
type Worker struct {
	Name       string  `json:"worker"`
	Generation int     `json:"generation"`
	Network    string  `json:"network"`
	Games      int64   `json:"games"`            // played since its start
	PerSecond  float64 `json:"games_per_second"` // since it last said so
	Kept       int64   `json:"kept"`             // confirmed by the learner
	Spool      int     `json:"spool"`            // games that are not
	Silent     float64 `json:"silent_seconds"`   // since it said so
	seen       time.Time
}

// Status is how a learner and its workers are.
type Status struct {
	Run        string   `json:"run"`
	Version    string   `json:"version"`
	Playing    bool     `json:"playing"` // false: it trains or measures
	Generation int      `json:"generation"`
	Network    string   `json:"network"`
	Games      int      `json:"games"` // of the generation, kept
	All        int      `json:"all"`   // of the generation
	PerSecond  float64  `json:"games_per_second"`
	Jobs       int      `json:"jobs"` // that no worker has taken
	Lag        int      `json:"lag"`  // messages with games that the learner has not looked at
	Kept       int64    `json:"kept"` // games since the learner's start
	Duplicates int64    `json:"duplicates"`
	Refused    int64    `json:"refused"`  // messages
	Failures   int64    `json:"failures"` // to write games to the disk
	Workers    []Worker `json:"workers"`
}

// forgotten is when a silent worker is left out.
const forgotten = time.Minute

const mostWorkers = 10_000 // whose status is kept

// listenStatus hears how workers are, and answers how all are.
func (l *Learner) listenStatus() error {
	_, err := l.conn.Subscribe(workerSubject, func(m *nats.Msg) {
		var w Worker
		if json.Unmarshal(m.Data, &w) != nil || w.Name == "" || len(w.Name) > 200 {
			return
		}
		w.seen = time.Now()
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.workers) < mostWorkers || l.workers[w.Name] != nil {
			l.workers[w.Name] = &w
		}
	})
	if err != nil {
		return err
	}
	_, err = l.conn.Subscribe(statusSubject, func(m *nats.Msg) {
		text, err := json.Marshal(l.Status())
		if err == nil {
			err = m.Respond(text)
		}
		if err != nil {
			l.o.Log.Warn("the status cannot be sent", "error", err)
		}
	})
	return err
}

// Status is how it is now.
func (l *Learner) Status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := Status{
		Run: l.run, Version: l.o.Version, Generation: l.last, Jobs: l.queued, Lag: len(l.incoming),
		Kept: l.counts.Games, Duplicates: l.counts.Duplicates, Refused: l.counts.Refused, Failures: l.counts.Failures, Workers: []Worker{},
	}
	if g := l.playing; g != nil {
		s.Playing, s.Generation, s.Network, s.Games, s.All = true, g.job.Generation, g.job.Config.Network, g.store.Games(), g.job.All
		s.PerSecond = float64(s.Games-g.had) / time.Since(g.start).Seconds()
	}
	maps.DeleteFunc(l.workers, func(_ string, w *Worker) bool { return time.Since(w.seen) > forgotten })
	for _, w := range l.workers {
		w.Silent = time.Since(w.seen).Seconds()
		s.Workers = append(s.Workers, *w)
	}
	slices.SortFunc(s.Workers, func(a, b Worker) int { return strings.Compare(a.Name, b.Name) })
	return s
}

// Ask asks the learner at a server for its status.
func Ask(ctx context.Context, c Connection) (s Status, err error) {
	conn, err := c.connect("status", workerInbox, slog.New(slog.DiscardHandler))
	if err != nil {
		return s, err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	m, err := conn.RequestWithContext(ctx, statusSubject, nil)
	if err != nil {
		return s, fmt.Errorf("%s: no learner answers: %w", c.plain(), err)
	}
	return s, json.Unmarshal(m.Data, &s)
}

// Describe implements prometheus.Collector.
func (l *Learner) Describe(to chan<- *prometheus.Desc) { prometheus.DescribeByCollect(l, to) }

// Collect implements prometheus.Collector.
func (l *Learner) Collect(to chan<- prometheus.Metric) {
	s := l.Status()
	spool, rate := 0, 0.
	for _, w := range s.Workers {
		spool, rate = spool+w.Spool, rate+w.PerSecond
	}
	for _, m := range []struct {
		name, help string
		kind       prometheus.ValueType
		value      float64
	}{
		{"workers", "Workers that were heard in the last minute.", prometheus.GaugeValue, float64(len(s.Workers))},
		{"workers_games_per_second", "Games a second that the workers say they play.", prometheus.GaugeValue, rate},
		{"spool_games", "Games that workers keep because the learner has not confirmed them.", prometheus.GaugeValue, float64(spool)},
		{"generation", "The generation that is played, or the last one.", prometheus.GaugeValue, float64(s.Generation)},
		{"generation_games", "Games of the generation that are kept.", prometheus.GaugeValue, float64(s.Games)},
		{"generation_games_wanted", "Games of the generation.", prometheus.GaugeValue, float64(s.All)},
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
