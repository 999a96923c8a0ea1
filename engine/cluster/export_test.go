package cluster

import (
	"encoding/json"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/selfplay"
)

// Settings identify the games of a batch by a heuristic.
func Settings(c selfplay.Config, games int) string { return job{Config: c, All: games}.settings() }

// MostParcel is the maximum size of a message, and ParcelBytes that of its games without the last.
const (
	MostParcel  = mostParcel
	ParcelBytes = parcelBytes
)

// Patience is how long tests wait for an answer at first.
const Patience = time.Second

var hurried = pace{lease: 2 * Patience, patience: Patience, pause: Patience / 10, lost: time.Minute, window: window, spool: spoolGames}

// Hurried has the shorter waits of tests.
func (o Options) Hurried() Options {
	o.pace = hurried
	return o
}

// Forgetful loses workers after a moment of silence.
func (o Options) Forgetful() Options {
	o.pace = hurried
	o.pace.lost = 200 * time.Millisecond
	return o
}

// Hurried has shorter waits, from this patience on, in a worker's options too.
func (c Connection) Hurried(patience time.Duration) Connection {
	c.pace = hurried
	c.pace.patience = patience
	return c
}

// SlowDisk is a disk on which games are being written until release is called.
func (l *Learner) SlowDisk() (release func()) {
	l.keeping.Lock()
	return l.keeping.Unlock
}

// Lease is how long a worker of these tests may be silent.
var Lease = hurried.lease

// Job is a learner's answer with a job.
func Job(run, lease string, c selfplay.Config, missing ...int) ([]byte, error) {
	return json.Marshal(reply{Run: run, Job: &job{Lease: lease, Config: c, Missing: missing, All: len(missing), AtOnce: 64}})
}

// JobBy is one of games by a network.
func JobBy(run string, network []byte, c selfplay.Config, missing ...int) ([]byte, error) {
	return json.Marshal(reply{Run: run, Job: &job{Lease: "x", Network: sum(network), Bytes: len(network), Config: c, Missing: missing, All: 1000, AtOnce: 64}})
}

// AskJob is a worker's request for a job.
func AskJob(run string) ([]byte, error) {
	return json.Marshal(request{Version: "v", Worker: "test", Run: run})
}

// GotJob is the job in a learner's answer.
func GotJob(text []byte) (lease string, missing []int, err error) {
	var r reply
	if err := json.Unmarshal(text, &r); err != nil || r.Job == nil {
		return "", nil, err
	}
	return r.Job.Lease, r.Job.Missing, nil
}

// Held are the leases that a worker reports.
func Held(text []byte) (leases []string, err error) {
	var r report
	err = json.Unmarshal(text, &r)
	return r.Holds, err
}

// AsWorker are the options of a worker's connection.
func AsWorker() []nats.Option {
	inbox := newInbox()
	return []nats.Option{nats.Name("test " + inbox), nats.CustomInboxPrefix(inbox)}
}

// Spool is a worker's games that are not confirmed.
type Spool struct{ s *spool }

// OpenSpool opens the one in a file.
func OpenSpool(path string) (*Spool, error) {
	s, err := openSpool(durable.OS, path, spoolGames, slog.New(slog.DiscardHandler))
	return &Spool{s}, err
}

// Add, Next, Full, Confirmed, Len and Close are those of a spool.
func (s *Spool) Add(g *selfplay.Game) { s.s.add(spooled{1, "x", g.Number, encode(g)}) }
func (s *Spool) Full() bool           { return s.s.full() }
func (s *Spool) Confirmed(n int)      { s.s.forget(n) }
func (s *Spool) Len() int             { all, _ := s.s.size(0); return all }
func (s *Spool) Close()               { s.s.close() }
func (s *Spool) Next() (numbers []int) {
	for _, g := range s.s.next() {
		numbers = append(numbers, g.Number)
	}
	return numbers
}

// SpoolGames is how many games a worker has that are not confirmed at most.
const SpoolGames = spoolGames

// Parcel is a message with games.
func Parcel(version, run, settings string, generation int, games ...json.RawMessage) ([]byte, error) {
	return json.Marshal(request{Version: version, Worker: "test", Run: run, Settings: settings, Generation: generation, Games: games})
}

// GamesSubject is where parcels go.
const GamesSubject = gamesSubject

// WorkerSubject is where workers report.
const WorkerSubject = workerSubject

// Answer is what the learner says to a parcel.
func Answer(text []byte) (refused, later string, err error) {
	var r reply
	err = json.Unmarshal(text, &r)
	return r.Refused, r.Later, err
}

// WorkerMay is what a worker must be allowed at a server elsewhere, to publish and to subscribe.
func WorkerMay() (publish, subscribe []string) {
	p := workerMay(workerInbox)
	return p.Publish.Allow, p.Subscribe.Allow
}

// Window, JobGames and Share say how games are divided.
const Window = window

func JobGames(all, workers int) int { return jobGames(all, workers) }
func Share(all, workers int) int    { return share(all, workers) }

// ReadParcel reads a message with games, and says why it is refused.
func ReadParcel(text []byte) (games int, refused string) {
	var p parcel
	p.read(text)
	return len(p.Games), p.reply.Refused
}

// Elements are how many games and positions a message has at most.
func Elements(text []byte) (games, plies int) {
	games, plies, _ = elements(text)
	return games, plies
}
