package cluster

import (
	"cmp"
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
	Generation int     `json:"generation"`         // that it plays, or has played
	Network    string  `json:"network"`            // that it plays with, or has
	Fetching   string  `json:"fetching,omitempty"` // the network that it gets and makes ready
	Begun      int     `json:"begun"`              // games under way
	Games      int64   `json:"games"`              // played since its start
	PerSecond  float64 `json:"games_per_second"`   // since it last said so
	Kept       int64   `json:"kept"`               // confirmed by the learner
	Spool      int     `json:"spool"`              // games that are not
	Older      int     `json:"spool_older"`        // of which so many are of generations before its own
	Silent     float64 `json:"silent_seconds"`     // since it said so
	seen       time.Time
}

// Status is how a learner and its workers are.
type Status struct {
	Run        string  `json:"run"`
	Version    string  `json:"version"`
	Playing    bool    `json:"playing"` // false: it trains or measures
	Generation int     `json:"generation"`
	Network    string  `json:"network"`
	Games      int     `json:"games"`            // of the generation, kept
	All        int     `json:"all"`              // of the generation
	Proved     int     `json:"proved,omitempty"` // games of the generation, kept since the learner's start, that ended because they were proved
	PerSecond  float64 `json:"games_per_second"`
	Jobs       int     `json:"jobs"` // that no worker has taken
	Lag        int     `json:"lag"`  // messages with games that the learner has not looked at
	Kept       int64   `json:"kept"` // games since the learner's start
	Duplicates int64   `json:"duplicates"`
	Refused    int64   `json:"refused"`  // messages
	Failures   int64   `json:"failures"` // to write games to the disk

	Networks []InFlight `json:"networks"` // the newest first
	Older    int        `json:"older"`    // games of earlier generations that workers have begun, or have in their spools
	Heard    int        `json:"heard"`    // workers that were heard in the last minute
	Spool    int        `json:"spool"`    // games that they keep
	Played   float64    `json:"played_per_second"`
	Workers  []Worker   `json:"workers"` // the first of them by name, mostListed at most
}

// InFlight is a network that workers play with or get.
type InFlight struct {
	Generation int    `json:"generation"`
	Network    string `json:"network"`
	Playing    int    `json:"playing"`  // workers
	Fetching   int    `json:"fetching"` // workers
	Begun      int    `json:"begun"`    // games under way
}

// forgotten is when a silent worker is left out.
const forgotten = time.Minute

const (
	mostWorkers = 10_000 // whose status is kept
	mostListed  = 1_000  // in a Status, so that it fits a message
)

// listenStatus hears how workers are, and answers how all are.
func (l *Learner) listenStatus() error {
	_, err := l.conn.Subscribe(workerSubject, func(m *nats.Msg) {
		var w Worker
		if json.Unmarshal(m.Data, &w) != nil || w.Name == "" || len(w.Name)+len(w.Network)+len(w.Fetching) > 400 {
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
	s := l.total
	s.Run, s.Version, s.Generation, s.Jobs, s.Lag, s.Workers = l.run, l.o.Version, l.last, l.queued, len(l.incoming), []Worker{}
	if g := l.playing; g != nil {
		s.Playing, s.Generation, s.Network, s.Games, s.All = true, g.job.Generation, g.job.Config.Network, g.store.Games(), g.job.All
		s.Proved = g.store.Proved()
		s.PerSecond = float64(s.Games-g.had) / time.Since(g.start).Seconds()
	}
	l.heard()
	for _, w := range l.workers {
		w.Silent = time.Since(w.seen).Seconds()
		s.Workers = append(s.Workers, *w)
	}
	slices.SortFunc(s.Workers, func(a, b Worker) int { return strings.Compare(a.Name, b.Name) })
	s.sum()
	s.Workers = s.Workers[:min(mostListed, len(s.Workers))]
	return s
}

// heard is how many workers were heard lately. It leaves out the others. The caller has the lock.
func (l *Learner) heard() int {
	maps.DeleteFunc(l.workers, func(_ string, w *Worker) bool { return time.Since(w.seen) > forgotten })
	return len(l.workers)
}

// sum computes what is of all workers.
func (s *Status) sum() {
	s.Heard, s.Networks = len(s.Workers), []InFlight{}
	network := func(generation int, name string) *InFlight {
		i := slices.IndexFunc(s.Networks, func(n InFlight) bool { return n.Generation == generation && n.Network == name })
		if i < 0 {
			i = len(s.Networks)
			s.Networks = append(s.Networks, InFlight{Generation: generation, Network: name})
		}
		return &s.Networks[i]
	}
	for _, w := range s.Workers {
		s.Spool += w.Spool
		s.Played += w.PerSecond
		if w.Begun > 0 {
			n := network(w.Generation, w.Network)
			n.Playing++
			n.Begun += w.Begun
		}
		if w.Fetching != "" {
			network(s.Generation, w.Fetching).Fetching++
		}
		if w.Generation < s.Generation {
			s.Older += w.Begun + w.Spool
		} else {
			s.Older += w.Older
		}
	}
	slices.SortFunc(s.Networks, func(a, b InFlight) int {
		return cmp.Or(cmp.Compare(b.Generation, a.Generation), strings.Compare(a.Network, b.Network))
	})
	s.Networks = s.Networks[:min(mostListed, len(s.Networks))]
}

// Ask asks the learner at a server for its status.
func Ask(ctx context.Context, c Connection) (s Status, err error) {
	conn, err := c.connect("status", workerInbox, slog.New(slog.DiscardHandler))
	if err != nil {
		return s, err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(c.pace, usual).patience)
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
