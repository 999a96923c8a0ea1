package cluster

import (
	"slices"
	"time"

	"github.com/evald/evald/engine/selfplay"
)

const window = 1 << 14

// jobGames returns the number of games per job for the given number of workers. Jobs are small, so that all workers end a generation at
// about the same time.
func jobGames(all, workers int) int { return min(max(min(all, window)/max(64, 4*workers), 4), 128) }

// share returns the maximum number of concurrent games per worker. It is small enough that every worker gets games, and that workers
// without games do not wait long for those that took the last ones.
func share(all, workers int) int {
	workers = max(workers, 1)
	return max(min(all/max(8, 2*workers), window/(2*workers)), 16)
}

// generation is a generation in play.
type generation struct {
	job     job // without Lease and Missing
	id      string
	network []byte // nil if a heuristic plays
	store   *selfplay.Store
	window  int
	grew    time.Time // time at which the last new game arrived
	start   time.Time
	had     int // number of games that existed at the start

	given  int               // games below this number have been in a job
	again  []span            // of these, games that must be leased again
	leases map[string]*lease // by name
}

// newGeneration returns the generation of a batch. network is the content of the network that plays, or nil for a heuristic.
func newGeneration(b selfplay.Batch, network []byte, store *selfplay.Store, window int, now time.Time) *generation {
	g := &generation{
		job:     job{Generation: b.Generation, Config: b.Config, All: b.Games, Bytes: len(network)},
		network: network, store: store, window: window, grew: now, start: now, had: store.Games(), leases: map[string]*lease{},
	}
	if network != nil {
		g.job.Network = sum(network)
	}
	g.id = g.job.settings()
	return g
}

func (g *generation) progress(now time.Time) selfplay.Progress {
	had := g.store.Games()
	return selfplay.Progress{Games: had, All: g.job.All, Played: had - g.had, Proved: g.store.Proved(), Elapsed: now.Sub(g.start)}
}

// add writes games to the disk and returns the number of new ones.
func (g *generation) add(games ...*selfplay.Game) (fresh int, err error) {
	had := g.store.Games()
	err = g.store.Add(games...)
	return g.store.Games() - had, err
}

// span is the games from first up to, not including, end.
type span struct{ first, end int }

// lease is a worker's claim to a job.
type lease struct {
	span
	until time.Time // when the lease expires unless the worker reports it before
}

// next leases games that have no lease, under a new name. ok is false if there are none now.
func (g *generation) next(name func() string, now time.Time, lasts time.Duration, workers int) (j job, ok bool) {
	j = g.job
	j.AtOnce = share(j.All, workers)
	for {
		s, ok := g.nextSpan(workers)
		if !ok {
			return job{}, false
		}
		for n := s.first; n < s.end; n++ {
			if !g.store.Has(n) {
				j.Missing = append(j.Missing, n)
			}
		}
		if len(j.Missing) > 0 {
			j.Lease = name()
			g.leases[j.Lease] = &lease{s, now.Add(lasts)}
			return j, true
		}
	}
}

// nextSpan returns games that must be leased again, or else games that were in no job yet.
func (g *generation) nextSpan(workers int) (s span, ok bool) {
	if len(g.again) > 0 {
		s, g.again = g.again[0], g.again[1:]
		return s, true
	}
	to := g.upTo()
	if g.given >= to {
		return s, false
	}
	s = span{g.given, min(g.given+jobGames(g.job.All, workers), to)}
	g.given = s.end
	return s, true
}

// upTo is the end of the games that may be leased, and accepted, now.
func (g *generation) upTo() int { return min(g.store.First()+g.window, g.job.All) }

// waiting is the number of jobs that no worker has leased.
func (g *generation) waiting(workers int) int {
	size := jobGames(g.job.All, workers)
	return len(g.again) + (max(g.upTo()-g.given, 0)+size-1)/size
}

// renew extends a worker's leases. It ignores leases that this learner does not have, because it was restarted or because they have
// expired.
func (g *generation) renew(names []string, now time.Time, lasts time.Duration) {
	for _, name := range names {
		if l := g.leases[name]; l != nil {
			l.until = now.Add(lasts)
		}
	}
}

// giveBack ends leases, so that their games are leased again.
func (g *generation) giveBack(names []string) {
	for _, name := range names {
		if l := g.leases[name]; l != nil {
			g.again = append(g.again, l.span)
			delete(g.leases, name)
		}
	}
}

// expire ends the leases of silent workers. If no new game arrives for a long time although all games are leased, some worker does not play
// its games; then all missing games are leased again. A game that two workers play is stored once.
func (g *generation) expire(now time.Time, lasts time.Duration) {
	var over []string
	for name, l := range g.leases {
		if now.After(l.until) {
			over = append(over, name)
		}
	}
	slices.SortFunc(over, func(a, b string) int { return g.leases[a].first - g.leases[b].first })
	g.giveBack(over)
	if len(g.again) == 0 && g.given >= g.upTo() && now.Sub(g.grew) > 2*lasts {
		g.given, g.grew = g.store.First(), now
		clear(g.leases)
	}
}
