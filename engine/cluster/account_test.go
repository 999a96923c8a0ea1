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
	a := accounts{t: t, account: try(nkeys.CreateAccount())(t)}
	operator := try(nkeys.CreateOperator())(t)
	signed := func(pair nkeys.KeyPair, jetStream bool) (public, text string) {
		public = try(pair.PublicKey())(t)
		claims := jwt.NewAccountClaims(public)
		if jetStream {
			claims.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: 1 << 30, DiskStorage: 1 << 30, Streams: 10, Consumer: 1000}
		}
		return public, try(claims.Encode(operator))(t)
	}
	system, systemText := signed(try(nkeys.CreateAccount())(t), false)
	account, accountText := signed(a.account, true)
	resolver := &server.MemAccResolver{}
	for public, text := range map[string]string{system: systemText, account: accountText} {
		if err := resolver.Store(public, text); err != nil {
			t.Fatal(err)
		}
	}
	trusted := try(jwt.NewOperatorClaims(try(operator.PublicKey())(t)).Encode(operator))(t)
	a.url = outsideWith(t, &server.Options{
		TrustedOperators: []*jwt.OperatorClaims{try(jwt.DecodeOperatorClaims(trusted))(t)}, SystemAccount: system, AccountResolver: resolver,
	})
	return a
}

// user writes a file of credentials, with which its owner may publish and subscribe so much; nil is everything.
func (a accounts) user(name string, publish, subscribe []string) cluster.Connection {
	a.t.Helper()
	pair := try(nkeys.CreateUser())(a.t)
	claims := jwt.NewUserClaims(try(pair.PublicKey())(a.t))
	claims.Pub.Allow, claims.Sub.Allow = publish, subscribe
	text := try(jwt.FormatUserConfig(try(claims.Encode(a.account))(a.t), try(pair.Seed())(a.t)))(a.t)
	path := filepath.Join(a.t.TempDir(), name+".creds")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		a.t.Fatal(err)
	}
	return cluster.Connection{URL: a.url, Credentials: path}
}

// try is for functions that return a value and an error: try(f())(t).
func try[T any](x T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
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
	if err := os.WriteFile(network, []byte("a network"), 0o644); err != nil {
		t.Fatal(err)
	}
	l := open(t, cluster.Options{Outside: &learner})
	permissions(t, worker)
	if conn, err := nats.Connect(a.url); err == nil {
		conn.Close()
		t.Error("somebody without credentials is connected")
	}
	others := accounts{t: t, url: a.url, account: try(nkeys.CreateAccount())(t)}
	if conn, err := nats.Connect(a.url, nats.UserCredentials(others.user("stranger", nil, nil).Credentials)); err == nil {
		conn.Close()
		t.Error("somebody with credentials of an account that the server does not know is connected")
	}

	var told ledger
	work(t, cluster.WorkerOptions{Connection: worker, Kept: told.kept})
	c, dir := small(0), t.TempDir()
	if err := l.Play(t.Context(), selfplay.Batch{Config: c, Dir: dir, Games: 60, Network: network}); err != nil {
		t.Fatal(err)
	}
	same(t, alone(t, c, 60), files(t, dir))
	told.check(t, 0, dir, 60)
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
