package cluster

import (
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/selfplay"
	"github.com/evald/evald/engine/short"
)

// learnerState is a learner's knowledge of its run and its workers, and makes its decisions. It has no connection, clock or goroutine:
// Learner, or the simulation, calls it with messages and the time. The only disk that it uses is the store of a generation.
type learnerState struct {
	pace
	version string
	program string        // for people
	run     string        // unique random name of the run
	name    func() string // returns a random name for a new lease
	notices notices

	playing *generation // nil between generations
	last    int         // number of the last complete generation, -1 if unknown
	workers map[string]*Worker
	total   Status // Kept, Duplicates, Refused and Failures since the start
	network []byte // the network that workers can fetch
	sha256  string // of network
}

func newLearnerState(version string, p pace, log *slog.Logger, name func() string) *learnerState {
	return &learnerState{pace: p, version: version, name: name, notices: notices{log: log}, last: -1, workers: map[string]*Worker{}}
}

func (s *learnerState) begin(g *generation) {
	s.playing, s.last = g, g.job.Generation-1
	s.network, s.sha256 = g.network, g.job.Network
}

func (s *learnerState) end(complete bool) {
	if complete {
		s.last = s.playing.job.Generation
	}
	s.playing = nil
}

// question is a message to the learner without games.
type question struct {
	subject string
	request request
	report  report
	err     error // parse error
}

// mostList is the maximum length of a list in a message. A worker has at most spoolGames leases, because its spool holds no more games.
const mostList = spoolGames

// readQuestion parses a message without games to the given subject.
func readQuestion(subject string, text []byte) (q question) {
	q.subject = subject
	if games, _, nested := elements(text); games > mostList || nested > mostNested {
		q.err = fmt.Errorf("the message has lists of %d values, nested %d times, want %d and %d at most", games, nested, mostList, mostNested)
		return q
	}
	switch subject {
	case statusSubject: // has no text
	case workerSubject:
		if q.err = game.DecodeJSON(text, &q.report); q.err == nil {
			q.err = q.report.check()
		}
	default:
		q.err = game.DecodeJSON(text, &q.request)
	}
	return q
}

// answer is the learner's answer: one of the three fields, or none.
type answer struct {
	reply  *reply
	status *Status
	part   []byte // part of a network
}

// encode returns the answer as text. If a status exceeds most bytes because of long names, it lists fewer workers and networks.
func (a answer) encode(most int) []byte {
	switch {
	case a.reply != nil:
		return encode(a.reply)
	case a.status != nil:
		for s := a.status; ; s.Workers, s.Networks = s.Workers[:len(s.Workers)/2], s.Networks[:(len(s.Networks)+1)/2] {
			if text := encode(s); len(text) <= most {
				return text
			}
		}
	}
	return a.part
}

func encode(message any) []byte {
	text, err := json.Marshal(message)
	if err != nil {
		panic(err) // Validate and report.check have rejected everything that JSON cannot represent
	}
	return text
}

// answer returns the answer to a question. lag is the number of waiting messages with games.
func (s *learnerState) answer(now time.Time, q question, lag int) (a answer) {
	switch q.subject {
	case networkSubject:
		if q.err == nil {
			a.part = s.part(q.request)
		}
	case workerSubject:
		s.reported(now, q)
	case statusSubject:
		a.status = new(s.status(now, lag))
	default:
		r := reply{}
		switch {
		case q.err != nil:
			r.Refused = q.err.Error()
		case q.subject == helloSubject:
			r = s.hello(now, q.request)
		case q.subject == jobSubject:
			r = s.jobFor(now, q.request)
		}
		r.Run = s.run
		a.reply = &r
	}
	return a
}

// versionOf describes the mistake in a worker's version; it returns "" if there is none.
func (s *learnerState) versionOf(version string) (refused string) {
	if version == s.version {
		return ""
	}
	return fmt.Sprintf("its version is %s, and the learner's %q: install %s", short.Quote(version), s.version, cmp.Or(s.program, "the learner's"))
}

// hello admits a worker if its version is the learner's.
func (s *learnerState) hello(now time.Time, r request) reply {
	if r.Worker == "" { // another learner asks whether the server has one
		return reply{}
	}
	if refused := s.versionOf(r.Version); refused != "" {
		s.notices.say(now, slog.LevelWarn, "refused a worker of another version", "worker", short.To(r.Worker, 100), "version", short.To(r.Version, 100), "want", s.version)
		return reply{Refused: refused}
	}
	s.notices.say(now, slog.LevelInfo, "a worker has joined", "worker", short.To(r.Worker, 100))
	return reply{}
}

// jobFor leases a job to a worker if there is one.
func (s *learnerState) jobFor(now time.Time, r request) reply {
	if refused := s.versionOf(r.Version); refused != "" {
		return reply{Refused: refused}
	}
	if s.playing == nil || r.Run != s.run {
		return reply{}
	}
	j, ok := s.playing.next(s.name, now, s.lease, s.heard(now))
	if !ok {
		return reply{}
	}
	return reply{Job: &j}
}

// part returns a part of the network. It is empty if the learner has no network or another one.
func (s *learnerState) part(r request) []byte {
	if r.Network == "" || r.Network != s.sha256 || r.From < 0 || r.From >= len(s.network) {
		return nil
	}
	return s.network[r.From:min(r.From+networkPart, len(s.network))]
}

// reported stores a worker's report, and renews or ends its leases.
func (s *learnerState) reported(now time.Time, q question) {
	if q.err != nil {
		s.notices.say(now, slog.LevelWarn, "an invalid report of a worker was dropped", "error", short.To(q.err.Error(), 500))
		return
	}
	r := q.report
	r.seen = now
	if r.Left {
		s.notices.say(now, slog.LevelInfo, "a worker has left", "worker", r.Name)
		delete(s.workers, r.Name)
	} else if len(s.workers) < mostWorkers || s.workers[r.Name] != nil {
		s.workers[r.Name] = &r.Worker
	}
	if g := s.playing; g != nil {
		g.renew(r.Holds, now, s.lease)
		g.giveBack(r.Returns)
	}
}

// heard returns the number of workers that are not lost. It forgets and logs the others.
func (s *learnerState) heard(now time.Time) int {
	for name, w := range s.workers {
		if silent := now.Sub(w.seen); silent > s.lost {
			s.notices.say(now, slog.LevelWarn, "a worker is lost: others play its games", "worker", name, "silent_seconds", math.Round(silent.Seconds()), "spool", w.Spool)
			delete(s.workers, name)
		}
	}
	return len(s.workers)
}

func (s *learnerState) status(now time.Time, lag int) Status {
	all := s.total
	all.Run, all.Version, all.Generation, all.Lag, all.Workers = s.run, cmp.Or(s.program, s.version), s.last, lag, []Worker{}
	workers := s.heard(now)
	if g := s.playing; g != nil {
		all.Playing, all.Generation, all.Network, all.Games, all.All = true, g.job.Generation, g.job.Config.Network, g.store.Games(), g.job.All
		all.Proved, all.Jobs = g.store.Proved(), g.waiting(workers)
		all.PerSecond = float64(all.Games-g.had) / max(now.Sub(g.start).Seconds(), 1e-9)
	}
	for _, w := range s.workers {
		w.Silent = now.Sub(w.seen).Seconds()
		all.Workers = append(all.Workers, *w)
	}
	slices.SortFunc(all.Workers, func(a, b Worker) int { return strings.Compare(a.Name, b.Name) })
	all.sum()
	all.Workers = all.Workers[:min(mostListed, len(all.Workers))]
	return all
}

// judge decides on a message with games. It may be called for several messages at the same time.
func (s *learnerState) judge(p *parcel) {
	if p.reply.ok() {
		p.reply = s.verdict(p)
	}
}

// accept returns the games of judged messages that are to be written. The replies of accepted messages are valid once
// their games are on the disk.
func (s *learnerState) accept(parcels []parcel) (games []*selfplay.Game) {
	for i := range parcels {
		p := &parcels[i]
		if !p.reply.ok() || p.Generation <= s.last {
			continue
		}
		end := s.playing.upTo()
		for i := range p.Games {
			if g := &p.Games[i]; g.Number < end {
				games = append(games, g)
			} else { // it would have to wait in memory for all earlier games
				p.reply.Early, p.reply.Later = true, fmt.Sprintf("game %d is in no job yet: games up to %d are", g.Number, end-1)
			}
		}
	}
	return games
}

// verdict rejects the games of a parcel, or returns an empty reply. It accepts games of earlier generations: these generations are
// complete, so the learner already has the games.
func (s *learnerState) verdict(p *parcel) reply {
	g := s.playing
	switch {
	case p.Version != s.version:
		return reply{Refused: s.versionOf(p.Version)}
	case p.Run != s.run:
		return reply{Later: "the games are of another run"}
	case p.Generation < 0:
		return reply{Refused: fmt.Sprintf("generation %d cannot be: want 0 or more", p.Generation)}
	case p.Generation <= s.last:
		return reply{}
	case g == nil || p.Generation != g.job.Generation:
		return reply{Later: "the learner does not play this generation now"}
	case p.Settings != g.id:
		return reply{Refused: fmt.Sprintf("the games were played by other rules, settings or another network than generation %d of the run, %s by %s", g.job.Generation, g.job.Config.Rules, g.job.Config.Network)}
	}
	for i := range p.Games {
		if err := g.store.Check(&p.Games[i]); err != nil {
			return reply{Refused: err.Error()}
		}
	}
	return reply{}
}

// confirm completes the replies after games were written, or after the write failed with err, and counts the games.
func (s *learnerState) confirm(now time.Time, parcels []parcel, err error) {
	for i := range parcels {
		p := &parcels[i]
		switch {
		case p.reply.Refused != "":
			s.total.Refused++
			s.notices.say(now, slog.LevelWarn, "refused games", "worker", short.To(p.Worker, 100), "generation", p.Generation, "why", short.To(p.reply.Refused, 500))
		case p.reply.ok() && p.Generation <= s.last:
			s.total.Duplicates += int64(len(p.Games))
		case err != nil: // the worker keeps the games
			p.reply.Later = err.Error()
		}
		p.reply.Run = s.run
	}
}

// stored counts written games, fresh of which were new. err is not nil if some could not be written.
func (s *learnerState) stored(now time.Time, g *generation, games, fresh int, err error) {
	if fresh > 0 {
		g.grew = now
	}
	s.total.Kept += int64(fresh)
	s.total.Duplicates += int64(games - fresh)
	if err != nil {
		s.total.Failures++
		s.notices.log.Error("games cannot be written; trying again", "error", err)
	}
}
