// Package cluster lets many machines play the games of a self-play run. One process, the learner, owns the run's folder and stores the
// games. Workers on any machine play games. They communicate through a NATS server, which runs inside the learner or elsewhere.
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
// program calls them with NATS messages and the time. The simulation (simulate_test.go) calls them with messages that are lost, duplicated,
// delayed and forged, in virtual time, on disks that lose unsynced data. It can replay each failure from a number.
//
// The server stores nothing; it only forwards messages. A worker keeps a game until the learner has confirmed it, and the learner confirms
// a game once it is on the learner's disk: in the journal or in a file of records of the run's folder (selfplay.Store). These two define
// which games exist. A game depends only on its run's configuration and its number. So a game that arrives twice is the same game, and is
// dropped; a game that is never confirmed is played again. Workers ask the learner for jobs and networks, and the learner leases a job
// until its games are stored. A lost message only delays a run.
//
// Jobs, games and networks are not in streams of the server (JetStream). A prototype with streams had
// as much code and weaker guarantees: a full disk ended the run, acknowledged messages were not
// synced, and workers could end other workers' jobs (JETSTREAM.md). The server does not check the
// reply subject that a client names. So the subjects of this package lead only to the learner, which
// replies only to inboxes.
//
// The games of a generation are the same as on one machine. So workers wait while the learner trains and plays matches, unless the run is
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
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/evald/evald/engine/selfplay"
	"github.com/evald/evald/engine/short"
)

// Protocol is the version that a learner and its workers must have in common. It changes with their messages, and with the games of a
// configuration (TestProtocol); a program's own version may differ.
const Protocol = "protocol 1"

// Names that the server knows.
const (
	helloSubject   = "evald.hello"
	jobSubject     = "evald.job"
	networkSubject = "evald.network"
	gamesSubject   = "evald.games"
	statusSubject  = "evald.status"
	workerSubject  = "evald.worker" // workers report their status and their leases here

	inboxes = "_INBOX." // prefix of all reply subjects
)

// pace is the timeouts and buffer sizes of a learner and its workers. Tests use other values.
type pace struct {
	lease    time.Duration // time for which a worker may be silent before its jobs are leased to others
	lost     time.Duration // time for which a worker may be silent before it counts as lost
	patience time.Duration // timeout for a reply of the learner
	pause    time.Duration // pause before a retry

	window int // number of games after the first missing one that the learner leases and accepts; it keeps them in memory
	spool  int // a worker pauses when it has this many unconfirmed games
}

var usual = pace{lease: 20 * time.Second, lost: 20 * time.Second, patience: 5 * time.Second, pause: 500 * time.Millisecond, window: window, spool: spoolGames}

const (
	mostPatience = 24 // upper bound on patience for a slow learner, as a multiple

	// Upper bound on the timeout for transferring a network. The timeout starts small, so that a lost message costs little time, and
	// doubles with each retry.
	networkPatience = 5 * time.Minute
	networkPart     = 128 << 10 // bytes of a network per message
)

// job is a range of games to play.
type job struct {
	Lease      string          `json:"lease"` // name of the lease; the worker must report it repeatedly, or other workers get the job
	Generation int             `json:"generation"`
	Network    string          `json:"sha256,omitempty"` // "" if the heuristic Config.Network plays
	Bytes      int             `json:"bytes,omitempty"`  // size of the network
	Config     selfplay.Config `json:"config"`
	Missing    []int           `json:"missing"` // numbers of the games to play
	All        int             `json:"all"`     // number of games of the generation
	AtOnce     int             `json:"at_once"` // maximum number of concurrent games per worker
}

// settings identifies everything that determines a generation's games.
func (j job) settings() string {
	text, err := json.Marshal([]any{j.Config, j.Network, j.All})
	if err != nil {
		panic(err) // Validate has rejected everything that JSON cannot represent
	}
	return sum(text)
}

type request struct {
	Version    string `json:"version"`
	Worker     string `json:"worker"`
	Run        string `json:"run,omitempty"`
	Generation int    `json:"generation"`
	Settings   string `json:"settings,omitempty"`

	Network string `json:"sha256,omitempty"` // for networkSubject
	From    int    `json:"from,omitempty"`   // for networkSubject: offset of the first byte to send

	Games []json.RawMessage `json:"games,omitempty"` // for gamesSubject
}

type reply struct {
	Run     string `json:"run"`
	Refused string `json:"refused,omitempty"` // reason of a permanent failure
	Later   string `json:"later,omitempty"`   // reason of a temporary failure
	Early   bool   `json:"early,omitempty"`   // for gamesSubject: some games are in no job yet
	Job     *job   `json:"job,omitempty"`     // for jobSubject; nil if there is no job now
}

// ok reports whether the request succeeded.
func (r reply) ok() bool { return r.Refused == "" && r.Later == "" }

// ErrRefused is the error of a worker that the learner rejects.
var ErrRefused = errors.New("the learner refuses this worker")

// Connection is the address of the server and the caller's credentials. The names of files are optional.
type Connection struct {
	URL         string // nats://, tls://, ws:// or wss://, with USER:PASSWORD@ or TOKEN@ before the host
	Credentials string // file with the credentials of a NATS account
	CA          string // file (PEM) with certificates of the authorities that sign the server's

	pace pace // zero means the default
}

// connect connects to the server, and reconnects after a loss of the connection. Replies go to subjects below inbox. The connection's name
// tells the inbox to the server (see server.go). Later errors of the server are logged.
func (c Connection) connect(name, inbox string, log *slog.Logger, more ...nats.Option) (*nats.Conn, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	p := cmp.Or(c.pace, usual)
	var refused atomic.Bool // after it was connected, which is logged once
	options := append(more, nats.Name(name+" "+inbox), nats.CustomInboxPrefix(inbox), nats.MaxReconnects(-1), nats.ReconnectWait(p.pause),
		nats.ReconnectJitter(p.pause, p.pause), nats.PingInterval(10*time.Second), nats.Timeout(p.patience),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			if !errors.Is(err, nats.ErrAuthorization) {
				log.Warn("the server objects", "error", err)
			} else if !refused.Swap(true) { // it is of a learner that may end again
				log.Warn("the server has another password now; waiting for one with this worker's: give all learners the same EVALD_WORKER_PASSWORD")
			}
		}))
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

// check returns an error if a URL is invalid, without the URL's secrets. Commas separate several URLs.
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

// isHost matches host names and addresses.
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

// plain returns the URL without secrets.
func (c Connection) plain() string {
	scheme, rest, _ := strings.Cut(withScheme(c.URL), "://")
	return scheme + "://" + rest[strings.LastIndex(rest, "@")+1:]
}
