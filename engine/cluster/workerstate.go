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

// workerState is what a worker knows while it plays for one run of a learner, and what it decides. It has no connection, no clock
// and no goroutine: its caller (session, or the simulation) tells it what has happened and the time, and does what take returns.
// Its disk is the spool. What it does with jobs and networks is in workerplay.go.
type workerState struct {
	pace pace
	o    WorkerOptions // without a connection
	name string

	run       string                           // "" until the learner has answered
	openSpool func(run string) (*spool, error) // of a run
	spool     *spool                           // nil until then
	deeds     []deed                           // to do now
	failed    error                            // why this is over

	questions int // so many were asked, also for earlier runs, whose answers may come late
	hello     call
	games     call
	jobs      call
	part      call // of a network

	sent     []spooled     // the games of the last question of games
	patience time.Duration // for its answer
	backOff  time.Duration // after its next failure
	silent   bool          // the log says that the learner does not answer hello
	refusing bool          // the log says that the learner does not take games

	reportAt time.Time
	before   int64  // now.Games at the last report
	now      Worker // what is reported

	player player
}

// call is a question to the learner that is asked again and again. It waits for one answer at a time.
type call struct {
	number int           // of the question that waits for its answer; 0: none does
	asked  time.Time     // when
	lasts  time.Duration // so long it waits
	after  time.Time     // the next is not asked before
}

// due reports whether it may be asked.
func (c *call) due(now time.Time) bool { return c.number == 0 && !now.Before(c.after) }

// deed is what a worker has to do.
type deed struct {
	kind    deedKind
	subject string // of send
	call    int    // of send: the number of the question, 0 if nobody waits for an answer
	text    []byte // of send and keep
	job     job    // of the other kinds
}

type deedKind int

const (
	send deedKind = iota // send a message, then tell answered if it is a question
	look                 // look whether this machine has the job's network, then tell looked
	keep                 // keep the content of the job's network and open its evaluator, then tell opened
	open                 // open the evaluator of the job's network, then tell opened
	drop                 // let others of this machine get the network
	play                 // play the games that nextGame returns, telling played, and at the end ended
)

// runName is what a run's number looks like. It becomes part of the name of a file.
var runName = regexp.MustCompile(`^[A-Z0-9]{1,64}$`)

var (
	errOtherRun = errors.New("the learner has begun another run")
	errSilent   = errors.New("no answer in time")
)

// newWorkerState is a worker that looks for a learner, and has asked so many questions before.
func newWorkerState(o WorkerOptions, p pace, name string, questions int, openSpool func(run string) (*spool, error)) *workerState {
	return &workerState{
		pace: p, o: o, name: name, questions: questions, openSpool: openSpool, patience: p.patience, backOff: p.pause, now: Worker{Name: name},
		player: player{leases: map[key]*taken{}},
	}
}

// take returns what is to be done, once.
func (s *workerState) take() (deeds []deed) {
	deeds, s.deeds = s.deeds, nil
	return deeds
}

// fail ends it.
func (s *workerState) fail(err error) {
	if s.failed == nil {
		s.failed = err
	}
}

// step does what is due. It is called after each call of another method, and at the time that it returns at the latest.
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

// deliver asks the learner to keep the first games of the spool, if there are some.
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

// nextStep is when something is due again.
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

// ask asks the learner, and waits so long for an answer.
func (s *workerState) ask(now time.Time, c *call, wait time.Duration, subject string, q request) {
	q.Version, q.Worker = s.o.Version, s.name
	s.questions++
	c.number, c.asked, c.lasts = s.questions, now, wait
	s.deeds = append(s.deeds, deed{kind: send, subject: subject, call: c.number, text: encode(q)})
}

// report sends a report. It may be lost; another one will come.
func (s *workerState) report(r report) {
	r.Worker = s.now
	s.deeds = append(s.deeds, deed{kind: send, subject: workerSubject, text: encode(r)})
}

// leave lets others have this worker's jobs at once. If that is lost, they wait until the leases end.
func (s *workerState) leave() { s.report(report{Returns: s.player.held()}) }

// answered is the answer to a question, or an error in its place. Answers that nobody waits for any more are left out.
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

// lost says that the connection is lost, and with it all answers.
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
		for _, g := range s.spool.games { // which are not played again
			s.player.leases[key{g.Settings, g.Number}] = &taken{}
		}
	}
}

// delivered is the answer to games. It waits the longer for the next answer the later this one came: what it sends again before, a
// learner that lags must read too, and would answer nobody in time.
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
		if r.Early && s.spool.full() { // no game could be played that the learner waits for
			s.forget(s.sent)
		} else {
			s.spool.postpone(len(s.sent)) // others may be what it waits for
		}
	}
	if !s.refusing {
		s.o.Log.Warn("the learner does not take games; they are kept here", "generation", generation, "games", len(s.spool.games), "error", err)
	}
	s.refusing = true
	s.games.after = now.Add(s.backOff)
	s.backOff = min(2*s.backOff, s.pace.patience)
}

// confirmed forgets games that the learner has.
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

// forget forgets the first games of the spool. After its last game the worker does not report a job any more.
func (s *workerState) forget(games []spooled) {
	s.spool.forget(len(games))
	for _, g := range games {
		delete(s.player.leases, key{g.Settings, g.Number})
	}
}
