package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/short"
)

// Messages of a subject that wait for the learner, at most. What comes meanwhile is dropped, and its worker sends it again.
const (
	mostWaiting      = 4096
	mostWaitingBytes = 4 << 20
	mostGamesBytes   = 32 << 20 // of gamesSubject
)

// mostList is the most values in the lists of a message: a worker with so many games has no more leases.
const mostList = spoolGames

// listen begins to answer workers.
func (l *Learner) listen() error {
	games, err := l.conn.SubscribeSync(gamesSubject)
	if err == nil {
		err = games.SetPendingLimits(mostWaiting, mostGamesBytes)
	}
	if err != nil {
		return err
	}
	l.incoming = games
	l.done.Go(l.keep)
	for subject, answer := range map[string]nats.MsgHandler{
		helloSubject:   l.answering(l.hello),
		jobSubject:     l.answering(l.jobFor),
		networkSubject: l.networkFor,
		workerSubject:  l.reported,
		statusSubject:  l.statusFor,
	} {
		s, err := l.conn.Subscribe(subject, answer)
		if err == nil {
			err = s.SetPendingLimits(mostWaiting, mostWaitingBytes)
		}
		if err != nil {
			return err
		}
	}
	return l.conn.Flush()
}

// answering answers requests by a function.
func (l *Learner) answering(answer func(request) reply) nats.MsgHandler {
	return func(m *nats.Msg) {
		var r request
		if err := decode(m.Data, &r); err != nil {
			l.answer(m, reply{Refused: err.Error()})
			return
		}
		l.answer(m, answer(r))
	}
}

func (l *Learner) answer(m *nats.Msg, r reply) {
	r.Run = l.run
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // Validate has refused what JSON cannot have
	}
	l.respond(m, text)
}

// respond answers at inboxes alone: an answer at another subject could be taken for a message of the learner's own.
func (l *Learner) respond(m *nats.Msg, text []byte) {
	if !strings.HasPrefix(m.Reply, inboxes) {
		return
	}
	if err := m.Respond(text); err != nil {
		l.notices.say(slog.LevelWarn, "an answer cannot be sent", "error", err) // the worker asks again
	}
}

// decode reads a message without games.
func decode(text []byte, into any) error {
	if games, _, nested := elements(text); games > mostList || nested > mostNested {
		return fmt.Errorf("the message has lists of %d values, nested %d times, want %d and %d at most", games, nested, mostList, mostNested)
	}
	return game.DecodeJSON(text, into)
}

// versionOf says what is wrong with a worker's version, or nothing.
func (l *Learner) versionOf(version string) (refused string) {
	if version == l.o.Version {
		return ""
	}
	return fmt.Sprintf("its version is %s, and the learner's %q: install the learner's", short.Quote(version), l.o.Version)
}

// hello lets a worker of the same version in.
func (l *Learner) hello(r request) reply {
	if r.Worker == "" { // another learner asks whether one is here
		return reply{}
	}
	if refused := l.versionOf(r.Version); refused != "" {
		l.notices.say(slog.LevelWarn, "refused a worker of another version", "worker", short.To(r.Worker, 100), "version", short.To(r.Version, 100), "want", l.o.Version)
		return reply{Refused: refused}
	}
	l.notices.say(slog.LevelInfo, "a worker has joined", "worker", short.To(r.Worker, 100))
	return reply{}
}

// jobFor gives a worker a job, if there is one.
func (l *Learner) jobFor(r request) reply {
	if refused := l.versionOf(r.Version); refused != "" {
		return reply{Refused: refused}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.playing == nil || r.Run != l.run {
		return reply{}
	}
	j, ok := l.playing.next(time.Now(), l.lease, l.heard())
	if !ok {
		return reply{}
	}
	return reply{Job: &j}
}

// networkFor answers with a part of the network; the answer is empty if the learner has another one, or none.
func (l *Learner) networkFor(m *nats.Msg) {
	var r request
	var part []byte
	if decode(m.Data, &r) == nil {
		l.mu.Lock()
		if r.Network != "" && r.Network == l.sha256 && r.From >= 0 && r.From < len(l.network) {
			part = l.network[r.From:min(r.From+networkPart, len(l.network))]
		}
		l.mu.Unlock()
	}
	l.respond(m, part)
}

// notices are lines of the log that workers can cause: noticesAtOnce of them in noticesIn at most. The next line says how many
// were left out.
type notices struct {
	log *slog.Logger

	mu    sync.Mutex
	since time.Time
	lines int // since then
	left  int // left out
}

const (
	noticesAtOnce = 50
	noticesIn     = 10 * time.Second
)

// say writes a line, unless too many were written lately.
func (n *notices) say(level slog.Level, text string, about ...any) {
	n.mu.Lock()
	if now := time.Now(); now.Sub(n.since) > noticesIn {
		n.since, n.lines = now, 0
	}
	left := 0
	if n.lines++; n.lines > noticesAtOnce {
		n.left++
	} else {
		left, n.left = n.left, 0
	}
	write := n.lines <= noticesAtOnce
	n.mu.Unlock()
	if left > 0 {
		about = append(about, "left_out", left)
	}
	if write {
		n.log.Log(context.Background(), level, text, about...)
	}
}
