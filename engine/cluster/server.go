package cluster

import (
	"crypto/rand"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/evald/evald/engine/durable"
)

// Server configures the server inside the learner.
type Server struct {
	Listen           string // HOST:PORT; with port 0 the system chooses one
	Certificate, Key string // files (PEM); empty for no TLS
	Password         string // of workers; if empty, one is generated and stored in Options.Dir
}

// Users of the server inside the learner, and the prefixes of their inboxes.
const (
	learnerUser  = "learner"
	workerUser   = "worker"
	learnerInbox = inboxes + "learner"
	workerInbox  = inboxes + "worker"
)

// Limits of the server inside the learner.
const (
	mostConnections   = 10_000
	mostSubscriptions = 64       // per connection; a worker has one
	mostUnread        = 64 << 20 // bytes buffered per connection for at most writeDeadline; the learner's connection receives the games of hundreds of workers
	writeDeadline     = 10 * time.Second
)

// newInbox returns a new inbox for one connection of a worker. The inbox is a secret between that connection and the server: all workers
// share a password, and none may read another's replies.
func newInbox() string { return workerInbox + "." + rand.Text() }

// isInbox matches the results of newInbox.
var isInbox = regexp.MustCompile(`^` + regexp.QuoteMeta(workerInbox) + `\.[A-Z2-7]{26}$`)

// workerMay lists what a worker may do: ask the learner, send games and reports, and read replies to its own inbox.
func workerMay(inbox string) *server.Permissions {
	return &server.Permissions{
		Publish:   &server.SubjectPermission{Allow: []string{helloSubject, jobSubject, networkSubject, gamesSubject, statusSubject, workerSubject}},
		Subscribe: &server.SubjectPermission{Allow: []string{inbox + ".>"}},
	}
}

// passwords authenticates users by their passwords.
type passwords struct{ learner, worker string }

// Check implements server.Authentication. The name of a worker's connection must end with its inbox; otherwise it may not subscribe.
func (p passwords) Check(c server.ClientAuthentication) bool {
	o := c.GetOpts()
	is := func(user, password string) bool {
		return o.Username == user && subtle.ConstantTimeCompare([]byte(o.Password), []byte(password)) == 1
	}
	switch {
	case is(learnerUser, p.learner):
		c.RegisterUser(&server.User{Username: learnerUser})
		return true
	case is(workerUser, p.worker):
		inbox := o.Name[strings.LastIndex(o.Name, " ")+1:]
		may := workerMay(inbox)
		if !isInbox.MatchString(inbox) {
			may.Subscribe = &server.SubjectPermission{Deny: []string{">"}}
		}
		c.RegisterUser(&server.User{Username: workerUser, Permissions: may})
		return true
	}
	return false
}

// start starts a server that stores no files. learner and worker are passwords.
func (s Server) start(learner, worker string) (*server.Server, error) {
	host, text, err := net.SplitHostPort(s.Listen)
	if err != nil {
		return nil, err
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return nil, fmt.Errorf("%s: the port must be a number", s.Listen)
	}
	if port == 0 {
		port = server.RANDOM_PORT
	}
	options := &server.Options{
		ServerName: "evald", Host: host, Port: port, NoSigs: true, NoLog: true, WriteDeadline: writeDeadline,
		MaxConn: mostConnections, MaxSubs: mostSubscriptions, MaxPending: mostUnread,
		CustomClientAuthentication: passwords{learner, worker},
	}
	if s.Certificate != "" {
		config, err := server.GenTLSConfig(&server.TLSConfigOpts{
			CertFile: s.Certificate, KeyFile: s.Key, MinVersion: tls.VersionTLS12,
		})
		if err != nil {
			return nil, err
		}
		options.TLS, options.TLSConfig, options.TLSTimeout = true, config, usual.patience.Seconds()
	}
	// The server reports an address on which it cannot listen only in its log.
	l, err := net.Listen("tcp", net.JoinHostPort(host, text))
	if err != nil {
		return nil, err
	}
	if err := l.Close(); err != nil {
		return nil, err
	}
	srv, err := server.NewServer(options)
	if err != nil {
		return nil, err
	}
	srv.Start()
	if !srv.ReadyForConnections(10 * time.Second) {
		srv.Shutdown()
		return nil, fmt.Errorf("%s: the NATS server inside does not start", s.Listen)
	}
	return srv, nil
}

// inside connects the learner to the server inside it. said is called with later errors of the server.
func inside(srv *server.Server, password string, said nats.ErrHandler) (*nats.Conn, error) {
	return nats.Connect("", nats.InProcessServer(srv), nats.UserInfo(learnerUser, password), nats.CustomInboxPrefix(learnerInbox),
		nats.Name(learnerUser), nats.MaxReconnects(-1), nats.ReconnectWait(usual.pause), nats.ErrorHandler(said))
}

// secret reads a password from a file that only its owner can read; if there is none, it stores fresh there. When it returns, the password
// is durable, even if a killed learner wrote it just before, because workers keep the password.
func secret(disk durable.FS, path, fresh string) (string, error) {
	text, err := disk.ReadFile(path)
	if err == nil && len(text) > 0 {
		return string(text), disk.SyncDir(filepath.Dir(path))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	return fresh, durable.WriteSecretIn(disk, path, []byte(fresh))
}
