package cluster

import (
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// Server says how the server inside the learner listens.
type Server struct {
	Listen           string // HOST:PORT; port 0 is any
	Certificate, Key string // files (PEM); empty: no TLS
	Password         string // of workers; empty: one is made, and kept in Options.Dir
}

// Users of the server inside the learner, and where their answers go.
const (
	learnerUser  = "learner"
	workerUser   = "worker"
	learnerInbox = "_INBOX.learner"
	workerInbox  = "_INBOX.worker"
)

// workerMay is what a worker's credentials open: to ask the learner, to take jobs, to read networks.
func workerMay() *server.Permissions {
	jobs, objects := jobsStream+"."+jobsConsumer, "OBJ_"+networksName
	return &server.Permissions{
		Publish: &server.SubjectPermission{Allow: []string{
			helloSubject, missingSubject, gamesSubject, statusSubject, workerSubject,
			"$JS.API.CONSUMER.INFO." + jobs, "$JS.API.CONSUMER.MSG.NEXT." + jobs, "$JS.ACK." + jobs + ".>",
			"$JS.API.STREAM.INFO." + objects, "$JS.API.DIRECT.GET." + objects + ".>",
			"$JS.API.CONSUMER.CREATE." + objects + ".>", "$JS.API.CONSUMER.INFO." + objects + ".>", "$JS.API.CONSUMER.DELETE." + objects + ".>",
			"$JS.FC." + objects + ".>",
		}},
		Subscribe: &server.SubjectPermission{Allow: []string{workerInbox + ".>"}},
	}
}

// start starts a server whose files are in a folder. learner and worker are passwords.
func (s Server) start(dir, learner, worker string) (*server.Server, error) {
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
		ServerName: "evald", Host: host, Port: port, NoSigs: true, NoLog: true, WriteDeadline: 10 * time.Second,
		JetStream: true, StoreDir: dir, SyncAlways: true,
		Users: []*server.User{{Username: learnerUser, Password: learner}, {Username: workerUser, Password: worker, Permissions: workerMay()}},
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
	// The server says what it cannot listen on in its log alone.
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
	if !srv.ReadyForConnections(10*time.Second) || !srv.JetStreamEnabled() {
		srv.Shutdown()
		return nil, fmt.Errorf("%s: the NATS server inside does not start: is there room in %s?", s.Listen, dir)
	}
	return srv, nil
}

// inside connects the learner to its own server.
func inside(srv *server.Server, password string) (*nats.Conn, error) {
	return nats.Connect("", nats.InProcessServer(srv), nats.UserInfo(learnerUser, password), nats.CustomInboxPrefix(learnerInbox),
		nats.Name(learnerUser), nats.MaxReconnects(-1), nats.ReconnectWait(usual.pause))
}

// secret reads a password from a file that only its owner can read, or makes one.
func secret(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err == nil && len(text) > 0 {
		return string(text), nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	password := rand.Text()
	return password, os.WriteFile(path, []byte(password), 0o600)
}
