// Package cluster lets many machines play the games of a self-play run. One process, the learner, owns the run's folder and stores the
// games; workers on any machine play them. They communicate through a NATS server, inside the learner or elsewhere.
//
//	cluster.go  names, messages and limits shared by learner and workers
//	server.go   the server inside the learner: permissions, TLS
//
//	learner.go       the learner: its life, and generations of games
//	learnerstate.go  the learner: its state and its answers
//	jobs.go          the learner: games to play, and the leases of their workers
//	parcel.go        the learner: reads messages with games
//	answer.go        the learner: receives and answers messages, and limits the log lines that they cause
//	keep.go          the learner: receives games and writes them to the disk
//
//	worker.go        a worker: connects to a server
//	workerstate.go   a worker: its state and its next actions
//	workerplay.go    a worker: the same for jobs and networks
//	session.go       a worker: carries out the actions of its state
//	spool.go         a worker: games on its disk that the learner has not confirmed
//	network.go       a worker: networks on its disk, one copy per machine
//
//	status.go   the status of the learner and its workers
//	metrics.go  the same for Prometheus
//
// # Decisions
//
// The decisions of learner and worker are in two state machines, learnerState and workerState, without clock, connection or goroutine. The
// real program calls them with NATS messages and the time. The simulation (simulate_test.go) calls them with messages that are lost,
// doubled, delayed and forged, in virtual time, on disks that lose unsynced data. It replays every failure from a number.
//
// The server stores nothing; it only passes messages on. A worker keeps a game until the learner has confirmed it, and the learner confirms
// a game when it is on the learner's disk: in the journal or in a file of records of the run's folder (selfplay.Store). These two are the
// ledger that decides which games are new. Games are numbered, and a game follows from its run's configuration and its number. So a game
// that arrives twice is the same game, and is dropped; a game that is never confirmed is played again. Workers ask the learner for jobs and
// networks, and it leases a job until its games are stored. A lost message only delays a run.
//
// Jobs and networks are in no stream of the server (JetStream), because a worker could write to it: the server checks the subjects to which
// a client publishes, but not the reply subject that the client names, and publishes the reply there itself. So with a permitted request, a
// worker that names the stream's subject instead of its inbox could insert a job, overwrite a network or delete the stream. The subjects of
// this package lead only to the learner, which answers only to inboxes.
//
// The games of a generation are the same as on one machine. So workers wait while the learner trains and measures, unless the run is
// continuous (learn.Config.Continuous).
package cluster

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/evald/evald/engine/selfplay"
	"github.com/evald/evald/engine/short"
)

// Names at the server.
const (
	helloSubject   = "evald.hello"
	jobSubject     = "evald.job"
	networkSubject = "evald.network"
	gamesSubject   = "evald.games"
	statusSubject  = "evald.status"
	workerSubject  = "evald.worker" // workers report their status and their leases here

	inboxes = "_INBOX." // prefix of all reply subjects
)

// pace is the time limits and buffer sizes of a learner and its workers. Tests use other values.
type pace struct {
	lease    time.Duration // how long a worker may be silent before its jobs are leased to others
	patience time.Duration // timeout for an answer of the learner
	pause    time.Duration // before the next try

	window int // games beyond the first missing one that the learner leases and accepts; it keeps them in memory
	spool  int // a worker pauses when it has this many unconfirmed games
}

var usual = pace{lease: 20 * time.Second, patience: 5 * time.Second, pause: 500 * time.Millisecond, window: window, spool: spoolGames}

const (
	mostPatience = 24 // times patience: for an answer of a slow learner

	// Upper bound on the timeout for transferring a network. The timeout starts small, because a lost message costs as much, and doubles
	// with each retry.
	networkPatience = 5 * time.Minute
	networkPart     = 128 << 10 // bytes of a network in a message
)

// job is a range of games to play.
type job struct {
	Lease      string          `json:"lease"` // names the job; its worker must keep reporting it, or others get it
	Generation int             `json:"generation"`
	Network    string          `json:"sha256,omitempty"` // empty: the heuristic of Config.Network plays
	Bytes      int             `json:"bytes,omitempty"`  // of the network
	Config     selfplay.Config `json:"config"`
	Missing    []int           `json:"missing"` // numbers of the games to play
	All        int             `json:"all"`     // games of the generation
	AtOnce     int             `json:"at_once"` // maximum concurrent games of a worker
}

// settings identify everything that determines a generation's games.
func (j job) settings() string {
	text, err := json.Marshal([]any{j.Config, j.Network, j.All})
	if err != nil {
		panic(err) // Validate has refused everything that JSON cannot represent
	}
	return sum(text)
}

// request is a worker's request to the learner.
type request struct {
	Version    string `json:"version"`
	Worker     string `json:"worker"`
	Run        string `json:"run,omitempty"`
	Generation int    `json:"generation"`
	Settings   string `json:"settings,omitempty"`

	Network string `json:"sha256,omitempty"` // of networkSubject
	From    int    `json:"from,omitempty"`   // of networkSubject: offset of the first byte to send

	Games []json.RawMessage `json:"games,omitempty"` // of gamesSubject
}

// reply is the learner's answer.
type reply struct {
	Run     string `json:"run"`
	Refused string `json:"refused,omitempty"` // permanent reason
	Later   string `json:"later,omitempty"`   // temporary reason
	Early   bool   `json:"early,omitempty"`   // of gamesSubject: some games are in no job yet
	Job     *job   `json:"job,omitempty"`     // of jobSubject; nil: there is none now
}

// ok reports whether the request succeeded.
func (r reply) ok() bool { return r.Refused == "" && r.Later == "" }

// ErrRefused is the error of a worker that the learner rejects.
var ErrRefused = errors.New("the learner refuses this worker")

// Connection is the address of the server and the caller's credentials. Its file names may be empty.
type Connection struct {
	URL         string // nats://, tls://, ws:// or wss://, with USER:PASSWORD@ or TOKEN@ before the host
	Credentials string // file of a NATS account
	CA          string // file of certificates (PEM) of the authorities that sign the server's

	pace pace // zero: default
}

// connect connects, and reconnects after a lost connection. Replies go to subjects below inbox; name tells it to the server (see
// server.go). Later errors of the server go to the log.
func (c Connection) connect(name, inbox string, log *slog.Logger, more ...nats.Option) (*nats.Conn, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	p := cmp.Or(c.pace, usual)
	options := append(more, nats.Name(name+" "+inbox), nats.CustomInboxPrefix(inbox), nats.MaxReconnects(-1), nats.ReconnectWait(p.pause),
		nats.ReconnectJitter(p.pause, p.pause), nats.PingInterval(10*time.Second), nats.Timeout(p.patience),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { log.Warn("the server objects", "error", err) }))
	if c.Credentials != "" {
		options = append(options, nats.UserCredentials(c.Credentials))
	}
	if c.CA != "" {
		options = append(options, nats.RootCAs(c.CA))
	}
	conn, err := nats.Connect(c.URL, options...)
	if unknown, ok := errors.AsType[*net.DNSError](err); ok {
		return nil, fmt.Errorf("%s: the name %s does not resolve: %w", c.plain(), unknown.Name, unknown)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.plain(), err)
	}
	return conn, nil
}

// check returns an error for invalid URLs, which commas separate, without their secrets.
func (c Connection) check() error {
	for _, text := range strings.Split(c.URL, ",") {
		u, err := url.Parse(withScheme(strings.TrimSpace(text)))
		switch {
		case err != nil:
			return errors.New("the server's URL cannot be read: want nats://HOST:PORT or tls://HOST:PORT, with USER:PASSWORD@ or TOKEN@ before the host")
		case !slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme):
			return fmt.Errorf("the server's URL begins with %s://, want nats, tls, ws or wss", short.Text(u.Scheme))
		case u.Hostname() == "" || len(u.Hostname()) > 253: // the maximum length of a host name
			return fmt.Errorf("the server's URL has the host %s, want a name or an address", short.Quote(u.Hostname()))
		case !isHost.MatchString(u.Hostname()):
			return fmt.Errorf("the server's URL has the host %s, want a name (letters, digits, - and dots) or an address", short.Quote(u.Hostname()))
		case u.Port() != "" && !isPort(u.Port()):
			return fmt.Errorf("the server's URL has the port %s, want 1 to 65535", short.Quote(u.Port()))
		case strings.Trim(u.Path, "/")+u.RawQuery != "" && !strings.HasPrefix(u.Scheme, "ws"):
			return fmt.Errorf("the server's URL has %s after the host: if it is the name of a file, give the URL in that file", short.Quote(u.RequestURI()))
		}
	}
	return nil
}

// isHost matches names and addresses.
var isHost = regexp.MustCompile(`^([\pL\pN_]([\pL\pN_-]*\.?))+$|^[0-9a-fA-F:.]+(%.+)?$`)

func isPort(text string) bool {
	n, err := strconv.Atoi(text)
	return err == nil && n >= 1 && n <= 65535
}

func withScheme(url string) string {
	if strings.Contains(url, "://") {
		return url
	}
	return "nats://" + url
}

// plain is the URL without secrets.
func (c Connection) plain() string {
	scheme, rest, _ := strings.Cut(withScheme(c.URL), "://")
	return scheme + "://" + rest[strings.LastIndex(rest, "@")+1:]
}
