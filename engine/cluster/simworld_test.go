package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/evald/evald/engine/durable/durabletest"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/heuristic"
	"github.com/evald/evald/engine/selfplay"
)

// simBound is how long after the last fault all games are there, in virtual time.
const simBound = 10 * time.Minute

// simPace has the real waits, and holds few games, so that the limits are met.
var simPace = pace{lease: usual.lease, patience: usual.patience, pause: usual.pause, lost: usual.lost, window: 16, spool: 12}

const (
	simGenerations = 3
	simShard       = 8  // games in a file of records
	simGames       = 30 // of a generation, at most
)

// simBegin is when simulations begin.
var simBegin = time.Unix(1e9, 0)

// simStats are what a run was made of.
type simStats struct {
	Events, Messages, Lost, Kills, Refused, Damaged, Told int
	Slowest                                               time.Duration // from the last fault to the end
}

func (s *simStats) add(o simStats) {
	s.Events, s.Messages, s.Lost, s.Kills, s.Refused, s.Damaged, s.Told = s.Events+o.Events, s.Messages+o.Messages, s.Lost+o.Lost, s.Kills+o.Kills, s.Refused+o.Refused, s.Damaged+o.Damaged, s.Told+o.Told
	s.Slowest = max(s.Slowest, o.Slowest)
}

// world is a simulation.
type world struct {
	simOptions
	trace  gametest.Trace // nil: none
	random *rand.Rand
	at     time.Duration // virtual time
	agenda gametest.Agenda
	number uint64        // of events
	ended  error         // what did not hold
	over   time.Duration // the faults; 0: they are not
	stats  simStats

	inside   bool // the server is in the learner's process
	learner  *simLearner
	machines []*machine // the first is the learner's
	workers  []*simWorker
	told     map[simGame]bool // the games that workers were told of
}

// simGame is a game of a run.
type simGame struct {
	run                string
	generation, number int
}

// machine is a computer with a disk, whose processes are killed together.
type machine struct {
	w       *world
	name    string
	disk    *durabletest.Disk
	life    int
	up      bool
	offset  time.Duration // of its clock
	cut     bool          // from the server
	line    int           // changes when the connection is cut
	flipped bool          // a bit of a file of its was flipped
	start   func()        // starts its processes
	stop    func()        // forgets them
	flip    func()        // flips a bit of one of its files
}

// time is what the machine's clock says.
func (m *machine) time() time.Time { return simBegin.Add(m.w.at + m.offset) }

// ill reports whether the machine's disk refuses to write for a while.
func (m *machine) ill() bool { return m.disk.Full || m.disk.Failing }

func (m *machine) logger() *slog.Logger {
	if m.w.trace == nil {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(simLog{m})
}

// simLog traces what is logged.
type simLog struct{ m *machine }

func (l simLog) Enabled(context.Context, slog.Level) bool { return true }
func (l simLog) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l simLog) WithGroup(string) slog.Handler            { return l }
func (l simLog) Handle(_ context.Context, r slog.Record) error {
	var text strings.Builder
	text.WriteString(r.Message)
	r.Attrs(func(a slog.Attr) bool { fmt.Fprintf(&text, " %s", a); return true })
	l.m.w.say(l.m.name, "%s", text.String())
	return nil
}

func newWorld(o simOptions, trace gametest.Trace) *world {
	w := &world{simOptions: o, trace: trace, random: rand.New(rand.NewPCG(o.seed, 2)), told: map[simGame]bool{}}
	w.inside = w.random.IntN(2) == 0
	w.learner = newSimLearner(w)
	for n := range o.workers {
		newSimWorker(w, n)
	}
	return w
}

// say traces a line.
func (w *world) say(who, format string, args ...any) {
	if w.trace != nil {
		w.trace("%10.3f %-9s %s", w.at.Seconds(), who, fmt.Sprintf(format, args...))
	}
}

// broken ends the run: something does not hold.
func (w *world) broken(format string, args ...any) {
	if w.ended == nil {
		w.ended = fmt.Errorf("at %.3f s: %s", w.at.Seconds(), fmt.Sprintf(format, args...))
	}
}

func (w *world) has(f simFaults) bool { return w.faults&f != 0 }

// faulty draws whether a fault of a kind happens now.
func (w *world) faulty(f simFaults, share float64) bool {
	return w.has(f) && w.over == 0 && w.random.Float64() < share
}

// between draws a duration.
func (w *world) between(least, most time.Duration) time.Duration {
	return least + time.Duration(w.random.Int64N(int64(most-least)+1))
}

// later lets something happen, unless the machine is killed before.
func (w *world) later(m *machine, after time.Duration, what func()) {
	w.number++
	life := 0
	if m != nil {
		life = m.life
	}
	w.agenda.Add(simBegin.Add(w.at+after), w.number, func() {
		if m != nil && (m.life != life || !m.up) {
			return
		}
		w.stats.Events++
		w.happen(m, what)
	})
}

// run lets everything happen, and says what did not hold.
func (w *world) run() error {
	for _, m := range w.machines {
		w.later(nil, w.between(0, 3*time.Second), m.boot)
	}
	w.later(nil, time.Second, w.fault)
	w.later(nil, time.Duration(w.seconds)*time.Second, w.mend)
	for w.ended == nil && !w.complete() {
		if w.agenda.Len() == 0 {
			return fmt.Errorf("nothing happens any more at %v", w.at)
		}
		now, do := w.agenda.Next()
		w.at = now.Sub(simBegin)
		if w.over > 0 && w.at > w.over+simBound {
			w.broken("the games are not complete %v after the last fault: %s", simBound, w.learner.summary())
			break
		}
		do()
		if w.over == 0 && w.learner.complete() {
			w.mend()
		}
	}
	if w.over > 0 {
		w.stats.Slowest = w.at - w.over
	}
	if w.ended == nil {
		w.check()
	}
	return w.ended
}

// happen lets something happen on a machine, which its disk may kill.
func (w *world) happen(m *machine, what func()) {
	defer func() {
		if p := recover(); p != nil {
			if m == nil || p != any(durabletest.ErrKilled) {
				panic(p)
			}
			m.kill()
		}
	}()
	what()
}

// boot starts a machine.
func (m *machine) boot() {
	if m.up {
		return
	}
	m.up = true
	m.life++
	if m.w.faulty(clock, 0.5) {
		m.offset = m.w.between(-time.Hour, time.Hour)
	}
	m.w.say(m.name, "starts")
	m.w.happen(m, m.start)
}

// kill kills a machine's processes, or cuts its power, and starts them again later.
func (m *machine) kill() {
	w := m.w
	w.stats.Kills++
	m.up = false
	m.life++
	m.line++
	m.stop()
	if w.faulty(power, 0.5) {
		w.say(m.name, "loses its power")
		m.disk.PowerCut()
	} else {
		w.say(m.name, "is killed")
		m.disk.Kill()
	}
	if w.faulty(flip, 0.3) {
		m.flip()
	}
	w.later(nil, w.between(0, 8*time.Second), m.boot)
}

// fault lets a fault happen, and then the next one.
func (w *world) fault() {
	if w.over > 0 {
		return
	}
	m := w.machines[w.random.IntN(len(w.machines))]
	if w.random.IntN(3) == 0 {
		m = w.machines[0]
	}
	switch w.random.IntN(7) {
	case 0:
		if w.has(kill|power) && m.up {
			m.kill()
		}
	case 1:
		if w.has(kill|power) && m.up {
			m.disk.KillAt(m.disk.Operations + 1 + w.random.IntN(60))
		}
	case 2:
		if w.has(cut) && !m.cut {
			w.say(m.name, "is cut off")
			m.cut = true
			m.line++
			for _, k := range w.workers {
				if k.machine == m || m == w.machines[0] && w.inside {
					k.lost()
				}
			}
			w.later(nil, w.between(0, 40*time.Second), func() { w.say(m.name, "is connected again"); m.cut = false })
		}
	case 3:
		w.refuse(m, full, &m.disk.Full, "has a full disk", "has room on its disk")
	case 4:
		if w.has(liar) {
			w.lie()
		}
	case 5:
		if w.has(switched) && w.machines[0].up && w.random.IntN(3) == 0 {
			w.learner.switchRun()
		}
	case 6:
		w.refuse(m, failing, &m.disk.Failing, "has a disk that cannot write", "has a disk that can write")
	}
	w.later(nil, w.between(0, 4*time.Second), w.fault)
}

// refuse makes a machine's disk refuse to write for a while, if faults of this kind happen and it does not do so already.
func (w *world) refuse(m *machine, kind simFaults, refuses *bool, begins, ends string) {
	if !w.has(kind) || *refuses {
		return
	}
	w.say(m.name, "%s", begins)
	*refuses = true
	w.later(nil, w.between(0, 20*time.Second), func() { w.say(m.name, "%s", ends); *refuses = false })
}

// mend ends all faults.
func (w *world) mend() {
	if w.over > 0 {
		return
	}
	w.over = w.at
	w.say("", "the faults are over")
	if w.learner.active != 0 {
		w.learner.active = 0
		if w.machines[0].up {
			w.machines[0].kill()
		}
	}
	for _, m := range w.machines {
		m.cut, m.disk.Full, m.disk.Failing = false, false, false
		m.disk.KillAt(0)
	}
}

// complete reports whether all games are in files, and all workers know it and have nothing more to do.
func (w *world) complete() bool {
	if w.over == 0 || !w.learner.complete() {
		return false
	}
	for _, k := range w.workers {
		if k.old {
			continue
		}
		s := k.state
		if !k.machine.up || s == nil || s.spool == nil || len(s.spool.games) > 0 || len(s.player.leases) > 0 || s.player.phase != idle {
			return false
		}
	}
	return true
}

// check compares the files of the run with those of one machine. If a bit of a complete generation's file was flipped, opening the file
// must fail.
func (w *world) check() {
	disk := w.machines[0].disk
	for g := range simGenerations {
		dir := w.learner.folder(0, g)
		got, want := disk.Files(dir), expected(g, w.games)
		for name := range got { // a power cut may bring back what was removed: the lock, the journal, what was there under a temporary name
			if _, ok := want[name]; !ok && strings.HasPrefix(name, "games-") {
				w.broken("generation %d has a file %s", g, name)
			}
		}
		var other []string
		for name, content := range want {
			if got[name] != content {
				other = append(other, name)
			}
		}
		if len(other) == 0 {
			continue
		}
		_, err := selfplay.OpenStoreIn(disk, dir, simConfig(g), w.games, simShard)
		named := err != nil && slices.ContainsFunc(other, func(name string) bool { return strings.Contains(err.Error(), filepath.Join(dir, name)) })
		if !w.machines[0].flipped || !named {
			w.broken("generation %d: %v are not those of one machine; error %v", g, other, err)
		}
		w.stats.Damaged++
	}
}

// message carries a text to a machine, or loses it, or carries it twice, or late. What was sent before a line was cut is lost with it.
func (w *world) message(from, to *machine, deliver func()) {
	if from.cut {
		return
	}
	w.stats.Messages++
	if w.faulty(loss, 0.05) {
		w.stats.Lost++
		return
	}
	times := 1
	if w.faulty(double, 0.05) {
		times = 2
	}
	lines := [2]int{from.line, to.line}
	for range times {
		delay := w.between(time.Millisecond, 20*time.Millisecond)
		if w.faulty(late, 0.05) {
			delay = w.between(0, 15*time.Second)
		}
		w.later(to, delay, func() {
			if to.cut || to.line != lines[1] {
				w.stats.Lost++
				return
			}
			deliver()
		})
	}
}

// simPool are the games of the generations, played once.
var simPool = sync.OnceValue(func() (texts [simGenerations][][]byte) {
	for g := range texts {
		c := simConfig(g)
		e, err := heuristic.New(eval.Bitsquares)
		if err != nil {
			panic(err)
		}
		texts[g] = make([][]byte, simGames)
		err = selfplay.Play(context.Background(), e, c, 0, simGames, nil, func(game *selfplay.Game) error {
			texts[g][game.Number] = encode(game)
			return nil
		})
		if err != nil {
			panic(err)
		}
	}
	return texts
})

func simConfig(generation int) selfplay.Config {
	c := selfplay.DefaultConfig()
	c.Rules, c.Network, c.Seed, c.Visits, c.FastVisits, c.OpeningPlies = "3x3x3", "bitsquares", uint64(generation), 8, 4, 3
	if generation > 0 {
		c.Network = fmt.Sprint("network-", generation)
	}
	return c
}

// simNetworks are the contents of the networks.
var simNetworks = sync.OnceValue(func() (all [simGenerations][]byte) {
	for g := 1; g < simGenerations; g++ {
		all[g] = make([]byte, networkPart+1000*g)
		random := rand.New(rand.NewPCG(uint64(g), 5))
		for i := range all[g] {
			all[g][i] = byte(random.Uint32())
		}
	}
	return all
})

// expected are the files of one machine.
func expected(generation, games int) map[string]string {
	simFiles.Lock()
	defer simFiles.Unlock()
	k := [2]int{generation, games}
	if all := simFiles.all[k]; all != nil {
		return all
	}
	disk := durabletest.NewDisk(rand.New(rand.NewPCG(1, 1)))
	store, err := selfplay.OpenStoreIn(disk, "/games", simConfig(generation), games, simShard)
	if err != nil {
		panic(err)
	}
	for _, text := range simPool()[generation][:games] {
		var g selfplay.Game
		if err := errors.Join(json.Unmarshal(text, &g), store.Check(&g), store.Add(&g)); err != nil {
			panic(err)
		}
	}
	if err := store.Close(); err != nil {
		panic(err)
	}
	simFiles.all[k] = disk.Files("/games")
	return simFiles.all[k]
}

var simFiles = struct {
	sync.Mutex
	all map[[2]int]map[string]string
}{all: map[[2]int]map[string]string{}}
