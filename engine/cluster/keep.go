package cluster

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/evald/evald/engine/selfplay"
)

// Upper bounds on the messages whose games are written at once.
const (
	together      = 64
	togetherBytes = 8 << 20 // exceeded by at most one message
)

// keep receives and writes games until the connection is closed.
func (l *Learner) keep() {
	for {
		m, err := l.incoming.NextMsgWithContext(context.Background())
		if errors.Is(err, nats.ErrSlowConsumer) { // messages were dropped; workers resend them
			continue
		}
		if err != nil {
			return
		}
		group := []*nats.Msg{m}
		for size := len(m.Data); len(group) < together && size < togetherBytes && l.lag() > 0; size += len(m.Data) { // no other goroutine receives, so a waiting message stays
			if m, err = l.incoming.NextMsg(l.pause); err != nil {
				break
			}
			group = append(group, m)
		}
		l.keepGroup(group)
	}
}

// lag is the number of waiting messages with games.
func (l *Learner) lag() int {
	if l.incoming == nil { // not subscribed yet
		return 0
	}
	n, _, _ := l.incoming.Pending() // fails if the connection is closed
	return max(n, 0)
}

// keepGroup writes the games of some messages, and sends the replies once the games are on the disk.
func (l *Learner) keepGroup(group []*nats.Msg) {
	for i, p := range l.keepParcels(group) {
		l.respond(group[i], encode(p.reply))
	}
	select {
	case l.progress <- struct{}{}:
	default:
	}
}

// keepParcels reads messages, decides on them, and writes the accepted games to the disk.
func (l *Learner) keepParcels(group []*nats.Msg) []parcel {
	l.keeping.Lock()
	defer l.keeping.Unlock()
	parcels := make([]parcel, len(group))
	var reading sync.WaitGroup
	for i, m := range group { // most of the work
		reading.Go(func() {
			parcels[i].read(m.Data)
			l.state.judge(&parcels[i])
		})
	}
	reading.Wait()
	var err error
	if games := l.state.accept(parcels); len(games) > 0 {
		err = l.add(l.state.playing, games...)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state.confirm(time.Now(), parcels, err)
	return parcels
}

// add writes games of a generation. The caller must hold keeping.
func (l *Learner) add(g *generation, games ...*selfplay.Game) error {
	fresh, err := g.add(games...)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state.stored(time.Now(), g, len(games), fresh, err)
	return err
}
