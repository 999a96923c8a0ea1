package cluster

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// player is a worker's state of its jobs and its network.
type player struct {
	phase  phase
	leases map[key]*claimedJob // by game that is to be played, in progress or not confirmed
	job    *claimedJob         // the job whose games are to begin now; nil in idle and draining
	plays  string              // claimedJob.id of the games in progress

	name, sha256 string        // of the network whose evaluator is open
	text         []byte        // first bytes of the network that is being fetched
	wait         time.Duration // timeout for the network's next part
	lookAt       time.Time     // in phase waiting: when to look again
}

// phase is the current step of a worker with a job.
type phase int

const (
	idle     phase = iota // has no job
	looking               // looks for the job's network on this machine
	waiting               // waits for another worker on this machine that fetches the network
	fetching              // fetches the network from the learner
	opening               // opens the network's evaluator
	playing               // plays games of the job, and of further jobs with the same network
	draining              // finishes games in progress, because there was no further job
)

// key identifies a game of a run.
type key struct {
	settings string
	number   int
}

// claimedJob is a job that this worker has claimed.
type claimedJob struct {
	job
	id   string
	left []int // games that have not begun
}

// mostBytes is the maximum size of a network in bytes.
const mostBytes = 1 << 30

// lookAgain is the interval at which a worker looks for a network that another worker on its machine fetches.
const lookAgain = 100 * time.Millisecond

// held returns the names of this worker's leases.
func (p *player) held() (names []string) {
	listed := map[*claimedJob]bool{}
	for _, t := range p.leases {
		if !listed[t] && t.Lease != "" { // a game of an earlier process has no lease
			listed[t] = true
			names = append(names, t.Lease)
		}
	}
	slices.Sort(names)
	return names
}

// stepPlayer starts the action that is due for the job, or asks for a job.
func (s *workerState) stepPlayer(now time.Time) {
	switch p := &s.player; p.phase {
	case idle:
		s.askJob(now)
	case playing: // ask when the last game has begun, so that the next job arrives while that game is played
		if len(p.job.left) == 0 {
			s.askJob(now)
		}
	case waiting:
		if !now.Before(p.lookAt) {
			s.do(looking, look)
		}
	case fetching:
		if s.part.due(now) {
			s.ask(now, &s.part, p.wait, networkSubject, request{Network: p.job.Network, From: len(p.text)})
		}
	}
}

func (s *workerState) askJob(now time.Time) {
	if s.jobs.due(now) {
		s.ask(now, &s.jobs, s.pace.patience, jobSubject, request{Run: s.run})
	}
}

// do enters a phase and requests its effect.
func (s *workerState) do(next phase, kind effectKind) {
	s.player.phase = next
	s.effects = append(s.effects, effect{kind: kind, job: s.player.job.job, text: s.player.text})
}

// gotJob handles the reply to a request for a job.
func (s *workerState) gotJob(now time.Time, r reply, err error) {
	switch {
	case err != nil:
		s.o.Log.Debug("no jobs", "error", err)
		s.noJob(now)
		return
	case r.Refused != "":
		s.fail(fmt.Errorf("%w: %s", ErrRefused, r.Refused))
		return
	case r.Run != s.run:
		s.fail(errOtherRun)
		return
	case r.Job == nil:
		s.noJob(now)
		return
	}
	t := &claimedJob{job: *r.Job, id: r.Job.settings()}
	t.Config.Parallel, t.Config.Batch = min(s.o.Parallel, max(t.AtOnce, 1)), s.o.Batch
	if err := t.Config.Validate(); err != nil {
		s.fail(fmt.Errorf("the learner has a job that cannot be played: %w", err))
		return
	}
	p := &s.player
	for _, n := range t.Missing {
		k := key{t.id, n}
		if p.leases[k] == nil { // otherwise the learner was restarted, and the game is in progress or not confirmed here
			t.left = append(t.left, n)
		}
		p.leases[k] = t // the learner may not know the game's earlier lease
	}
	switch {
	case len(t.left) == 0: // all games are here already: ask for another job
	case p.phase == idle:
		p.job = t
		s.getNetwork(now)
	case t.id == p.plays:
		p.job = t
	default: // finish the games in progress first, and let other workers play the job meanwhile
		s.giveBack(t)
		p.phase, p.job = draining, nil
	}
}

// noJob waits for jobs. In phase playing, it lets all games in progress end first, so that all seats begin the next job's games together.
func (s *workerState) noJob(now time.Time) {
	if p := &s.player; p.phase == playing {
		p.phase, p.job = draining, nil
		return
	}
	s.jobs.after = now.Add(s.pace.pause)
}

// giveBack ends the lease of a job none of whose games has begun.
func (s *workerState) giveBack(t *claimedJob) {
	for _, n := range t.left {
		delete(s.player.leases, key{t.id, n})
	}
	s.report(report{Holds: s.player.held(), Returns: []string{t.Lease}})
}

// getNetwork starts getting the evaluator of the job's network.
func (s *workerState) getNetwork(now time.Time) {
	p := &s.player
	t := p.job
	s.now.Fetching = t.Config.Network
	p.text, p.wait = nil, 2*s.pace.patience
	switch {
	case p.name == t.Config.Network && p.sha256 == t.Network:
		s.opened(now, nil)
	case t.Network == "":
		s.do(opening, open)
	case !sha256Name.MatchString(t.Network):
		s.networkFailed(now, fmt.Errorf("its name is %.80q, want a SHA-256", t.Network))
	case t.Bytes < 1 || t.Bytes > mostBytes:
		s.networkFailed(now, fmt.Errorf("it has %d bytes, want 1 to %d", t.Bytes, mostBytes))
	default:
		s.do(looking, look)
	}
}

// looked handles the result of the effect look: whether this machine has the network. If not, either this worker has the exclusive claim to
// it until drop or keep, or another worker fetches it.
func (s *workerState) looked(now time.Time, found, another bool, err error) {
	switch {
	case err != nil:
		s.networkFailed(now, err)
	case found:
		s.do(opening, open)
	case another:
		s.player.phase, s.player.lookAt = waiting, now.Add(lookAgain)
	default:
		s.player.phase = fetching
	}
}

// gotPart handles a part of the network. If a part misses its timeout, the worker requests it again with twice the timeout, because the
// line may be slow.
func (s *workerState) gotPart(now time.Time, text []byte, err error) {
	p := &s.player
	switch {
	case err != nil:
		if errors.Is(err, errSilent) {
			p.wait = min(2*p.wait, networkPatience)
		}
		s.part.after = now.Add(s.pace.pause)
		return
	case len(text) == 0:
		err = errors.New("the learner has another network now")
	default:
		p.text = append(p.text, text...)
		if len(p.text) < p.job.Bytes {
			return
		}
		got := sum(p.text)
		if got == p.job.Network {
			s.do(opening, keep)
			p.text = nil
			return
		}
		err = fmt.Errorf("network %s: the received bytes have SHA-256 %s", p.job.Network, got)
	}
	s.do(idle, drop)
	s.networkFailed(now, err)
}

// networkFailed gives the job back, and asks for another job after a pause.
func (s *workerState) networkFailed(now time.Time, err error) {
	t := s.player.job
	s.o.Log.Warn("the network cannot be fetched; trying again", "generation", t.Generation, "network", t.Config.Network, "error", err)
	s.now.Fetching = ""
	s.giveBack(t)
	s.player.phase, s.player.job, s.player.text = idle, nil, nil
	s.jobs.after = now.Add(2 * s.pace.pause)
}

// opened handles the result of opening the network's evaluator.
func (s *workerState) opened(now time.Time, err error) {
	p := &s.player
	if err != nil {
		p.name, p.sha256 = "", ""
		s.networkFailed(now, err)
		return
	}
	t := p.job
	p.name, p.sha256, p.plays = t.Config.Network, t.Network, t.id
	s.now.Fetching, s.now.Generation, s.now.Network = "", t.Generation, t.Config.Network
	s.o.Log.Info("playing", "generation", t.Generation, "network", t.Config.Network, "rules", t.Config.Rules, "first", t.Missing[0])
	s.do(playing, play)
}

// nextGame returns the number of the next game to begin if ok is true. Otherwise, if more is true, the caller should try again later; if
// not, there is no further game.
func (s *workerState) nextGame() (number int, ok, more bool) {
	p := &s.player
	if s.failed != nil || p.phase != playing {
		return 0, false, false
	}
	if len(p.job.left) == 0 {
		return 0, false, true
	}
	number, p.job.left = p.job.left[0], p.job.left[1:]
	s.now.Begun++
	return number, true, true
}

// played stores a finished game. It returns false if there is no room; the caller should try again later.
func (s *workerState) played(number int, game []byte) bool {
	if s.spool.full() {
		return false
	}
	s.now.Games, s.now.Begun = s.now.Games+1, s.now.Begun-1
	s.spool.add(spooled{s.now.Generation, s.player.plays, number, game})
	return true
}

// ended handles the end of all games in progress, or the error that stopped them.
func (s *workerState) ended(err error) {
	if err != nil {
		s.fail(err)
	}
	s.player.phase, s.player.job, s.now.Begun = idle, nil, 0
}
