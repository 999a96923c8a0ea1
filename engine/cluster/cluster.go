// Package cluster lets many machines play the games of a self-play run. One process, the learner, has the run's folder and
// keeps the games; workers on any machine play them. Between them is a NATS server, which the learner has in itself, or
// which runs elsewhere.
//
//	cluster.go  what learner and workers agree on: names, messages, limits
//	server.go   the server inside the learner: who may do what, TLS
//	learner.go  the learner: jobs and networks for workers
//	keep.go     the learner: games that come in, and what is answered
//	worker.go   a worker: jobs, games
//	session.go  a worker: what it has of the learner's run
//	spool.go    a worker: games on its disk that the learner has not confirmed
//	network.go  networks from the server, each once a machine
//	status.go   what the learner knows of its workers; metrics
//
// # Decisions
//
// Nothing that matters is in the broker. A worker keeps a game until the learner has confirmed it, and the learner confirms a
// game when it is on the learner's disk: in the journal or in a file of records of the run's folder (selfplay.Store). These
// two are the ledger that decides what is new. Games are numbered, and a game follows from its run's configuration and its
// number. So a game that comes twice is the same game, and is dropped; a game that nobody confirms is played again. Jobs and
// networks are in JetStream, in memory. The learner puts there again what is missing, so a server that loses or
// repeats what it has delays a run, and does no more.
//
// The games of a generation are the same as on one machine. So workers wait while the learner trains and measures.
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
	jobsStream   = "JOBS"
	jobsConsumer = "workers"
	jobsSubject  = "evald.jobs"
	networksName = "networks" // the object store; an object's name is its SHA-256

	helloSubject   = "evald.hello"
	missingSubject = "evald.missing"
	gamesSubject   = "evald.games"
	statusSubject  = "evald.status"
	workerSubject  = "evald.worker" // workers say here how they are
)

// pace is how long a learner and its workers wait for each other. Tests have a shorter one.
type pace struct {
	lease    time.Duration // how long a worker may be silent before others get its jobs
	patience time.Duration // for an answer of the learner
	pause    time.Duration // before the next try
}

var usual = pace{lease: 20 * time.Second, patience: 5 * time.Second, pause: 500 * time.Millisecond}

const (
	mostPatience = 24 // times patience: for an answer of a learner that lags

	// For a network to reach the server, or a worker, at most. It begins with little, for it is also how long a lost message
	// is waited for, and doubles with each try.
	networkPatience = 5 * time.Minute
)

// job is a range of games to play.
type job struct {
	Run        string          `json:"run"`
	Version    string          `json:"version"`
	Generation int             `json:"generation"`
	Network    string          `json:"sha256,omitempty"` // empty: the heuristic of Config.Network plays
	Config     selfplay.Config `json:"config"`
	First      int             `json:"first"`
	Games      int             `json:"games"`
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
	Version    string            `json:"version"`
	Worker     string            `json:"worker"`
	Run        string            `json:"run,omitempty"`
	Generation int               `json:"generation"`
	Settings   string            `json:"settings,omitempty"`
	First      int               `json:"first"`           // of missingSubject
	Number     int               `json:"number"`          // of missingSubject: how many games
	Games      []json.RawMessage `json:"games,omitempty"` // of gamesSubject
}

// reply is the learner's answer.
type reply struct {
	Run     string `json:"run"`
	Refused string `json:"refused,omitempty"` // why, for good
	Later   string `json:"later,omitempty"`   // why not now
	Missing []int  `json:"missing,omitempty"`
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

// connect connects, and goes on when the connection was lost. inbox is what answers are sent to. What the server objects to
// later goes to the log.
func (c Connection) connect(name, inbox string, log *slog.Logger, more ...nats.Option) (*nats.Conn, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	p := cmp.Or(c.pace, usual)
	options := append(more, nats.Name(name), nats.CustomInboxPrefix(inbox), nats.MaxReconnects(-1), nats.ReconnectWait(p.pause),
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
