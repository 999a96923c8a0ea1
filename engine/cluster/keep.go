package cluster

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/evald/evald/engine/selfplay"
	"github.com/evald/evald/engine/short"
)

// together is how many messages are kept with one wait for the disk.
const together = 64

// listen begins to answer workers.
func (l *Learner) listen() error {
	l.done.Go(l.keep)
	_, err := l.conn.ChanSubscribe(gamesSubject, l.incoming)
	if err != nil {
		return err
	}
	for subject, answer := range map[string]func(request) reply{helloSubject: l.hello, missingSubject: l.missingOf} {
		if _, err := l.conn.Subscribe(subject, func(m *nats.Msg) {
			var r request
			if err := json.Unmarshal(m.Data, &r); err != nil {
				l.answer(m, reply{Refused: err.Error()})
				return
			}
			l.answer(m, answer(r))
		}); err != nil {
			return err
		}
	}
	return l.listenStatus()
}

func (l *Learner) answer(m *nats.Msg, r reply) {
	r.Run = l.run
	text, err := json.Marshal(r)
	if err == nil {
		err = m.Respond(text)
	}
	if err != nil {
		l.o.Log.Warn("an answer cannot be sent", "error", err) // the worker asks again
	}
}

// hello lets a worker of the same version in.
func (l *Learner) hello(r request) reply {
	if r.Worker == "" { // another learner asks whether one is here
		return reply{}
	}
	if r.Version != l.o.Version {
		l.o.Log.Warn("refused a worker of another version", "worker", short.To(r.Worker, 100), "version", short.To(r.Version, 100), "want", l.o.Version)
		return reply{Refused: fmt.Sprintf("its version is %.100q, and the learner's %q: install the learner's", r.Version, l.o.Version)}
	}
	l.o.Log.Info("a worker has joined", "worker", short.To(r.Worker, 100))
	return reply{}
}

// missingOf says which games of a job are still to be played. A generation that is not being played misses none.
func (l *Learner) missingOf(r request) (a reply) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if g := l.playing; g != nil && r.Run == l.run && r.Settings == g.id && r.First >= 0 && r.Number <= window {
		for n := r.First; n < min(r.First+r.Number, g.job.All); n++ {
			if !g.store.Has(n) {
				a.Missing = append(a.Missing, n)
			}
		}
	}
	return a
}

// keep keeps games until the connection is closed.
func (l *Learner) keep() {
	for m := range l.incoming {
		group := []*nats.Msg{m}
		for len(group) < together && len(l.incoming) > 0 { // no other goroutine receives
			group = append(group, <-l.incoming)
		}
		l.keepGroup(group)
	}
}

// parcel is a message with games.
type parcel struct {
	request
	Games []selfplay.Game `json:"games"` // in place of request.Games
	reply reply
}

// keepGroup keeps the games of some messages, and confirms them when they are on the disk.
func (l *Learner) keepGroup(group []*nats.Msg) {
	parcels := make([]parcel, len(group))
	var reading sync.WaitGroup
	for i, m := range group { // most of the work
		reading.Go(func() {
			if err := json.Unmarshal(m.Data, &parcels[i]); err != nil {
				parcels[i].reply.Refused = err.Error()
			}
		})
	}
	reading.Wait()
	err := l.keepParcels(parcels)
	for i, m := range group {
		r := parcels[i].reply
		if r.ok() && err != nil { // the worker keeps them
			r.Later = err.Error()
		}
		if r.Refused != "" {
			l.o.Log.Warn("refused games", "worker", short.To(parcels[i].Worker, 100), "generation", parcels[i].Generation, "why", short.To(r.Refused, 500))
		}
		l.answer(m, r)
	}
	select {
	case l.progress <- struct{}{}:
	default:
	}
}

// keepParcels judges parcels and writes their games to the disk.
func (l *Learner) keepParcels(parcels []parcel) error {
	l.keeping.Lock()
	defer l.keeping.Unlock()
	g := l.playing
	var games []*selfplay.Game
	var refused, again int64
	for i := range parcels {
		p := &parcels[i]
		if p.reply.ok() {
			p.reply = l.judge(p)
		}
		switch {
		case p.reply.Refused != "":
			refused++
		case p.reply.ok() && g != nil && p.Generation == g.job.Generation:
			for i := range p.Games {
				games = append(games, &p.Games[i])
			}
		case p.reply.ok():
			again += int64(len(p.Games))
		}
	}
	l.mu.Lock()
	l.total.Refused += refused
	l.total.Duplicates += again
	l.mu.Unlock()
	if len(games) == 0 {
		return nil
	}
	return l.add(g, games...)
}

// judge says why games are not taken. Those of an earlier generation are, because that is complete, and has them.
func (l *Learner) judge(p *parcel) reply {
	g := l.playing
	switch {
	case p.Version != l.o.Version:
		return reply{Refused: fmt.Sprintf("its version is %.100q, and the learner's %q: install the learner's", p.Version, l.o.Version)}
	case p.Run != l.run:
		return reply{Later: "the games are of another run"}
	case p.Generation <= l.last:
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

// add keeps games of a generation. The caller holds keeping.
func (l *Learner) add(g *generation, games ...*selfplay.Game) error {
	had := g.store.Games()
	err := g.store.Add(games...)
	fresh := g.store.Games() - had
	l.mu.Lock()
	defer l.mu.Unlock()
	if fresh > 0 {
		g.grew = time.Now()
	}
	l.total.Kept += int64(fresh)
	l.total.Duplicates += int64(len(games) - fresh)
	if err != nil {
		l.total.Failures++
		l.o.Log.Error("games cannot be written; trying again", "error", err)
	}
	return err
}
