package cluster_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/evald/evald/engine/cluster"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/selfplay"
)

// accounts is a server elsewhere whose users have credentials of an account, as nsc makes them.
type accounts struct {
	t       *testing.T
	url     string
	account nkeys.KeyPair
}

func newAccounts(t *testing.T) accounts {
	t.Helper()
	a := accounts{t: t, account: gametest.Must(nkeys.CreateAccount())(t)}
	operator := gametest.Must(nkeys.CreateOperator())(t)
	signed := func(pair nkeys.KeyPair) (public, text string) {
		public = gametest.Must(pair.PublicKey())(t)
		return public, gametest.Must(jwt.NewAccountClaims(public).Encode(operator))(t)
	}
	system, systemText := signed(gametest.Must(nkeys.CreateAccount())(t))
	account, accountText := signed(a.account)
	resolver := &server.MemAccResolver{}
	for public, text := range map[string]string{system: systemText, account: accountText} {
		gametest.OK(t, resolver.Store(public, text))
	}
	trusted := gametest.Must(jwt.NewOperatorClaims(gametest.Must(operator.PublicKey())(t)).Encode(operator))(t)
	a.url = outsideWith(t, &server.Options{
		TrustedOperators: []*jwt.OperatorClaims{gametest.Must(jwt.DecodeOperatorClaims(trusted))(t)}, SystemAccount: system, AccountResolver: resolver,
	}).ClientURL()
	return a
}

// user writes a file of credentials, with which its owner may publish and subscribe so much; nil is everything.
func (a accounts) user(name string, publish, subscribe []string) cluster.Connection {
	a.t.Helper()
	pair := gametest.Must(nkeys.CreateUser())(a.t)
	claims := jwt.NewUserClaims(gametest.Must(pair.PublicKey())(a.t))
	claims.Pub.Allow, claims.Sub.Allow = publish, subscribe
	text := gametest.Must(jwt.FormatUserConfig(gametest.Must(claims.Encode(a.account))(a.t), gametest.Must(pair.Seed())(a.t)))(a.t)
	path := filepath.Join(a.t.TempDir(), name+".creds")
	gametest.OK(a.t, os.WriteFile(path, text, 0o600))
	return cluster.Connection{URL: a.url, Credentials: path}
}

// At a server elsewhere the learner and the worker have credentials of an account. The worker's open what a worker does and
// nothing else, those of another account do not open this one, and without credentials nothing is opened.
func TestAccount(t *testing.T) {
	within(t, time.Minute)
	a := newAccounts(t)
	learner := a.user("learner", nil, nil)
	publish, subscribe := cluster.WorkerMay()
	worker := a.user("worker", publish, subscribe)
	network := filepath.Join(t.TempDir(), "network")
	gametest.OK(t, os.WriteFile(network, []byte("a network"), 0o644))
	l := open(t, cluster.Options{Outside: &learner})
	permissions(t, worker, nats.CustomInboxPrefix("_INBOX.worker"))
	if conn, err := nats.Connect(a.url); err == nil {
		conn.Close()
		t.Error("somebody without credentials is connected")
	}
	others := accounts{t: t, url: a.url, account: gametest.Must(nkeys.CreateAccount())(t)}
	if conn, err := nats.Connect(a.url, nats.UserCredentials(others.user("stranger", nil, nil).Credentials)); err == nil {
		conn.Close()
		t.Error("somebody with credentials of an account that the server does not know is connected")
	}

	var told ledger
	work(t, cluster.WorkerOptions{Connection: worker, Kept: told.kept})
	playSame(t, l, selfplay.Batch{Config: small(0), Games: 60, Network: network}, &told)
	if s, err := cluster.Ask(t.Context(), worker); err != nil || s.Kept != 60 {
		t.Errorf("status %+v, error %v", s, err)
	}
	for _, o := range []cluster.WorkerOptions{{Connection: to(a.url)}, {Connection: others.user("stranger", nil, nil)}} {
		o.Version, o.Dir, o.Log, o.Evaluator = "v", t.TempDir(), quiet(), bitsquares
		if err := cluster.Work(t.Context(), o); err == nil {
			t.Error("a worker without credentials plays")
		}
	}
}
