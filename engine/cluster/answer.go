package cluster

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// Upper bounds on the queues of messages for the learner. It drops messages beyond, and their workers resend them.
const (
	mostWaiting      = 4096
	mostWaitingBytes = 4 << 20
	mostGamesBytes   = 32 << 20 // of gamesSubject
)

// listen subscribes to workers' messages.
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
	for _, subject := range []string{helloSubject, jobSubject, networkSubject, workerSubject, statusSubject} {
		s, err := l.conn.Subscribe(subject, l.answer)
		if err == nil {
			err = s.SetPendingLimits(mostWaiting, mostWaitingBytes)
		}
		if err != nil {
			return err
		}
	}
	return l.conn.Flush()
}

// answer answers a message without games.
func (l *Learner) answer(m *nats.Msg) {
	q := readQuestion(m.Subject, m.Data)
	lag, most := 0, 0
	if q.subject == statusSubject { // on the connection's own goroutine, which is busy with incoming messages
		lag, most = l.lag(), int(l.conn.MaxPayload())
	}
	l.mu.Lock()
	a := l.state.answer(time.Now(), q, lag)
	l.mu.Unlock()
	l.respond(m, a.encode(most))
}

// respond answers only to inboxes: an answer to another subject could be taken for a message of the learner's own.
func (l *Learner) respond(m *nats.Msg, text []byte) {
	if !strings.HasPrefix(m.Reply, inboxes) {
		return
	}
	if err := m.Respond(text); err != nil {
		l.say(slog.LevelWarn, "an answer cannot be sent", "error", err) // the worker asks again
	}
}

// notices limits the lines of the log that workers can cause to noticesAtOnce in noticesIn. The next line gives the number of omitted
// lines.
type notices struct {
	log   *slog.Logger
	since time.Time
	lines int // since then
	left  int // omitted lines
}

const (
	noticesAtOnce = 50
	noticesIn     = 10 * time.Second
)

// say writes a line, unless too many were written lately.
func (n *notices) say(now time.Time, level slog.Level, text string, about ...any) {
	if now.Sub(n.since) > noticesIn || now.Before(n.since) {
		n.since, n.lines = now, 0
	}
	if n.lines++; n.lines > noticesAtOnce {
		n.left++
		return
	}
	if n.left > 0 {
		about = append(about, "left_out", n.left)
		n.left = 0
	}
	n.log.Log(context.Background(), level, text, about...)
}
