package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/evald/evald/engine/durable"
)

// simWorker is a worker's process, as worker and session are in the real program.
type simWorker struct {
	w       *world
	name    string
	machine *machine
	old     bool // it has another version

	// Of the process.
	home      *durable.Dir
	state     *workerState
	networks  networks
	opened    string // SHA-256 of the network whose evaluator is open
	seats     []*simSeat
	questions int // that the sessions of the process asked
	found     int // games in the spool when it was opened; its file has some that are confirmed
	wakes     int // only the last wake-up counts
}

// simSeat plays one game after the other.
type simSeat struct {
	number int
	busy   bool // it plays
	over   bool // it has played, and the game is to be kept
	empty  bool // there is no further game
}

// newSimWorker is a worker on a machine of its own, or on that of the one before.
func newSimWorker(w *world, n int) {
	k := &simWorker{w: w, name: fmt.Sprint("worker", n), old: w.has(old) && n == 1}
	if n > 0 && w.random.IntN(4) == 0 {
		k.machine = w.workers[n-1].machine
	} else {
		m := newMachine(w, k.name)
		m.start = func() { w.each(m, (*simWorker).start) }
		m.stop = func() {
			w.each(m, func(k *simWorker) { k.state, k.home, k.seats, k.opened, k.questions = nil, nil, nil, "", 0 })
		}
		m.flip = func() { w.flipWorker(m) }
		k.machine = m
	}
	w.workers = append(w.workers, k)
}

func (w *world) each(m *machine, what func(*simWorker)) {
	for _, k := range w.workers {
		if k.machine == m {
			what(k)
		}
	}
}

// flipWorker flips a bit in a spool or a network.
func (w *world) flipWorker(m *machine) {
	dir := "/networks"
	if w.random.IntN(2) == 0 {
		dir = "/workers/1"
	}
	if path := m.disk.Flip(dir); path != "" {
		m.flipped = true
		w.say(m.name, "a bit of %s is flipped", path)
	}
}

// start is Work.
func (k *simWorker) start() {
	var err error
	if k.home, err = ownDir(k.machine.disk, "/"); err != nil {
		if !k.machine.ill() {
			k.w.broken("%s cannot start: %v", k.name, err)
		}
		k.w.later(k.machine, time.Second, k.start)
		return
	}
	k.begin()
}

// begin begins a session.
func (k *simWorker) begin() {
	log := k.machine.logger()
	o := WorkerOptions{Version: "v", Parallel: 1 + k.w.random.IntN(6), Batch: 1, Log: log, Kept: k.kept}
	if k.old {
		o.Version = "u"
	}
	k.seats, k.opened = nil, ""
	k.networks = networks{disk: k.machine.disk, dir: "/networks"}
	k.state = newWorkerState(o, simPace, k.name, k.questions, k.openSpool)
	k.poke()
}

// openSpool opens the spool of a run. A damaged one is removed, as the error says.
func (k *simWorker) openSpool(run string) (s *spool, err error) {
	path := k.home.Path("spool-" + run + ".jsonl")
	for {
		s, err = openSpool(k.machine.disk, path, simPace.spool, k.machine.logger())
		if err == nil || !k.machine.flipped || !strings.Contains(err.Error(), path) {
			break
		}
		k.w.stats.Damaged++
		if err := k.machine.disk.Remove(path); err != nil {
			return nil, err
		}
	}
	if err == nil {
		k.found = len(s.games)
	}
	return s, err
}

// kept is told of games that the learner has.
func (k *simWorker) kept(generation int, numbers []int) {
	for _, n := range numbers {
		k.w.told[simGame{k.state.run, generation, n}] = true
		k.w.stats.Told++
	}
	k.w.say(k.name, "is told of %d games of generation %d: %v", len(numbers), generation, numbers)
}

// connected reports whether its messages reach a server.
func (k *simWorker) connected() bool {
	return !k.machine.cut && (!k.w.inside || k.w.learner.state != nil && !k.w.learner.machine.cut)
}

// lost tells a worker that its connection is lost.
func (k *simWorker) lost() {
	if k.state != nil {
		k.w.later(k.machine, k.w.between(0, 2*time.Second), func() {
			if k.state != nil {
				k.state.lost(k.machine.time(), nats.ErrConnectionClosed)
				k.poke()
			}
		})
	}
}

// poke is what session.run does after each event.
func (k *simWorker) poke() {
	if k.state == nil {
		return
	}
	var next time.Time
	for again := true; again; {
		next = k.state.step(k.machine.time())
		effects := k.state.take()
		if k.state.failed != nil {
			k.fail(k.state.failed)
			return
		}
		again = false
		for _, e := range effects {
			if e.kind == send {
				again = k.send(e) || again
			} else {
				k.do(e)
			}
		}
		again = k.playSeats() || again
	}
	k.wakes++
	mine := k.wakes
	k.w.later(k.machine, max(next.Sub(k.machine.time()), time.Millisecond), func() {
		if mine == k.wakes {
			k.poke()
		}
	})
}

// fail ends a session.
func (k *simWorker) fail(err error) {
	k.w.say(k.name, "ends: %v", err)
	k.networks.drop()
	if s := k.state; s.spool != nil {
		s.leave()
		for _, e := range s.take() {
			k.send(e)
		}
		s.spool.close()
	}
	k.questions = k.state.questions
	k.state = nil
	k.wakes++
	switch {
	case errors.Is(err, errOtherRun) && k.w.has(switched):
		k.begin()
	case errors.Is(err, ErrRefused) && k.old:
	case k.machine.ill():
		k.w.later(k.machine, time.Second, k.begin)
	default:
		k.w.broken("%s ends: %v", k.name, err)
	}
}

// send sends a message. It returns whether the worker was told at once that it cannot be sent.
func (k *simWorker) send(e effect) (failed bool) {
	if !k.connected() {
		if e.call != 0 && k.state != nil {
			k.state.answered(k.machine.time(), e.call, nil, nats.ErrReconnectBufExceeded)
		}
		return e.call != 0
	}
	if e.subject == gamesSubject && slices.ContainsFunc(k.state.sent, func(g spooled) bool { return g.Settings != k.state.sent[0].Settings }) {
		k.w.broken("%s sends games of two generations in one message", k.name)
	}
	l := k.w.learner
	state, life := k.state, k.machine.life
	answer := func(text []byte, err error) {
		k.w.message(l.machine, k.machine, func() {
			if k.state == nil || k.machine.life != life { // it may be that of another session; another process has another inbox
				return
			}
			if e.subject == networkSubject && len(text) > 0 && k.w.faulty(damage, 0.1) {
				text = append([]byte(nil), text...)
				text[k.w.random.IntN(len(text))] ^= 1
			}
			k.state.answered(k.machine.time(), e.call, text, err)
			k.poke()
		})
	}
	if l.state == nil { // the server reports that no learner is connected
		if e.call != 0 {
			k.w.later(k.machine, time.Millisecond, func() {
				if k.state == state {
					k.state.answered(k.machine.time(), e.call, nil, nats.ErrNoResponders)
					k.poke()
				}
			})
		}
		return false
	}
	k.w.message(k.machine, l.machine, func() {
		l.came(e.subject, e.text, func(text []byte) {
			if e.call != 0 {
				answer(text, nil)
			}
		})
	})
	return false
}

// do executes an effect that takes time.
func (k *simWorker) do(e effect) {
	state := k.state
	if e.kind == drop {
		k.networks.drop()
		return
	}
	k.w.later(k.machine, k.w.between(0, 300*time.Millisecond), func() {
		if k.state != state {
			return
		}
		now := k.machine.time()
		switch e.kind {
		case look:
			found, another, err := k.networks.look(e.job.Network)
			state.looked(now, found, another, err)
		case keep:
			err := k.networks.keep(e.job.Network, e.text)
			if err == nil {
				err = k.open(e.job)
			}
			state.opened(now, err)
		case open:
			state.opened(now, k.open(e.job))
		case play:
			if k.opened != e.job.Network {
				k.w.broken("%s plays with network %.8s and should play with %.8s", k.name, k.opened, e.job.Network)
			}
			k.seats = make([]*simSeat, e.job.Config.Parallel)
			for i := range k.seats {
				k.seats[i] = &simSeat{}
			}
		}
		k.poke()
	})
}

// open opens an evaluator: it reads the network's file.
func (k *simWorker) open(j job) error {
	if j.Network != "" {
		text, err := k.machine.disk.ReadFile(k.networks.path(j.Network))
		if err != nil {
			return err
		}
		if sum(text) != j.Network {
			k.w.broken("%s opens a network that is damaged", k.name)
		}
	}
	k.opened = j.Network
	return nil
}

// playSeats is what selfplay.PlayNext does.
func (k *simWorker) playSeats() (changed bool) {
	if len(k.seats) == 0 {
		return false
	}
	rest := 0
	for _, s := range k.seats {
		if s.over {
			text := simPool()[k.state.now.Generation][s.number]
			if !k.state.played(s.number, text) {
				rest++
				continue
			}
			s.over, changed = false, true
		}
		if !s.busy && !s.empty {
			n, ok, more := k.state.nextGame()
			if ok {
				k.checkBegun(n)
				s.busy, s.number, changed = true, n, true
				k.w.later(k.machine, k.gameTime(), func() {
					s.busy, s.over = false, true
					k.poke()
				})
			}
			s.empty = !more
		}
		if !s.empty {
			rest++
		}
	}
	if most := max(simPace.spool, k.found); len(k.state.spool.games) > most {
		k.w.broken("%s has %d games in its spool, want %d at most", k.name, len(k.state.spool.games), most)
	}
	if rest == 0 {
		k.seats = nil
		k.state.ended(nil)
		changed = true
	}
	return changed
}

// checkBegun checks that a game that begins is not played already, and not waiting to be confirmed.
func (k *simWorker) checkBegun(number int) {
	for _, s := range k.seats {
		if (s.busy || s.over) && s.number == number {
			k.w.broken("%s plays game %d twice at once", k.name, number)
		}
	}
	for _, g := range k.state.spool.games {
		if g.Number == number && g.Settings == k.state.player.plays {
			k.w.broken("%s plays game %d again, which is not confirmed", k.name, number)
		}
	}
}

func (k *simWorker) gameTime() time.Duration {
	if k.w.faulty(slow, 0.05) {
		return k.w.between(0, 60*time.Second)
	}
	return k.w.between(10*time.Millisecond, 3*time.Second)
}

// lie sends a message that no worker sends.
func (w *world) lie() {
	l := w.learner
	if l.state == nil {
		return
	}
	q := request{Version: "v", Worker: "liar", Run: l.state.run, Generation: w.random.IntN(simGenerations)}
	if p := l.state.playing; p != nil {
		q.Settings = p.id
		if w.random.IntN(2) == 0 {
			q.Generation = p.job.Generation
		}
	}
	game := string(simPool()[q.Generation][w.random.IntN(w.games)])
	q.Games = []json.RawMessage{[]byte(game)} // a true one, unless it is changed
	alter := func(pairs ...string) { q.Games[0] = []byte(strings.NewReplacer(pairs...).Replace(game)) }
	subject, text := gamesSubject, []byte(nil)
	switch w.random.IntN(16) {
	case 0:
		alter(`"Result":1`, `"Result":0`, `"Result":0`, `"Result":-1`, `"Result":-1`, `"Result":1`)
	case 1:
		q.Settings = "x"
	case 2:
		q.Version = "u"
	case 3:
		q.Run = "OTHER"
	case 4:
		q.Generation = -1
	case 5:
		q.Generation = 1000
	case 6:
		text = []byte(`{"games":[[[[[[[[[[`)
	case 7: // it asks for a job and never plays it
		subject, q.Games = jobSubject, nil
	case 8:
		subject, text = workerSubject, encode(report{Worker: Worker{Name: "liar", Games: 1 << 40}, Holds: []string{"x"}, Returns: []string{"y"}})
	case 9:
		subject, q.Games = networkSubject, nil
		q.Network, q.From = l.state.sha256, -5
	case 10:
		subject = statusSubject
	case 12:
		subject, q.Version, q.Games = jobSubject, "u", nil
	case 13:
		subject, q.Worker, q.Games = helloSubject, "", nil
	case 14:
		subject, text = helloSubject, []byte(`{"games":[[[[[[[[[[]]]]]]]]]]}`)
	case 15:
		subject, text = workerSubject, encode(report{Worker: Worker{Name: "\x1b[2J", Games: 1}})
	case 11:
		alter(`"Number":`, `"Number":9`)
	}
	if text == nil {
		text = encode(q)
	}
	w.message(l.machine, l.machine, func() {
		l.came(subject, text, func(answer []byte) {
			var r reply
			_ = json.Unmarshal(answer, &r)
			if r.Job != nil && w.random.IntN(2) == 0 { // and is held for a while
				w.hold(r.Job.Lease, 10)
			}
		})
	})
}

// hold reports a lease again and again, without playing its games.
func (w *world) hold(lease string, times int) {
	if times == 0 || w.over > 0 {
		return
	}
	l := w.learner
	l.came(workerSubject, encode(report{Worker: Worker{Name: "liar"}, Holds: []string{lease}}), func([]byte) {})
	w.later(nil, 5*time.Second, func() { w.hold(lease, times-1) })
}
