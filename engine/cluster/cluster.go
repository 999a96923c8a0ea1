// Package cluster lets many machines play the games of a self-play run. One process, the learner, has the run's folder and
// keeps the games; workers on any machine play them. Between them is a NATS server, which the learner has in itself, or
// which runs elsewhere.
//
//	cluster.go  what learner and workers agree on: names, messages, limits
//	server.go   the server inside the learner: who may do what, TLS
//
//	learner.go       the learner: its life, and generations of games
//	learnerstate.go  the learner: what it knows, and what it answers
//	jobs.go          the learner: games for workers to play, and which of them have a worker
//	parcel.go        the learner: a message with games is read
//	answer.go        the learner: messages come in and go out, and the lines that they can cause in its log
//	keep.go          the learner: games come in and go to the disk
//
//	worker.go        a worker: connects to a server
//	workerstate.go   a worker: what it knows, and what it does next
//	workerplay.go    a worker: the same for jobs and networks
//	session.go       a worker: does what its state says
//	spool.go         a worker: games on its disk that the learner has not confirmed
//	network.go       a worker: networks on its disk, each once a machine
//
//	status.go        what the learner knows of its workers
//	metrics.go       the same for Prometheus
//
// # Decisions
//
// What learner and worker decide is in two state machines, learnerState and workerState, which have no clock, no connection and no
// goroutine. The real program calls them with NATS messages and the time; the simulation (simulate_test.go) with messages that are lost,
// doubled, delayed and forged, in virtual time, on disks that lose what was not synced. It replays every failure from a number.
//
// The server has nothing. It passes messages on. A worker keeps a game until the learner has confirmed it, and the learner
// confirms a game when it is on the learner's disk: in the journal or in a file of records of the run's folder
// (selfplay.Store). These two are the ledger that decides what is new. Games are numbered, and a game follows from its run's
// configuration and its number. So a game that comes twice is the same game, and is dropped; a game that nobody confirms is
// played again. Workers ask the learner for jobs and networks, and it leases a job until its games are kept. A message that is lost delays a run, and does no more.
//
// Jobs and networks are in no stream of the server (JetStream), because a worker could write there: the server checks what
// a client may publish, but not which subject the client names for the answer, and publishes that answer itself. So a request that a
// worker may make, with the subject of the stream in the place of its inbox, would put a job there, overwrite a network or delete the stream.
// No subject of this package leads to anything but the learner, which answers to inboxes alone.
//
// The games of a generation are the same as on one machine. So workers wait while the learner trains and measures, unless the run
// is continuous (learn.Config.Continuous).
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
	workerSubject  = "evald.worker" // workers report here how they are, and which jobs they have

	inboxes = "_INBOX." // what all subjects for answers begin with
)

// pace is how long a learner and its workers wait for each other, and how much they keep. Tests have another one.
type pace struct {
	lease    time.Duration // how long a worker may be silent before others get its jobs
	patience time.Duration // for an answer of the learner
	pause    time.Duration // before the next try

	window int // games beyond the first missing one that the learner gives out, and takes; it keeps them in memory
	spool  int // games of a worker that are not confirmed; then it plays no more until some are
}

var usual = pace{lease: 20 * time.Second, patience: 5 * time.Second, pause: 500 * time.Millisecond, window: window, spool: spoolGames}

const (
	mostPatience = 24 // times patience: for an answer of a learner that lags

	// For a network to reach a worker, at most. It begins with little, for it is also how long a lost message is waited for,
	// and doubles with each try.
	networkPatience = 5 * time.Minute
	networkPart     = 128 << 10 // bytes of a network in a message
)

// job is a range of games to play.
type job struct {
	Lease      string          `json:"lease"` // names the job; the worker that has it reports that, or others get it
	Generation int             `json:"generation"`
	Network    string          `json:"sha256,omitempty"` // empty: the heuristic of Config.Network plays
	Bytes      int             `json:"bytes,omitempty"`  // of the network
	Config     selfplay.Config `json:"config"`
	Missing    []int           `json:"missing"` // numbers of the games to play
	All        int             `json:"all"`     // games of the generation
	AtOnce     int             `json:"at_once"` // that a worker plays, at most
}

// settings identify all that decides a generation's games.
func (j job) settings() string {
	text, err := json.Marshal([]any{j.Config, j.Network, j.All})
	if err != nil {
		panic(err) // Validate has refused what JSON cannot have
	}
	return sum(text)
}

// request is what a worker asks the learner.
type request struct {
	Version    string `json:"version"`
	Worker     string `json:"worker"`
	Run        string `json:"run,omitempty"`
	Generation int    `json:"generation"`
	Settings   string `json:"settings,omitempty"`

	Network string `json:"sha256,omitempty"` // of networkSubject
	From    int    `json:"from,omitempty"`   // of networkSubject: the first byte that is wanted

	Games []json.RawMessage `json:"games,omitempty"` // of gamesSubject
}

// reply is the learner's answer.
type reply struct {
	Run     string `json:"run"`
	Refused string `json:"refused,omitempty"` // why, for good
	Later   string `json:"later,omitempty"`   // why not now
	Job     *job   `json:"job,omitempty"`     // of jobSubject; nil: there is none now
}

// ok reports whether the learner has done what it was asked.
func (r reply) ok() bool { return r.Refused == "" && r.Later == "" }

// ErrRefused is the error of a worker that the learner does not want.
var ErrRefused = errors.New("the learner refuses this worker")

// Connection says where the server is, and who asks. Its file names may be empty.
type Connection struct {
	URL         string // nats://, tls://, ws:// or wss://, with USER:PASSWORD@ or TOKEN@ before the host
	Credentials string // file of a NATS account
	CA          string // file of certificates (PEM) of those who sign the server's

	pace pace // zero: usual
}

// connect connects, and reconnects when the connection was lost. Answers are sent to subjects below inbox, which the name
// tells the server (see server.go). What the server objects to later goes to the log.
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

// check says what is wrong with the URLs, which commas separate, without the secrets in them.
func (c Connection) check() error {
	for _, text := range strings.Split(c.URL, ",") {
		u, err := url.Parse(withScheme(strings.TrimSpace(text)))
		switch {
		case err != nil:
			return errors.New("the server's URL cannot be read: want nats://HOST:PORT or tls://HOST:PORT, with USER:PASSWORD@ or TOKEN@ before the host")
		case !slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme):
			return fmt.Errorf("the server's URL begins with %s://, want nats, tls, ws or wss", short.Text(u.Scheme))
		case u.Hostname() == "" || len(u.Hostname()) > 253: // the longest name that there is
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
