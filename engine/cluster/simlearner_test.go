package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/durable/durabletest"
	"github.com/evald/evald/engine/selfplay"
)

// simLearner is the learner's process, as Learner is in the real program, and the user who looks after it. It has the folders of two runs,
// of which one is active.
type simLearner struct {
	w       *world
	machine *machine
	active  int

	// Of the process.
	state      *learnerState
	store      *selfplay.Store
	generation int
	busy       bool // games are being kept
	incoming   []simParcel
}

// simParcel is a message with games that waits.
type simParcel struct {
	text   []byte
	answer func(text []byte)
}

func newSimLearner(w *world) *simLearner {
	l := &simLearner{w: w}
	l.machine = newMachine(w, "learner")
	l.machine.start, l.machine.stop, l.machine.flip = l.start, l.stop, l.flip
	return l
}

func newMachine(w *world, name string) *machine {
	m := &machine{w: w, name: name, disk: durabletest.NewDisk(rand.New(rand.NewPCG(w.seed, 100+uint64(len(w.machines)))))}
	m.disk.Clock = m.time
	w.machines = append(w.machines, m)
	return m
}

func (l *simLearner) folder(run, generation int) string {
	return filepath.Join("/", fmt.Sprint("run", run), fmt.Sprint(generation))
}

// path is that of a file of the active run.
func (l *simLearner) path(name string) string {
	return filepath.Join("/", fmt.Sprint("run", l.active), name)
}

func (l *simLearner) stop() {
	l.state, l.store, l.busy, l.incoming = nil, nil, false, nil
	if l.w.inside {
		for _, k := range l.w.workers {
			k.machine.line++ // of its connection
			k.lost()
		}
	}
}

// start is Open, and then the loop of learn: it plays the generations that are not complete.
func (l *simLearner) start() {
	disk := l.machine.disk
	name := func() string { return fmt.Sprintf("L%X", l.w.random.Uint64()) }
	state := newLearnerState("v", simPace, l.machine.logger(), name)
	l.generation = 0
	err := durable.MkdirAllIn(disk, l.path("cluster"))
	if err == nil {
		state.run, err = secret(disk, l.path("cluster/run"), fmt.Sprintf("R%X", l.w.random.Uint64()))
	}
	if err == nil {
		var text []byte
		if text, err = disk.ReadFile(l.path("generation")); err == nil {
			l.generation, err = strconv.Atoi(string(text))
		} else if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	if err != nil {
		l.cannotStart(err)
		return
	}
	state.last = l.generation - 1
	l.state = state
	l.begin()
}

// cannotStart tries again later. Errors of a full or failing disk pass, and others must be those of flipped bits.
func (l *simLearner) cannotStart(err error) {
	l.w.say("learner", "cannot start: %v", err)
	if !l.machine.ill() && !l.machine.flipped {
		l.w.broken("the learner cannot start: %v", err)
	}
	l.machine.kill()
}

// begin begins the next generation, if there is one.
func (l *simLearner) begin() {
	if l.generation == simGenerations {
		return
	}
	c := simConfig(l.generation)
	dir := l.folder(l.active, l.generation)
	store, err := selfplay.OpenStoreIn(l.machine.disk, dir, c, l.w.games, simShard)
	if err != nil {
		l.repair(dir, err)
		l.cannotStart(err)
		return
	}
	l.store = store
	for g := range l.w.told {
		if g.run == l.state.run && g.generation == l.generation && !store.Has(g.number) {
			if l.machine.flipped { // a line of the journal was flipped into a torn one at its end
				l.w.stats.Damaged++
				delete(l.w.told, g)
				continue
			}
			l.w.broken("a worker was told of game %d of generation %d, which is lost", g.number, g.generation)
		}
	}
	b := selfplay.Batch{Generation: l.generation, Config: c, Dir: dir, Games: l.w.games}
	l.state.begin(newGeneration(b, simNetworks()[l.generation], store, simPace.window, l.machine.time()))
	l.w.say("learner", "begins generation %d with %d games", l.generation, store.Games())
	l.tick()
}

// tick is what Learner.play does again and again.
func (l *simLearner) tick() {
	g := l.state.playing
	if !l.busy && g.store.First() >= g.job.All {
		fresh, err := g.add()
		l.state.stored(l.machine.time(), g, 0, fresh, err)
		if err == nil {
			l.end()
			return
		}
	}
	g.expire(l.machine.time(), simPace.lease)
	l.w.later(l.machine, simPace.pause, l.tick)
}

// end ends a generation, and begins the next one when its network was trained.
func (l *simLearner) end() {
	l.state.end(true)
	if err := l.store.Close(); err != nil {
		l.cannotStart(err)
		return
	}
	l.store = nil
	if err := durable.WriteFileIn(l.machine.disk, l.path("generation"), []byte(strconv.Itoa(l.generation+1))); err != nil {
		l.cannotStart(err)
		return
	}
	l.w.say("learner", "has all games of generation %d", l.generation)
	l.generation++
	l.w.later(l.machine, l.w.between(0, 5*time.Second), l.begin)
}

func (l *simLearner) complete() bool { return l.state != nil && l.generation == simGenerations }

func (l *simLearner) summary() string {
	if l.state == nil {
		return "the learner does not run"
	}
	s := l.state.status(l.machine.time(), len(l.incoming))
	text := fmt.Sprintf("generation %d, %d of %d games, %d jobs wait", s.Generation, s.Games, s.All, s.Jobs)
	for _, k := range l.w.workers {
		if k.state != nil && k.state.spool != nil {
			text += fmt.Sprintf("; %s phase %d, %d in its spool", k.name, k.state.player.phase, len(k.state.spool.games))
		}
	}
	return text
}

// came takes a message from a worker.
func (l *simLearner) came(subject string, text []byte, answer func(text []byte)) {
	if l.state == nil {
		return
	}
	if subject == gamesSubject {
		if len(l.incoming) < 64 { // the server drops what waits too long
			l.incoming = append(l.incoming, simParcel{text, answer})
			l.keep()
		}
		return
	}
	a := l.state.answer(l.machine.time(), readQuestion(subject, text), len(l.incoming))
	if a.reply != nil && a.reply.Job != nil {
		if last, end := slices.Max(a.reply.Job.Missing), l.state.playing.upTo(); last >= end {
			l.w.broken("a job has game %d, and games up to %d are taken", last, end-1)
		}
	}
	answer(a.encode(1 << 20))
}

// keep is what Learner.keep does with the messages that wait.
func (l *simLearner) keep() {
	if l.busy || len(l.incoming) == 0 {
		return
	}
	l.busy = true
	l.w.later(l.machine, l.delay(), func() {
		n := min(len(l.incoming), together)
		group := l.incoming[:n]
		l.incoming = l.incoming[n:]
		parcels := make([]parcel, n)
		for i := range group {
			parcels[i].read(group[i].text)
			l.state.judge(&parcels[i])
		}
		var err error
		if games := l.state.accept(parcels); len(games) > 0 {
			g := l.state.playing
			var fresh int
			fresh, err = g.add(games...)
			l.state.stored(l.machine.time(), g, len(games), fresh, err)
			if beyond := g.store.Games() - g.store.First(); beyond > simPace.window {
				l.w.broken("%d games are in memory, want %d at most", beyond, simPace.window)
			}
		}
		l.w.later(l.machine, l.delay(), func() {
			l.state.confirm(l.machine.time(), parcels, err)
			for i := range group {
				if parcels[i].reply.Refused != "" {
					l.w.stats.Refused++
				}
				group[i].answer(encode(parcels[i].reply))
			}
			l.busy = false
			l.keep()
		})
	})
}

// delay is how long the disk needs.
func (l *simLearner) delay() time.Duration {
	if l.w.faulty(slow, 0.1) {
		return l.w.between(0, 20*time.Second)
	}
	return l.w.between(0, 20*time.Millisecond)
}

// switchRun lets the user begin the other run, or go on with it, at the same address.
func (l *simLearner) switchRun() {
	l.active = 1 - l.active
	l.w.say("learner", "is stopped, and begun with run %d", l.active)
	l.machine.kill()
}

// flip flips a bit in a file of the active run.
func (l *simLearner) flip() {
	dir := l.folder(l.active, l.w.random.IntN(simGenerations))
	if path := l.machine.disk.Flip(dir); path != "" {
		l.machine.flipped = true
		l.w.say("learner", "a bit of %s is flipped", path)
	}
}

// repair does what a store's error says: it removes the file that is damaged and those of later games, or begins the generation anew.
// The error must name a file of the generation.
func (l *simLearner) repair(dir string, err error) {
	if l.machine.ill() {
		return
	}
	if !strings.Contains(err.Error(), dir) {
		l.w.broken("an error names no file in %s: %v", dir, err)
	}
	l.w.stats.Damaged++
	l.w.say("learner", "the user removes %s", dir)
	files := l.machine.disk.Files(dir)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := l.machine.disk.Remove(filepath.Join(dir, name)); err != nil {
			l.w.broken("%v", err)
		}
	}
	if err := l.machine.disk.SyncDir(dir); err != nil {
		l.w.broken("%v", err)
	}
	for g := range l.w.told {
		if g.run == l.state.run && g.generation == l.generation {
			delete(l.w.told, g)
		}
	}
}
