package play

import (
	"context"

	tea "charm.land/bubbletea/v2"

	"github.com/evald/evald/engine/game"
)

// task is background work on one position. Its reader gets the newest message; older messages that were not read in time are
// dropped.
type task struct {
	position game.Position
	seat     int // of the agent
	stop     context.CancelFunc
	news     chan tea.Msg // capacity 1; closed when the work is done
}

// start begins work at once rather than when a command runs: a command that is returned as the program ends never runs.
func (m *model) start(p game.Position, work func(ctx context.Context, k *task)) *task {
	ctx, stop := context.WithCancel(m.ctx)
	k := &task{position: p, stop: stop, news: make(chan tea.Msg, 1)}
	m.work.Go(func() {
		defer close(k.news)
		defer stop()
		work(ctx, k)
	})
	return k
}

// tell replaces the waiting message, if any. Only the task's own goroutine calls it.
func (k *task) tell(m tea.Msg) {
	select {
	case <-k.news:
	default:
	}
	k.news <- m
}

// next waits for a message; nil means the end.
func (k *task) next() tea.Msg { return <-k.news }
