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
	mostListed  = 1_000  // in a Status
	mostName    = 200    // bytes
)

// report is what a worker reports.
type report struct {
	Worker
	Holds   []string `json:"holds,omitempty"`   // leases that it has
	Returns []string `json:"returns,omitempty"` // leases that others may have
}

// check says why a report cannot be a worker's. Numbers that add up to no overflow and names that a terminal can show are all
// that is looked at: a worker can report what it likes.
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

// printable is a name with ? in place of what cannot be printed, such as what moves a terminal's cursor.
func printable(name string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, name)
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
