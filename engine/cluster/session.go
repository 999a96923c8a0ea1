package cluster

import (
	"cmp"
	"context"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/selfplay"
)

// session is a worker's state for one run of a learner. It executes the effects of a workerState.
type session struct {
	*worker
	ctx       context.Context
	networks  networks
	evaluator *eval.Evaluator // of the network opened last
	close     func()          // closes evaluator, or nil
	doing     sync.WaitGroup

	mu      sync.Mutex
	state   *workerState
	changed chan struct{} // closed at the next event
}

// play plays for a learner until ctx ends, the learner begins another run, or the learner rejects the worker.
func (w *worker) play(ctx context.Context) error {
	open := func(run string) (*spool, error) {
		return openSpool(w.home, w.home.Path("spool-"+run+".jsonl"), w.pace.spool, w.o.Log)
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &session{
		worker: w, ctx: ctx, networks: networks{disk: w.home, dir: filepath.Join(w.o.Dir, "networks")},
		state: newWorkerState(w.o, w.pace, w.name, w.questions, open), changed: make(chan struct{}),
	}
	err := s.run()
	cancel()
	w.questions = s.state.questions
	s.doing.Wait()
	if s.close != nil {
		s.close()
	}
	s.networks.drop()
	if s.state.spool != nil {
		s.state.leave()
		s.send(s.state.take())
		_ = s.conn.FlushTimeout(s.pace.pause)
		s.state.spool.close()
	}
	return err
}

// run calls the state's step repeatedly, and executes its effects.
func (s *session) run() error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		s.mu.Lock()
		next := s.state.step(time.Now())
		s.wake() // goroutines in await
		effects, err, changed := s.state.take(), s.state.failed, s.changed
		s.mu.Unlock()
		if err := cmp.Or(s.ctx.Err(), err); err != nil {
			return err
		}
		s.send(effects)
		for _, e := range effects {
			switch e.kind {
			case send:
			case drop:
				s.networks.drop()
			default:
				s.doing.Go(func() { s.do(e) })
			}
		}
		timer.Reset(time.Until(next))
		select {
		case <-s.ctx.Done():
		case <-timer.C:
		case <-changed:
		case m := <-s.answers:
			number, err := strconv.Atoi(m.Subject[strings.LastIndex(m.Subject, ".")+1:])
			if err == nil && len(m.Data) == 0 && m.Header.Get("Status") == "503" {
				err = nats.ErrNoResponders
			}
			s.tell(func(now time.Time) { s.state.answered(now, number, m.Data, err) })
		case err := <-s.lost:
			s.tell(func(now time.Time) { s.state.lost(now, err) })
		}
	}
}

// tell passes an event to the state.
func (s *session) tell(what func(now time.Time)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	what(time.Now())
	s.wake()
}

// wake lets run and await check the state again. The caller must hold mu.
func (s *session) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// await calls ready after every event, until it returns true or ctx ends.
func (s *session) await(ready func() bool) error {
	for {
		s.mu.Lock()
		done, changed := ready(), s.changed
		if done {
			s.wake()
		}
		s.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-s.ctx.Done():
			return s.ctx.Err()
		case <-changed:
		}
	}
}

func (s *session) send(effects []effect) {
	for _, e := range effects {
		if e.kind != send {
			continue
		}
		if e.call == 0 {
			_ = s.conn.Publish(e.subject, e.text) // if it is lost, another report will follow
			continue
		}
		if err := s.conn.PublishRequest(e.subject, s.inbox+"."+strconv.Itoa(e.call), e.text); err != nil {
			s.tell(func(now time.Time) { s.state.answered(now, e.call, nil, err) })
		}
	}
}

// do executes an effect that takes time.
func (s *session) do(e effect) {
	switch e.kind {
	case look:
		found, another, err := s.networks.look(e.job.Network)
		s.tell(func(now time.Time) { s.state.looked(now, found, another, err) })
	case keep:
		err := s.networks.keep(e.job.Network, e.text)
		if err == nil {
			err = s.open(e.job)
		}
		s.tell(func(now time.Time) { s.state.opened(now, err) })
	case open:
		err := s.open(e.job)
		s.tell(func(now time.Time) { s.state.opened(now, err) })
	case play:
		err := selfplay.PlayNext(s.ctx, s.evaluator, e.job.Config, s.nextGame, s.played)
		s.tell(func(time.Time) { s.state.ended(err) })
	}
}

// open opens the evaluator of a job's network, in place of the previous one.
func (s *session) open(j job) error {
	file := ""
	if j.Network != "" {
		file = s.networks.path(j.Network)
	}
	e, done, err := s.o.Evaluator(file, j.Config.Network, j.Config.Path)
	if err != nil {
		return err
	}
	if s.close != nil {
		s.close()
	}
	s.evaluator, s.close = selfplay.Remember(e, j.Config.Network, selfplay.Remembered), done
	return nil
}

// nextGame waits until a game can begin. It returns false if there is none.
func (s *session) nextGame() (number int, ok bool) {
	err := s.await(func() bool {
		var more bool
		number, ok, more = s.state.nextGame()
		return ok || !more
	})
	return number, ok && err == nil
}

// played adds a finished game to the spool. If the spool is full, it waits.
func (s *session) played(g *selfplay.Game) error {
	text := encode(g)
	return s.await(func() bool { return s.state.played(g.Number, text) })
}
