package cluster_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/evald/evald/engine/cluster"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/selfplay"
)

// certificate writes a certificate of this machine that signs itself.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	k := gametest.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der := gametest.Must(x509.CreateCertificate(rand.Reader, template, template, k.Public(), k))(t)
	private := gametest.Must(x509.MarshalECPrivateKey(k))(t)
	dir := t.TempDir()
	write := func(name, kind string, content []byte) string {
		path := filepath.Join(dir, name)
		gametest.OK(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}), 0o600))
		return path
	}
	return write("cert.pem", "CERTIFICATE", der), write("key.pem", "EC PRIVATE KEY", private)
}

// lockedBuffer is a log that a test reads.
type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}

// A learner whose disk has lost the run's name says so, in place of each worker.
func TestDamagedRun(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "run")
	gametest.OK(t, os.WriteFile(file, []byte("5Z5PZM\x00\x00\x00"), 0o600))
	_, err := cluster.Open(t.Context(), cluster.Options{Version: "v", Dir: dir, Log: quiet(), Server: cluster.Server{Listen: "127.0.0.1:0"}})
	if err == nil || !strings.Contains(err.Error(), file+": is damaged") {
		t.Errorf("a damaged name of the run: %v", err)
	}
}

// A worker that cannot play here is told why, and so is the learner's user.
func TestRefused(t *testing.T) {
	within(t, time.Minute)
	cert, key := certificate(t)
	other, _ := certificate(t)
	var log lockedBuffer
	plain := open(t, cluster.Options{Version: "v1", Log: slog.New(slog.NewTextHandler(&log, nil))})
	secure := open(t, cluster.Options{Version: "v1", Server: cluster.Server{Listen: "127.0.0.1:0", Certificate: cert, Key: key}})
	wrong := func(url string) string {
		return url[:strings.Index(url, "worker:")] + "worker:guess@" + after(url, "@")
	}
	for _, test := range []struct {
		name    string
		c       cluster.Connection
		version string
		want    string
	}{
		{"another version", connection(plain), "v2", `its version is "v2", and the learner's "v1"`},
		{"a wrong password", to(wrong(plain.Join())), "v1", "Authorization Violation"},
		{"no password", to("nats://" + after(plain.Join(), "@")), "v1", "Authorization Violation"},
		{"a certificate of an unknown authority", connection(secure), "v1", "certificate signed by unknown authority"},
		{"another's certificate", cluster.Connection{URL: secure.Join(), CA: other}, "v1", "certificate signed by unknown authority"},
		{"a wrong password by TLS", cluster.Connection{URL: wrong(secure.Join()), CA: cert}, "v1", "Authorization Violation"},
	} {
		err := cluster.Work(t.Context(), cluster.WorkerOptions{Connection: test.c, Version: test.version, Dir: t.TempDir(), Parallel: 8, Batch: 8, Log: quiet(), Evaluator: bitsquares})
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "guess") {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
		if test.version == "v2" && (!errors.Is(err, cluster.ErrRefused) || !strings.Contains(log.String(), "refused a worker of another version") || !strings.Contains(log.String(), "version=v2")) {
			t.Errorf("%s: %v; the learner says %q", test.name, err, log.String())
		}
		if _, err := cluster.Ask(t.Context(), test.c); test.version == "v1" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: status: %v", test.name, err)
		}
	}
	url := outside(t).ClientURL()
	open(t, cluster.Options{Outside: new(to(url))})
	o := cluster.Options{Version: "v", Dir: t.TempDir(), Log: quiet(), Outside: new(to(url))}
	// In no hurry: the first learner's answer may take a moment.
	if _, err := cluster.Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), "another learner, of run ") {
		t.Errorf("a second learner at one server: %v", err)
	}
}

func after(s, sep string) string {
	_, rest, _ := strings.Cut(s, sep)
	return rest
}

// Another learner comes to the address: of another run, for which the worker plays then, or of another version, which refuses
// it.
func TestOtherLearner(t *testing.T) {
	within(t, time.Minute)
	listen := freePort(t)
	begin := func(version string) *cluster.Learner {
		o := cluster.Options{Version: version, Dir: t.TempDir(), Log: quiet(), Server: cluster.Server{Listen: listen, Password: "secret"}}
		return gametest.Must(cluster.Open(t.Context(), o.Hurried()))(t)
	}
	ended := make(chan error, 1)
	go func() {
		ended <- cluster.Work(t.Context(), cluster.WorkerOptions{
			Connection: to("nats://worker:secret@" + listen), Version: "v", Dir: t.TempDir(), Parallel: 16, Batch: 8, Log: quiet(), Evaluator: bitsquares,
		})
	}()
	const games = 60
	for range 2 {
		l := begin("v")
		playSame(t, l, selfplay.Batch{Config: small(0), Games: games}, new(ledger))
		l.Close()
	}
	l := begin("w")
	defer l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- l.Play(ctx, selfplay.Batch{Config: small(0), Dir: t.TempDir(), Games: games}) }()
	if err := <-ended; !errors.Is(err, cluster.ErrRefused) || !strings.Contains(err.Error(), `its version is "v", and the learner's "w"`) {
		t.Errorf("another version: %v", err)
	}
	cancel()
	<-over
	if n := l.Status().Games; n != 0 {
		t.Errorf("%d games of another version were kept", n)
	}
}

// A worker waits while learners of another password have its address, and plays for the next one of its own. New runs that share a
// password's file have the same.
func TestOtherPassword(t *testing.T) {
	within(t, time.Minute)
	listen, shared := freePort(t), filepath.Join(t.TempDir(), "user", "password")
	begin := func(shared string) *cluster.Learner {
		o := cluster.Options{Version: "v", Dir: t.TempDir(), Shared: shared, Log: quiet(), Server: cluster.Server{Listen: listen}}
		return gametest.Must(cluster.Open(t.Context(), o.Hurried()))(t)
	}
	l := begin(shared)
	var log lockedBuffer
	work(t, cluster.WorkerOptions{Connection: connection(l), Log: slog.New(slog.NewTextHandler(&log, nil))})
	playSame(t, l, selfplay.Batch{Config: small(0), Games: 60}, new(ledger))
	first := l.Join()
	l.Close()
	l = begin("") // of another user, for example
	if l.Join() == first {
		t.Error("a run without the file has its password")
	}
	for !strings.Contains(log.String(), "another password") {
		time.Sleep(time.Millisecond)
	}
	l.Close()
	l = begin(shared)
	defer l.Close()
	if l.Join() != first {
		t.Errorf("workers join %s, and before %s", l.Join(), first)
	}
	playSame(t, l, selfplay.Batch{Config: small(0), Games: 60}, new(ledger))
}

// By TLS the games are played as without. What crosses the wire has no password in it.
func TestTLS(t *testing.T) {
	within(t, time.Minute)
	cert, key := certificate(t)
	l := open(t, cluster.Options{Server: cluster.Server{Listen: "127.0.0.1:0", Certificate: cert, Key: key}})
	r := newRelay(t, after(l.Join(), "@"))
	password := strings.TrimPrefix(l.Join()[:strings.Index(l.Join(), "@")], "tls://worker:")
	work(t, cluster.WorkerOptions{Connection: cluster.Connection{URL: "tls://worker:" + password + "@" + r.l.Addr().String(), CA: cert}})
	playSame(t, l, selfplay.Batch{Config: small(0), Games: 60}, new(ledger))
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.seen.String(); len(s) < 5000 || strings.Contains(s, password) || strings.Contains(s, "Plies") {
		t.Errorf("%d bytes crossed the wire, of which some can be read", len(s))
	}
}

// A worker's password opens what a worker does, and nothing else; without it nothing is opened.
func TestPermissions(t *testing.T) {
	within(t, time.Minute)
	l := open(t, cluster.Options{})
	permissions(t, connection(l), cluster.AsWorker()...)
	if _, err := nats.Connect("nats://" + after(l.Join(), "@")); err == nil {
		t.Error("somebody without a password is connected")
	}
}

// permissions checks what a worker may do.
func permissions(t *testing.T, worker cluster.Connection, options ...nats.Option) {
	t.Helper()
	denied := make(chan error, 100)
	options = append(options, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { denied <- err }))
	if worker.Credentials != "" {
		options = append(options, nats.UserCredentials(worker.Credentials))
	}
	conn := gametest.Must(nats.Connect(worker.URL, options...))(t)
	defer conn.Close()
	for _, subject := range []string{
		"x", "evald", "evald.x", "evald.job.x", "$JS.API.STREAM.CREATE.MINE", "_INBOX.worker.other", "_INBOX.learner.x", "$SYS.REQ.SERVER.PING",
	} {
		gametest.OK(t, conn.Publish(subject, []byte("x")))
		expectDenied(t, denied, "publish "+subject)
	}
	for _, subject := range []string{">", "evald.>", "evald.games", "evald.hello", "_INBOX.>", "_INBOX.learner.>", "$JS.>", "$SYS.>"} {
		gametest.Must(conn.SubscribeSync(subject))(t)
		gametest.OK(t, conn.Flush())
		expectDenied(t, denied, "subscribe "+subject)
	}
	if _, err := conn.Request("evald.hello", []byte("{}"), 10*time.Second); err != nil {
		t.Error("a worker gets no answer:", err)
	}
}

// expectDenied waits for the server to refuse something.
func expectDenied(t *testing.T, denied chan error, what string) {
	t.Helper()
	select {
	case err := <-denied:
		if !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("%s: %v", what, err)
		}
	case <-time.After(10 * time.Second):
		t.Errorf("%s is allowed", what)
	}
}

// A URL that cannot be a server's is refused at once, in a short message without its secrets.
func TestWrongURL(t *testing.T) {
	for url, says := range map[string]string{
		"http://worker:hidden@host":                         "begins with http://, want nats",
		"nats://worker:hidden@":                             `the host "", want`,
		"nats://worker:hidden@h:4222,nats://":               `the host "", want`,
		"nats://worker:hidden@ho st:4222":                   "cannot be read",
		"nats://worker:hidden@" + strings.Repeat("x", 5000): "want a name or an address",
		"nats://worker:hidden@host:65536":                   `the port "65536", want 1 to 65535`,
		"nats://worker:hidden@host/run?x":                   `"/run?x" after the host`,
		"many/cluster/join":                                 `"/cluster/join" after the host: if it is the name of a file, give the URL in that file`,
		"./join":                                            `"/join" after the host`,
		"foo!":                                              `the host "foo!", want a name (letters,`,
	} {
		err := cluster.Work(t.Context(), cluster.WorkerOptions{Connection: to(url), Dir: t.TempDir(), Log: quiet(), Evaluator: bitsquares})
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "hidden") || len(err.Error()) > 400 {
			t.Errorf("%.40s: error %.500v, want one that says %q", url, err, says)
		}
	}
}

// A worker says that a name does not resolve, that it tries again, and how often.
func TestNameDoesNotResolve(t *testing.T) {
	within(t, time.Minute)
	name := strings.Repeat("x", 64) // no name has so long a part, so no DNS server is asked
	var log lockedBuffer
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- cluster.Work(ctx, cluster.WorkerOptions{Connection: to(name), Dir: t.TempDir(), Log: slog.New(slog.NewTextHandler(&log, nil)), Evaluator: bitsquares})
	}()
	want := `msg="waiting for the server, trying again and again" `
	for !strings.Contains(log.String(), want) && len(ended) == 0 {
		runtime.Gosched()
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	for _, want := range []string{want, " every=100ms ", "nats://" + name + ": the name " + name + " does not resolve: "} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log is %s; want %s", log.String(), want)
		}
	}
}
