package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/evald/evald/engine/short"
)

// workerState is a worker's state for one run of a learner, and makes its decisions. It has no connection, clock or goroutine: its caller
// (session, or the simulation) reports events and the time to it, and executes the effects that take returns. The only disk that it uses is
// the spool. Its handling of jobs and networks is in workerplay.go.
type workerState struct {
	pace pace
	o    WorkerOptions // the connection is unused
	name string

	run       string                           // "" until the learner has replied
	openSpool func(run string) (*spool, error) // opens the spool of a run
	spool     *spool                           // nil until the learner has replied
	effects   []effect                         // to execute now
	failed    error                            // the reason why the session has ended

	questions int // number of questions so far; those of earlier sessions count, because their replies may arrive late
	hello     call
	games     call
	jobs      call
	part      call // for a part of a network

	sent     []spooled     // games of the last message with games
	patience time.Duration // timeout for the reply to it
	backOff  time.Duration // pause after the next failure
	silent   bool          // already logged that the learner does not reply to hello
	refusing bool          // already logged that the learner does not accept games

	reportAt time.Time
	before   int64  // value of now.Games at the last report
	now      Worker // the next report

	player player
}

// call is a kind of question that the worker asks repeatedly. It waits for one reply at a time.
type call struct {
	number int           // number of the question without a reply; 0 if there is none
	asked  time.Time     // time of the question
	lasts  time.Duration // timeout for the reply
	after  time.Time     // earliest time for the next question
}

func (c *call) due(now time.Time) bool { return c.number == 0 && !now.Before(c.after) }

// effect is an action that the session executes.
type effect struct {
	kind    effectKind
	subject string // for send
	call    int    // for send: number of the question, 0 if it needs no reply
	text    []byte // for send and keep
	job     job    // for the other kinds
}

type effectKind int

const (
	send effectKind = iota // send a message; if it is a question, call answered
	look                   // look whether this machine has the job's network; call looked
	keep                   // store the content of the job's network and open its evaluator; call opened
	open                   // open the evaluator of the job's network; call opened
	drop                   // let other workers on this machine fetch the network
	play                   // play the games that nextGame returns; call played after each, and ended at the end
)

// runName matches the name of a run, which becomes part of a file's name.
var runName = regexp.MustCompile(`^[A-Z0-9]{1,64}$`)

var (
	errOtherRun = errors.New("the learner has begun another run")
	errSilent   = errors.New("no answer in time")
)

// newWorkerState returns a worker that has not found a learner yet. questions is the number of questions in earlier sessions.
func newWorkerState(o WorkerOptions, p pace, name string, questions int, openSpool func(run string) (*spool, error)) *workerState {
	return &workerState{
		pace: p, o: o, name: name, questions: questions, openSpool: openSpool, patience: p.patience, backOff: p.pause, now: Worker{Name: name},
		player: player{leases: map[key]*claimedJob{}},
	}
}

// take returns the effects since the last call.
func (s *workerState) take() (effects []effect) {
	effects, s.effects = s.effects, nil
	return effects
}

// fail ends the session.
func (s *workerState) fail(err error) {
	if s.failed == nil {
		s.failed = err
	}
}

// step starts all due actions. The caller must call it after each call of another method, and no later than at the returned time.
func (s *workerState) step(now time.Time) (again time.Time) {
	for _, c := range s.calls() {
		if c.number != 0 && now.Sub(c.asked) >= c.lasts {
			s.answered(now, c.number, nil, errSilent)
		}
	}
	if s.spool == nil {
		if s.hello.due(now) {
			s.ask(now, &s.hello, s.pace.patience, helloSubject, request{})
		}
		return s.nextStep(now)
	}
	if !now.Before(s.reportAt) {
		every := s.pace.lease / 8
		s.reportAt = now.Add(every)
		s.now.Spool, s.now.Older = s.spool.size(s.now.Generation)
		s.now.PerSecond, s.before = float64(s.now.Games-s.before)/every.Seconds(), s.now.Games
		s.report(report{Holds: s.player.held()}) // if it is lost, the leases may expire, and other workers may play the same games
	}
	if s.games.due(now) {
		s.deliver(now)
	}
	s.stepPlayer(now)
	return s.nextStep(now)
}

// deliver sends the first games of the spool, if any, to the learner.
func (s *workerState) deliver(now time.Time) {
	some := s.spool.next()
	if len(some) == 0 {
		return
	}
	s.sent = some
	q := request{Run: s.run, Generation: some[0].Generation, Settings: some[0].Settings}
	for _, g := range some {
		q.Games = append(q.Games, g.Game)
	}
	s.ask(now, &s.games, s.patience, gamesSubject, q)
}

func (s *workerState) calls() []*call { return []*call{&s.hello, &s.games, &s.jobs, &s.part} }

// nextStep is the time at which the next action is due.
func (s *workerState) nextStep(now time.Time) time.Time {
	times := []time.Time{s.player.lookAt}
	if s.spool != nil {
		times = append(times, s.reportAt)
	}
	for _, c := range s.calls() {
		if c.number != 0 {
			times = append(times, c.asked.Add(c.lasts))
		} else {
			times = append(times, c.after)
		}
	}
	next := now.Add(s.pace.lease)
	for _, t := range times {
		if t.After(now) && t.Before(next) {
			next = t
		}
	}
	return next
}

// ask sends a question to the learner. The reply must arrive within wait.
func (s *workerState) ask(now time.Time, c *call, wait time.Duration, subject string, q request) {
	q.Version, q.Worker = s.o.Version, s.name
	s.questions++
	c.number, c.asked, c.lasts = s.questions, now, wait
	s.effects = append(s.effects, effect{kind: send, subject: subject, call: c.number, text: encode(q)})
}

// report sends a report. If it is lost, the next one replaces it.
func (s *workerState) report(r report) {
	r.Worker = s.now
	s.effects = append(s.effects, effect{kind: send, subject: workerSubject, text: encode(r)})
}

// leave gives back this worker's leases. If the message is lost, the leases expire.
func (s *workerState) leave() { s.report(report{Returns: s.player.held(), Left: true}) }

// answered handles the reply to a question, or an error in its place. It ignores replies that are no longer expected.
func (s *workerState) answered(now time.Time, number int, text []byte, err error) {
	i := slices.IndexFunc(s.calls(), func(c *call) bool { return c.number == number })
	if i < 0 || number == 0 {
		return
	}
	c := s.calls()[i]
	c.number = 0
	if c == &s.part {
		s.gotPart(now, text, err)
		return
	}
	var r reply
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	switch c {
	case &s.hello:
		s.joined(now, r, err)
	case &s.games:
		s.delivered(now, r, err)
	case &s.jobs:
		s.gotJob(now, r, err)
	}
}

// lost handles the loss of the connection and of all expected replies.
func (s *workerState) lost(now time.Time, err error) {
	for _, c := range s.calls() {
		s.answered(now, c.number, nil, err)
	}
}

// joined handles the reply to hello, and starts to play for the learner's run.
func (s *workerState) joined(now time.Time, r reply, err error) {
	switch {
	case err != nil:
		if !s.silent {
			s.o.Log.Warn("waiting for the learner", "every", s.pace.pause, "error", err)
		}
		s.silent = true
		s.hello.after = now.Add(s.pace.pause)
	case r.Refused != "":
		s.fail(fmt.Errorf("%w: %s", ErrRefused, r.Refused))
	case !runName.MatchString(r.Run):
		s.fail(fmt.Errorf("the learner says that its run is %s, want letters and digits", short.Quote(r.Run)))
	default:
		s.o.Log.Info("joined", "run", r.Run)
		if s.spool, err = s.openSpool(r.Run); err != nil {
			s.fail(err)
			return
		}
		s.run = r.Run
		for _, g := range s.spool.games { // games in the spool are not played again
			s.player.leases[key{g.Settings, g.Number}] = &claimedJob{}
		}
	}
}

// delivered handles the reply to games. The timeout grows with reply latency, because early resends would overload a slow learner.
func (s *workerState) delivered(now time.Time, r reply, err error) {
	s.patience = min(max(s.pace.patience, 2*now.Sub(s.games.asked)), mostPatience*s.pace.patience)
	generation := s.sent[0].Generation
	switch {
	case err != nil:
	case r.Run != s.run:
		s.fail(errOtherRun)
		return
	case r.Refused != "":
		s.fail(fmt.Errorf("%w: generation %d, games %d to %d: %s", ErrRefused, generation, s.sent[0].Number, s.sent[len(s.sent)-1].Number, r.Refused))
		return
	case r.ok():
		s.confirmed(s.sent)
		s.backOff, s.refusing = s.pace.pause, false
		return
	default:
		err = errors.New(r.Later)
		if r.Early && s.spool.full() { // no room to play the games that the learner waits for
			s.forget(s.sent)
		} else {
			s.spool.postpone(len(s.sent)) // the learner may be waiting for the others
		}
	}
	if !s.refusing {
		s.o.Log.Warn("the learner does not take games; they are kept here", "generation", generation, "games", len(s.spool.games), "error", err)
	}
	s.refusing = true
	s.games.after = now.Add(s.backOff)
	s.backOff = min(2*s.backOff, s.pace.patience)
}

// confirmed drops games that the learner has confirmed.
func (s *workerState) confirmed(games []spooled) {
	numbers := make([]int, len(games))
	for i, g := range games {
		numbers[i] = g.Number
	}
	if s.o.Kept != nil {
		s.o.Kept(games[0].Generation, numbers)
	}
	s.o.Log.Debug("kept", "generation", games[0].Generation, "games", numbers)
	s.now.Kept += int64(len(games))
	s.forget(games)
}

// forget drops the first games of the spool. Once all games of a job are dropped, the worker no longer reports its lease.
func (s *workerState) forget(games []spooled) {
	s.spool.forget(len(games))
	for _, g := range games {
		delete(s.player.leases, key{g.Settings, g.Number})
	}
}
