package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/evald/evald/engine/selfplay"
	"github.com/evald/evald/engine/short"
)

// Messages that are kept with one wait for the disk, at most.
const (
	together      = 64
	togetherBytes = 8 << 20 // and a message
)

// keep keeps games until the connection is closed.
func (l *Learner) keep() {
	for {
		m, err := l.incoming.NextMsgWithContext(context.Background())
		if errors.Is(err, nats.ErrSlowConsumer) { // messages were dropped; workers send them again
			continue
		}
		if err != nil {
			return
		}
		group := []*nats.Msg{m}
		for size := len(m.Data); len(group) < together && size < togetherBytes && l.lag() > 0; size += len(m.Data) { // no other goroutine receives
			if m, err = l.incoming.NextMsg(l.pause); err != nil {
				break
			}
			group = append(group, m)
		}
		l.keepGroup(group)
	}
}

// lag is how many messages with games wait.
func (l *Learner) lag() int {
	if l.incoming == nil { // not yet
		return 0
	}
	n, _, _ := l.incoming.Pending() // it fails when the connection is closed
	return max(n, 0)
}

// keepGroup keeps the games of some messages, and confirms them when they are on the disk.
func (l *Learner) keepGroup(group []*nats.Msg) {
	parcels := make([]parcel, len(group))
	var reading sync.WaitGroup
	for i, m := range group { // most of the work
		reading.Go(func() { parcels[i].read(m.Data) })
	}
	reading.Wait()
	err := l.keepParcels(parcels)
	for i, m := range group {
		r := parcels[i].reply
		if r.ok() && err != nil { // the worker keeps them
			r.Later = err.Error()
		}
		if r.Refused != "" {
			l.notices.say(slog.LevelWarn, "refused games", "worker", short.To(parcels[i].Worker, 100), "generation", parcels[i].Generation, "why", short.To(r.Refused, 500))
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
		return reply{Refused: l.versionOf(p.Version)}
	case p.Run != l.run:
		return reply{Later: "the games are of another run"}
	case p.Generation < 0:
		return reply{Refused: fmt.Sprintf("generation %d cannot be: want 0 or more", p.Generation)}
	case p.Generation <= l.last:
		return reply{}
	case g == nil || p.Generation != g.job.Generation:
		return reply{Later: "the learner does not play this generation now"}
	case p.Settings != g.id:
		return reply{Refused: fmt.Sprintf("the games were played by other rules, settings or another network than generation %d of the run, %s by %s", g.job.Generation, g.job.Config.Rules, g.job.Config.Network)}
	}
	end := g.upTo()
	for i := range p.Games {
		if n := p.Games[i].Number; n >= end && n < g.job.All { // it would wait in memory for all those before it
			return reply{Refused: fmt.Sprintf("game %d was in no job: games up to %d were", n, end-1)}
		}
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
