package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/evald/evald/engine/selfplay"
)

var errOtherRun = errors.New("the learner has begun another run")

// session is what a worker has of one run.
type session struct {
	*worker
	run   string
	spool *spool

	mu     sync.Mutex
	leases map[key]*taken // by each game under way or not confirmed
	now    Worker         // for the status
}

// key is a game of a run.
type key struct {
	settings string
	number   int
}

// taken is a job that this worker has.
type taken struct {
	job
	id   string
	left []int // games to begin
}

// play plays the jobs of a run until ctx ends or the learner has another run or refuses.
func (w *worker) play(ctx context.Context, run string) error {
	spool, err := openSpool(w.home, w.home.Path("spool-"+run+".jsonl"), w.o.Log)
	if err != nil {
		return err
	}
	s := &session{worker: w, run: run, spool: spool, leases: map[key]*taken{}, now: Worker{Name: w.name}}
	defer spool.close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for _, part := range []func(context.Context) error{s.send, s.renew, s.playJobs} {
		all.Go(func() {
			if err := part(ctx); err != nil {
				cancel(err)
			}
		})
	}
	<-ctx.Done()
	all.Wait()
	s.leave()
	return context.Cause(ctx)
}

// leave lets others have this worker's jobs at once.
func (s *session) leave() {
	s.mu.Lock()
	s.reportNow(report{Returns: s.held()}) // if it is lost, they wait until the lease ends
	s.mu.Unlock()
	_ = s.conn.FlushTimeout(s.pause)
}

// held are the names of the leases of this worker. The caller holds mu, as for reportNow.
func (s *session) held() (names []string) {
	listed := map[*taken]bool{}
	for _, t := range s.leases {
		if !listed[t] {
			listed[t] = true
			names = append(names, t.Lease)
		}
	}
	return names
}

// reportNow sends a report. It may be lost; another one will come.
func (s *session) reportNow(r report) {
	r.Worker = s.now
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // its numbers are finite
	}
	_ = s.conn.Publish(workerSubject, text)
}

// send sends games to the learner until it confirms them. It waits the longer for an answer the later answers come: what it
// sends again before, a learner that lags must read too, and would answer nobody in time.
func (s *session) send(ctx context.Context) error {
	answer := s.patience
	for wait, said := s.pause, false; ; {
		some, err := s.spool.next(ctx)
		if err != nil {
			return err
		}
		q := request{Run: s.run, Generation: some[0].Generation, Settings: some[0].Settings}
		for _, g := range some {
			q.Games = append(q.Games, g.Game)
		}
		asked := time.Now()
		r, err := s.ask(ctx, answer, gamesSubject, q)
		took := time.Since(asked)
		answer = min(max(s.patience, 2*took), mostPatience*s.patience)
		switch {
		case err == nil && r.Run != s.run:
			return errOtherRun
		case err == nil && r.Refused != "":
			return fmt.Errorf("%w: generation %d, games %d to %d: %s", ErrRefused, q.Generation, some[0].Number, some[len(some)-1].Number, r.Refused)
		case err == nil && r.ok():
			s.confirmed(some)
			wait, said = s.pause, false
			continue
		case err == nil:
			err = errors.New(r.Later)
		}
		if !said && ctx.Err() == nil {
			all, _ := s.spool.size(0)
			s.o.Log.Warn("the learner does not take games; they are kept here", "generation", q.Generation, "games", all, "error", err)
		}
		said = true
		if err := sleep(ctx, wait); err != nil {
			return err
		}
		wait = min(2*wait, s.patience)
	}
}

// confirmed forgets games that the learner has, and ends the jobs of which it has all.
func (s *session) confirmed(games []spooled) {
	numbers := make([]int, len(games))
	for i, g := range games {
		numbers[i] = g.Number
	}
	if s.o.Kept != nil {
		s.o.Kept(games[0].Generation, numbers)
	}
	s.spool.confirmed(len(games))
	s.o.Log.Debug("kept", "generation", games[0].Generation, "games", numbers)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.Kept += int64(len(games))
	for _, g := range games {
		s.settle(key{g.Settings, g.Number})
	}
}

// settle takes a game from its job. After the last one the worker does not report the job any more.
func (s *session) settle(k key) {
	if t := s.leases[k]; t != nil { // or an earlier process played it
		delete(s.leases, k)
	}
}

// renew keeps this worker's jobs from others, and reports how the worker is.
func (s *session) renew(ctx context.Context) error {
	every := s.lease / 8
	before := int64(0)
	for {
		s.mu.Lock()
		s.now.Spool, s.now.Older = s.spool.size(s.now.Generation)
		s.now.PerSecond, before = float64(s.now.Games-before)/every.Seconds(), s.now.Games
		s.reportNow(report{Holds: s.held()}) // if it is lost, another worker may play the same games
		s.mu.Unlock()
		if err := sleep(ctx, every); err != nil {
			return err
		}
	}
}

// playJobs plays one generation after the other.
func (s *session) playJobs(ctx context.Context) error {
	var network player
	defer func() { network.close() }()
	patient := 2 * s.patience
	for {
		t, err := s.take(ctx)
		if err := cmp.Or(err, ctx.Err()); err != nil {
			return err
		}
		if t == nil {
			if err := sleep(ctx, s.pause); err != nil {
				return err
			}
			continue
		}
		s.report(func(now *Worker) { now.Fetching = t.Config.Network })
		inner, cancel := context.WithTimeout(ctx, patient)
		err = network.open(inner, s.worker, t.job)
		cancel()
		s.report(func(now *Worker) { now.Fetching = "" })
		if err != nil {
			s.o.Log.Warn("the network cannot be had; trying again", "generation", t.Generation, "network", t.Config.Network, "error", err)
			s.giveBack(t)
			if err := sleep(ctx, 2*s.pause); err != nil {
				return err
			}
			patient = min(2*patient, networkPatience)
			continue
		}
		patient = 2 * s.patience
		if err := s.playFrom(ctx, t, network); err != nil {
			return err
		}
	}
}

// report changes what the worker reports about itself.
func (s *session) report(change func(now *Worker)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.now)
}

// playFrom plays a job and those that follow with the same network.
func (s *session) playFrom(ctx context.Context, t *taken, network player) error {
	c, id, generation := t.Config, t.id, t.Generation
	first := t.Missing[0]
	s.report(func(now *Worker) { now.Generation, now.Network = generation, c.Network })
	s.o.Log.Info("playing", "generation", generation, "network", c.Network, "rules", c.Rules, "first", first)
	var other *taken // a job of another generation
	var failed error
	next := func() (int, bool) {
		for t != nil && len(t.left) == 0 {
			if t, failed = s.take(ctx); t != nil && t.id != id {
				other, t = t, nil
			}
		}
		if t == nil { // after which no seat gets a game, so that all soon play again
			return 0, false
		}
		n := t.left[0]
		t.left = t.left[1:]
		s.report(func(now *Worker) { now.Begun++ })
		return n, true
	}
	err := selfplay.PlayNext(ctx, network.evaluator, c, next, func(g *selfplay.Game) error {
		s.report(func(now *Worker) { now.Games, now.Begun = now.Games+1, now.Begun-1 })
		return s.spool.add(ctx, generation, id, g)
	})
	if other != nil {
		s.giveBack(other)
	}
	return cmp.Or(err, failed)
}

// take asks the learner for a job; nil if there is none now. The error says that the learner is another one, or refuses.
func (s *session) take(ctx context.Context) (*taken, error) {
	for ctx.Err() == nil {
		r, err := s.ask(ctx, s.patience, jobSubject, request{Run: s.run})
		switch {
		case err != nil:
			s.o.Log.Debug("no jobs", "error", err)
			return nil, nil
		case r.Refused != "":
			return nil, fmt.Errorf("%w: %s", ErrRefused, r.Refused)
		case r.Run != s.run:
			return nil, errOtherRun
		case r.Job == nil:
			return nil, nil
		}
		t := &taken{job: *r.Job, id: r.Job.settings()}
		t.Config.Parallel, t.Config.Batch = min(s.o.Parallel, max(t.AtOnce, 1)), s.o.Batch
		if err := t.Config.Validate(); err != nil {
			return nil, fmt.Errorf("the learner has a job that cannot be played: %w", err)
		}
		s.mu.Lock()
		for _, n := range t.Missing {
			k := key{t.id, n}
			if s.leases[k] == nil { // or it is being played here, or not confirmed, since the learner has begun anew
				t.left = append(t.left, n)
			}
			s.leases[k] = t // the learner may have forgotten an earlier lease
		}
		s.mu.Unlock()
		if len(t.left) > 0 {
			return t, nil
		}
	}
	return nil, nil
}

// giveBack lets another worker have a job of which no game was begun.
func (s *session) giveBack(t *taken) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range t.left {
		delete(s.leases, key{t.id, n})
	}
	s.reportNow(report{Holds: s.held(), Returns: []string{t.Lease}})
}
