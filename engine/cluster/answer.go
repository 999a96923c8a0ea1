package cluster

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// Upper bounds on the queues of messages for the learner. The learner drops messages beyond these bounds, and workers resend them.
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

// answer replies to a message without games.
func (l *Learner) answer(m *nats.Msg) {
	q := readQuestion(m.Subject, m.Data)
	lag, most := 0, 0
	if q.subject == statusSubject { // at once, on the connection's own goroutine, which also receives messages
		lag, most = l.lag(), int(l.conn.MaxPayload())
	}
	l.mu.Lock()
	a := l.state.answer(time.Now(), q, lag)
	l.mu.Unlock()
	l.respond(m, a.encode(most))
}

// respond replies only to inboxes: a reply to another subject could be taken for a message from the learner.
func (l *Learner) respond(m *nats.Msg, text []byte) {
	if !strings.HasPrefix(m.Reply, inboxes) {
		return
	}
	if err := m.Respond(text); err != nil {
		l.say(slog.LevelWarn, "an answer cannot be sent", "error", err) // the worker asks again
	}
}

// notices limits the log lines that workers can cause: at most noticesAtOnce in noticesIn. The next line after that contains the number of
// omitted lines.
type notices struct {
	log   *slog.Logger
	since time.Time
	lines int // lines since then
	left  int // omitted lines
}

const (
	noticesAtOnce = 50
	noticesIn     = 10 * time.Second
)

// say writes a line, unless too many have been written recently.
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
