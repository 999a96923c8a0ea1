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

// workerState is a worker's state for one run of a learner, and its decisions. It has no connection, no clock and no goroutine: its caller
// (session, or the simulation) reports events and the time to it, and carries out the deeds that take returns. Its disk is the spool. Its
// handling of jobs and networks is in workerplay.go.
type workerState struct {
	pace pace
	o    WorkerOptions // without a connection
	name string

	run       string                           // "" until the learner has answered
	openSpool func(run string) (*spool, error) // of a run
	spool     *spool                           // nil until then
	deeds     []deed                           // to carry out now
	failed    error                            // why the session is over

	questions int // number of questions so far, including those of earlier sessions, whose answers may arrive late
	hello     call
	games     call
	jobs      call
	part      call // of a network

	sent     []spooled     // the games of the last message with games
	patience time.Duration // timeout for its answer
	backOff  time.Duration // pause after its next failure
	silent   bool          // the log says that the learner does not answer hello
	refusing bool          // the log says that the learner does not take games

	reportAt time.Time
	before   int64  // now.Games at the last report
	now      Worker // the next report

	player player
}

// call is a question to the learner that is asked repeatedly. It waits for one answer at a time.
type call struct {
	number int           // of the unanswered question; 0: none
	asked  time.Time     // when
	lasts  time.Duration // timeout
	after  time.Time     // earliest time of the next question
}

// due reports whether the question may be asked.
func (c *call) due(now time.Time) bool { return c.number == 0 && !now.Before(c.after) }

// deed is an action for the worker.
type deed struct {
	kind    deedKind
	subject string // of send
	call    int    // of send: the number of the question, 0 if it needs no answer
	text    []byte // of send and keep
	job     job    // of the other kinds
}

type deedKind int

const (
	send deedKind = iota // send a message, then tell answered if it is a question
	look                 // look whether this machine has the job's network, then tell looked
	keep                 // keep the content of the job's network and open its evaluator, then tell opened
	open                 // open the evaluator of the job's network, then tell opened
	drop                 // let other workers of this machine fetch the network
	play                 // play the games that nextGame returns, telling played, and ended at the end
)

// runName matches the number of a run. It becomes part of a file's name.
var runName = regexp.MustCompile(`^[A-Z0-9]{1,64}$`)

var (
	errOtherRun = errors.New("the learner has begun another run")
	errSilent   = errors.New("no answer in time")
)

// newWorkerState returns a worker that looks for a learner, after the given number of earlier questions.
func newWorkerState(o WorkerOptions, p pace, name string, questions int, openSpool func(run string) (*spool, error)) *workerState {
	return &workerState{
		pace: p, o: o, name: name, questions: questions, openSpool: openSpool, patience: p.patience, backOff: p.pause, now: Worker{Name: name},
		player: player{leases: map[key]*claimedJob{}},
	}
}

// take returns the new deeds, once.
func (s *workerState) take() (deeds []deed) {
	deeds, s.deeds = s.deeds, nil
	return deeds
}

// fail ends the session.
func (s *workerState) fail(err error) {
	if s.failed == nil {
		s.failed = err
	}
}

// step takes all due actions. Call it after each call of another method, and no later than at the time that it returns.
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
		s.report(report{Holds: s.player.held()}) // if it is lost, another worker may play the same games
	}
	if s.games.due(now) {
		s.deliver(now)
	}
	s.stepPlayer(now)
	return s.nextStep(now)
}

// deliver sends the first games of the spool to the learner, if there are some.
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

// nextStep is the time of the next due action.
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

// ask asks the learner, and waits for the answer up to wait.
func (s *workerState) ask(now time.Time, c *call, wait time.Duration, subject string, q request) {
	q.Version, q.Worker = s.o.Version, s.name
	s.questions++
	c.number, c.asked, c.lasts = s.questions, now, wait
	s.deeds = append(s.deeds, deed{kind: send, subject: subject, call: c.number, text: encode(q)})
}

// report sends a report. It may be lost; another one will follow.
func (s *workerState) report(r report) {
	r.Worker = s.now
	s.deeds = append(s.deeds, deed{kind: send, subject: workerSubject, text: encode(r)})
}

// leave frees this worker's jobs at once. If the message is lost, their leases expire.
func (s *workerState) leave() { s.report(report{Returns: s.player.held()}) }

// answered handles the answer to a question, or an error in its place. It ignores answers that are no longer awaited.
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

// lost handles the loss of the connection, and with it of all answers.
func (s *workerState) lost(now time.Time, err error) {
	for _, c := range s.calls() {
		s.answered(now, c.number, nil, err)
	}
}

// joined begins to play for the learner's run.
func (s *workerState) joined(now time.Time, r reply, err error) {
	switch {
	case err != nil:
		if !s.silent {
			s.o.Log.Warn("waiting for the learner, trying again and again", "every", s.pace.pause, "error", err)
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
		for _, g := range s.spool.games { // these are not played again
			s.player.leases[key{g.Settings, g.Number}] = &claimedJob{}
		}
	}
}

// delivered handles the answer to games. The timeout grows with reply latency, because early resends would overload a slow learner.
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
			s.spool.postpone(len(s.sent)) // others may be the ones that it waits for
		}
	}
	if !s.refusing {
		s.o.Log.Warn("the learner does not take games; they are kept here", "generation", generation, "games", len(s.spool.games), "error", err)
	}
	s.refusing = true
	s.games.after = now.Add(s.backOff)
	s.backOff = min(2*s.backOff, s.pace.patience)
}

// confirmed drops games that the learner has.
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

// forget drops the first games of the spool. After a job's last game the worker no longer reports the job.
func (s *workerState) forget(games []spooled) {
	s.spool.forget(len(games))
	for _, g := range games {
		delete(s.player.leases, key{g.Settings, g.Number})
	}
}
