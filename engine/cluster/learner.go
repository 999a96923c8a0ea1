package cluster

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/evald/evald/engine/selfplay"
)

// Options of a Learner.
type Options struct {
	Version string // of the program; workers must have the same
	Dir     string // for the run's number, the workers' password, and what the server needs
	Log     *slog.Logger

	// One of the two: the server inside, or one elsewhere.
	Server  Server
	Outside *Connection

	pace pace // zero: usual
}

// Learner hands out jobs and keeps the games that come in. Close it.
type Learner struct {
	pace
	o        Options
	run      string // its number, random
	password string // of workers
	server   *server.Server
	conn     *nats.Conn
	js       jetstream.JetStream
	incoming chan *nats.Msg // games
	progress chan struct{}  // games were kept
	done     sync.WaitGroup

	// keeping is held while games are looked at and written, which waits for the disk. playing and last change, and the
	// store is written, under it alone. mu is held for moments: who answers a worker or the status waits for it, and not for
	// the disk.
	keeping sync.Mutex

	mu      sync.Mutex
	playing *generation // nil between generations
	last    int         // the last generation that is complete, -1 if it is not known
	workers map[string]*Worker
	total   Status // of its life: Kept, Duplicates, Refused and Failures
	queued  int    // jobs that no worker has taken, when look last looked
}

// generation is one whose games are being played.
type generation struct {
	job   job // without First and Games
	id    string
	store *selfplay.Store
	grew  time.Time // when the last new game came
	start time.Time // of Play
	had   int       // games that were there at the start

	purged bool // the server has no jobs of before
	given  int  // jobs of games below this were given out

	patient time.Duration // for the network to reach the server
}

// Open starts the server, or joins one, and listens to workers. It fails if another learner is there.
func Open(ctx context.Context, o Options) (*Learner, error) {
	l := &Learner{pace: cmp.Or(o.pace, usual), o: o, last: -1, workers: map[string]*Worker{}, incoming: make(chan *nats.Msg, 1024), progress: make(chan struct{}, 1)}
	if err := l.begin(ctx); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

func (l *Learner) begin(ctx context.Context) (err error) {
	if err := os.MkdirAll(l.o.Dir, 0o755); err != nil {
		return err
	}
	if l.run, err = secret(filepath.Join(l.o.Dir, "run")); err != nil {
		return err
	}
	if l.o.Outside != nil {
		l.conn, err = l.o.Outside.connect(learnerUser, learnerInbox, l.o.Log)
	} else {
		err = l.serve()
	}
	if err != nil {
		return err
	}
	if l.js, err = jetstream.New(l.conn); err != nil {
		return err
	}
	if answer, err := l.conn.Request(helloSubject, []byte("{}"), l.patience); err == nil {
		var r reply
		_ = json.Unmarshal(answer.Data, &r) // the run is for people
		return fmt.Errorf("another learner is at this server, of run %.10q: give each an account of its own", r.Run)
	}
	if _, _, err := l.prepare(ctx); err != nil {
		return err
	}
	return l.listen()
}

// serve starts the server inside and connects to it.
func (l *Learner) serve() (err error) {
	if l.password = l.o.Server.Password; l.password == "" {
		if l.password, err = secret(filepath.Join(l.o.Dir, "password")); err != nil {
			return err
		}
	}
	own := rand.Text()
	if l.server, err = l.o.Server.start(filepath.Join(l.o.Dir, "nats"), own, l.password); err != nil {
		return err
	}
	l.conn, err = inside(l.server, own)
	return err
}

// Join is the URL for workers on this machine, with their password; others put in the name of this machine. It is empty if
// the server is elsewhere.
func (l *Learner) Join() string {
	if l.server == nil {
		return ""
	}
	scheme := "nats"
	if l.o.Server.Certificate != "" {
		scheme = "tls"
	}
	u := url.URL{Scheme: scheme, User: url.UserPassword(workerUser, l.password), Host: l.server.Addr().String()}
	return u.String()
}

// Close ends the server inside, or leaves the one elsewhere. Play must have returned.
func (l *Learner) Close() {
	if l.conn != nil {
		l.conn.Close()
	}
	close(l.incoming)
	l.done.Wait()
	if l.server != nil {
		l.server.Shutdown()
		l.server.WaitForShutdown()
	}
}

// prepare makes what is missing at the server. It is not in files: what a server loses is put there again.
func (l *Learner) prepare(ctx context.Context) (stream jetstream.Stream, jobs jetstream.Consumer, err error) {
	stream, err = l.js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
		Name: jobsStream, Subjects: []string{jobsSubject}, Retention: jetstream.WorkQueuePolicy, Storage: jetstream.MemoryStorage,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("stream %s: %w", jobsStream, err)
	}
	jobs, err = l.js.CreateOrUpdateConsumer(ctx, jobsStream, jetstream.ConsumerConfig{
		Durable: jobsConsumer, AckPolicy: jetstream.AckExplicitPolicy, AckWait: l.lease, MaxAckPending: -1,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("consumer %s: %w", jobsConsumer, err)
	}
	_, err = l.js.CreateOrUpdateObjectStore(ctx, jetstream.ObjectStoreConfig{Bucket: networksName, Storage: jetstream.MemoryStorage})
	if err != nil {
		return nil, nil, fmt.Errorf("object store %s: %w", networksName, err)
	}
	return stream, jobs, nil
}

// window is how many games beyond the first missing one are given out. It bounds the games that are kept in memory.
const window = 1 << 14

// jobGames is how many games a job has if so many workers share all games. Small jobs let them end a generation together.
func jobGames(all, workers int) int { return min(max(min(all, window)/max(64, 4*workers), 4), 128) }

// share is how many games one of so many workers plays at once at most, so that each has some, and nobody waits long for those
// who took the last ones.
func share(all, workers int) int {
	workers = max(workers, 1)
	return max(min(all/max(8, 2*workers), window/(2*workers)), 16)
}

// Play lets workers play the games of a generation that are missing, and returns when all are in files. Generations must be
// played in order, also those that are complete.
func (l *Learner) Play(ctx context.Context, b selfplay.Batch) error {
	store, err := selfplay.OpenStore(b.Dir, b.Config, b.Games)
	if err != nil {
		return err
	}
	g := &generation{store: store, grew: time.Now(), start: time.Now(), had: store.Games(), patient: 2 * l.patience, job: job{Run: l.run, Version: l.o.Version, Generation: b.Generation, Config: b.Config, All: b.Games}}
	var network []byte
	if b.Network != "" {
		if network, err = os.ReadFile(b.Network); err != nil {
			return errors.Join(err, store.Close())
		}
		g.job.Network = sum(network)
	}
	g.id = g.job.settings()
	l.turn(g, b.Generation-1)
	err = l.play(ctx, g, network, b.Report)
	last := b.Generation - 1
	if err == nil {
		last = b.Generation
	}
	l.turn(nil, last)
	return errors.Join(err, store.Close())
}

// turn begins a generation, or ends it if playing is nil. When it returns, no games of the one before are being written.
func (l *Learner) turn(playing *generation, last int) {
	l.keeping.Lock()
	defer l.keeping.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.playing, l.last = playing, last
}

// play looks after the server until all games are there.
func (l *Learner) play(ctx context.Context, g *generation, network []byte, report func(selfplay.Progress)) error {
	tick := time.NewTicker(l.pause)
	defer tick.Stop()
	for {
		had := g.store.Games()
		p := selfplay.Progress{Games: had, All: g.job.All, Played: had - g.had, Proved: g.store.Proved(), Elapsed: time.Since(g.start)}
		if report != nil && p.Played > 0 {
			report(p)
		}
		if l.complete(g) {
			return nil
		}
		err := l.look(ctx, g, network)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			l.o.Log.Warn("the server does not take jobs; trying again", "error", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		case <-l.progress:
			select { // not for each game
			case <-ctx.Done():
			case <-time.After(l.pause / 10):
			}
		}
	}
}

// complete reports whether all games are in files. It writes the last file, if that has failed before.
func (l *Learner) complete(g *generation) bool {
	if g.store.First() < g.job.All {
		return false
	}
	l.keeping.Lock()
	defer l.keeping.Unlock()
	return l.add(g) == nil
}

// look puts at the server what is missing there: the network, and jobs of games that nobody has.
// The first time it takes away what was there before. If the server is slow, the next look goes on.
func (l *Learner) look(ctx context.Context, g *generation, network []byte) error {
	if err := l.putNetwork(ctx, g, network); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*l.patience)
	defer cancel()
	stream, err := l.js.Stream(ctx, jobsStream)
	var consumer jetstream.Consumer
	if err == nil {
		consumer, err = stream.Consumer(ctx, jobsConsumer)
	}
	if errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrConsumerNotFound) {
		g.purged = false
		stream, consumer, err = l.prepare(ctx)
	}
	if err != nil {
		return err
	}
	if !g.purged {
		if err := stream.Purge(ctx); err != nil {
			return err
		}
		g.given, g.purged = 0, true
	}
	info, err := stream.Info(ctx)
	if err != nil {
		return err
	}
	waiting, err := consumer.Info(ctx)
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.queued = int(waiting.NumPending)
	stale := info.State.Msgs == 0 || waiting.NumPending == 0 && time.Since(g.grew) > 2*l.lease
	if stale { // the server has lost jobs, or a worker sits on one: a game that two play is kept once
		g.given, g.grew = g.store.First(), time.Now()
	}
	jobs := g.missing(l.heard())
	l.mu.Unlock()
	for _, j := range jobs {
		text, err := json.Marshal(j)
		if err != nil {
			return err
		}
		if _, err := l.js.Publish(ctx, jobsSubject, text); err != nil {
			g.given = j.First
			return err
		}
	}
	return nil
}

// missing are jobs of missing games from given on, as far as the window reaches, for so many workers.
func (g *generation) missing(workers int) (jobs []job) {
	size := jobGames(g.job.All, workers)
	for to := min(g.store.First()+window, g.job.All); g.given < to; {
		j := g.job
		j.First, j.Games, j.AtOnce = g.given, min(size, g.job.All-g.given), share(g.job.All, workers)
		g.given += j.Games
		for n := range j.Games {
			if !g.store.Has(j.First + n) {
				jobs = append(jobs, j)
				break
			}
		}
	}
	return jobs
}

// putNetwork puts a generation's network into the object store, in place of all others, if it is not there.
func (l *Learner) putNetwork(ctx context.Context, g *generation, network []byte) error {
	if g.job.Network == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, g.patient)
	defer cancel()
	err := l.putObject(ctx, g.job.Network, network)
	if err != nil {
		g.patient = min(2*g.patient, networkPatience)
	}
	return err
}

func (l *Learner) putObject(ctx context.Context, name string, network []byte) error {
	objects, err := l.js.ObjectStore(ctx, networksName)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		if _, _, err = l.prepare(ctx); err == nil {
			objects, err = l.js.ObjectStore(ctx, networksName)
		}
	}
	if err != nil {
		return err
	}
	info, err := objects.GetInfo(ctx, name)
	if err != nil && !errors.Is(err, jetstream.ErrObjectNotFound) {
		return err
	}
	if err == nil && info.Digest == digest(network) {
		return nil
	}
	all, err := objects.List(ctx)
	if err != nil && !errors.Is(err, jetstream.ErrNoObjectsFound) {
		return err
	}
	for _, old := range all {
		if err := objects.Delete(ctx, old.Name); err != nil {
			return err
		}
	}
	_, err = objects.Put(ctx, jetstream.ObjectMeta{Name: name}, bytes.NewReader(network))
	return err
}

// digest is what the object store says of an object with this content.
func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return "SHA-256=" + base64.URLEncoding.EncodeToString(sum[:])
}
