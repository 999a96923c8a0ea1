package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/evald/evald/engine/short"
)

// Worker is the status that a worker reports about itself.
type Worker struct {
	Name       string  `json:"worker"`
	Generation int     `json:"generation"`         // the generation that it plays, or played last
	Network    string  `json:"network"`            // the network that it plays with, or played with last
	Fetching   string  `json:"fetching,omitempty"` // network that it is fetching or opening
	Begun      int     `json:"begun"`              // number of unfinished games
	Games      int64   `json:"games"`              // games played since the worker's start
	PerSecond  float64 `json:"games_per_second"`   // since the worker's last report
	Kept       int64   `json:"kept"`               // games that the learner has confirmed
	Spool      int     `json:"spool"`              // games that the learner has not confirmed
	Older      int     `json:"spool_older"`        // of these, games of earlier generations
	Silent     float64 `json:"silent_seconds"`     // seconds since the worker's last report
	seen       time.Time
}

// Status is a snapshot of the learner and its workers.
type Status struct {
	Run        string  `json:"run"`
	Version    string  `json:"version"`
	Playing    bool    `json:"playing"` // false while it trains or plays matches
	Generation int     `json:"generation"`
	Network    string  `json:"network"`
	Games      int     `json:"games"`            // stored games of the generation
	All        int     `json:"all"`              // of the generation
	Proved     int     `json:"proved,omitempty"` // games of the generation that ended by a proof, stored since the learner's start
	PerSecond  float64 `json:"games_per_second"`
	Jobs       int     `json:"jobs"` // jobs that no worker has leased
	Lag        int     `json:"lag"`  // waiting messages with games
	Kept       int64   `json:"kept"` // games stored since the learner's start
	Duplicates int64   `json:"duplicates"`
	Refused    int64   `json:"refused"`  // rejected messages
	Failures   int64   `json:"failures"` // failed writes of games

	Networks []InFlight `json:"networks"` // newest first
	Older    int        `json:"older"`    // games of earlier generations in progress or in spools
	Heard    int        `json:"heard"`    // workers that are not silent
	Spool    int        `json:"spool"`    // games in workers' spools
	Played   float64    `json:"played_per_second"`
	Workers  []Worker   `json:"workers"` // sorted by name, at most mostListed
}

// InFlight is a network that workers play with or fetch.
type InFlight struct {
	Generation int    `json:"generation"`
	Network    string `json:"network"`
	Playing    int    `json:"playing"`  // number of workers that play with it
	Fetching   int    `json:"fetching"` // number of workers that fetch it
	Begun      int    `json:"begun"`    // number of unfinished games
}

const (
	mostWorkers = 10_000 // maximum number of workers whose status is stored
	mostListed  = 1_000  // maximum number of workers in a Status
	mostName    = 200    // maximum length of a name in bytes
)

type report struct {
	Worker
	Holds   []string `json:"holds,omitempty"`   // leases that the worker still uses
	Returns []string `json:"returns,omitempty"` // leases that the worker gives back
	Left    bool     `json:"left,omitempty"`    // the worker plays no more
}

// check rejects reports that no worker sends. It only ensures that sums of the numbers do not overflow and that a terminal can show the
// names, because a worker can report anything.
func (w *Worker) check() error {
	for _, f := range []struct {
		name  string
		value float64
		most  float64
	}{
		{"generation", float64(w.Generation), 1e9},
		{"begun", float64(w.Begun), 1e9},
		{"games", float64(w.Games), 1e15},
		{"games_per_second", w.PerSecond, 1e9},
		{"kept", float64(w.Kept), 1e15},
		{"spool", float64(w.Spool), 1e9},
		{"spool_older", float64(w.Older), 1e9},
	} {
		if !(f.value >= 0 && f.value <= f.most) {
			return fmt.Errorf("%s is %v, want 0 to %v", f.name, f.value, f.most)
		}
	}
	for _, f := range []struct{ name, value string }{{"worker", w.Name}, {"network", w.Network}, {"fetching", w.Fetching}} {
		if len(f.value) > mostName || printable(f.value) != f.value {
			return fmt.Errorf("%s is %s, want a name of %d bytes at most that can be printed", f.name, short.Quote(f.value), mostName)
		}
	}
	if w.Name == "" {
		return errors.New("worker is empty")
	}
	return nil
}

// printable returns a name with ? in place of unprintable characters, such as those that move a terminal's cursor.
func printable(name string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, name)
}

// sum computes the totals over all workers.
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
	conn, err := c.connect("status", newInbox(), slog.New(slog.DiscardHandler))
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
