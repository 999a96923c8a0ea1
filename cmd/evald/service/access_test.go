package service

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/evald/evald/cmd/evald/kserve"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

// files are the files of an access, as a test exchanges them.
type files struct {
	certificate, key, clients, tokens string // texts
	err                               error
}

func (f *files) read() (a Access, state any, err error) {
	if f.err != nil {
		return a, f.err.Error(), f.err
	}
	if f.certificate != "" {
		var clients []byte
		if f.clients != "" {
			clients = []byte(f.clients)
		}
		if a, err = ReadTLS([]byte(f.certificate), []byte(f.key), clients); err != nil {
			return a, *f, err
		}
	}
	if f.tokens != "" {
		a.Tokens, err = ReadTokens(strings.NewReader(f.tokens))
	}
	return a, *f, err
}

// person is a certificate that has signed itself, as text and for a client or server.
func person(t *testing.T, name string) (certificate, key string, pair tls.Certificate) {
	t.Helper()
	c, k := selfSigned(t, t.TempDir(), name)
	certificate, key = string(gametest.Must(os.ReadFile(c))(t)), string(gametest.Must(os.ReadFile(k))(t))
	return certificate, key, gametest.Must(tls.X509KeyPair([]byte(certificate), []byte(key)))(t)
}

// refreshed looks at the files as --watch does.
func (s *serving) refreshed() {
	s.loading.Lock()
	defer s.loading.Unlock()
	s.refresh(false)
}

// A reload exchanges certificate, key, client authorities and tokens together. Open connections
// continue with the old certificate, but each of their calls, and each request of their streams,
// needs a token and a client certificate of today.
func TestAccessReload(t *testing.T) {
	cert1, key1, _ := person(t, "first")
	cert2, key2, _ := person(t, "second")
	ca1, _, mine := person(t, "client")
	ca2, _, others := person(t, "other client")
	f := &files{cert1, key1, ca1 + ca2, "inference old\n", nil}
	c := testConfig(&evaltest.Stub{Source: eval.CPU})
	c.ReadAccess = f.read
	s := serve(t, c)

	client := func(pair tls.Certificate) *tls.Config {
		return &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}, ClientSessionCache: tls.NewLRUClientSessionCache(8)}
	}
	rest := func(config *tls.Config) *http.Client {
		web := &http.Client{Transport: &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}}
		t.Cleanup(web.CloseIdleConnections)
		return web
	}
	post := func(web *http.Client, token string) (status int, server string) {
		r := gametest.Must(http.NewRequestWithContext(t.Context(), http.MethodPost, s.rest+inferPath, strings.NewReader(aMove)))(t)
		r.Header.Set("Authorization", "Bearer "+token)
		reply, err := web.Do(r)
		if err != nil {
			return 0, err.Error()
		}
		defer reply.Body.Close()
		return reply.StatusCode, reply.TLS.PeerCertificates[0].Subject.CommonName
	}
	with := func(token string) grpc.DialOption { return grpc.WithPerRPCCredentials(bearerToken(token)) }
	call := func(conn *grpc.ClientConn) codes.Code {
		_, err := kserve.NewGRPCInferenceServiceClient(conn).ModelInfer(t.Context(), bitboardRequest(connect4, game.Position{}))
		return status.Code(err)
	}
	creds := func(pair tls.Certificate) grpc.DialOption {
		return grpc.WithTransportCredentials(credentials.NewTLS(client(pair)))
	}

	open := rest(client(mine))
	if status, server := post(open, "old"); status != http.StatusOK || server != "first" {
		t.Fatalf("at the start: %d %s", status, server)
	}
	openCall, othersCall := s.connect(t, creds(mine), with("old")), s.connect(t, creds(others), with("old"))
	for _, conn := range []*grpc.ClientConn{openCall, othersCall} {
		if code := call(conn); code != codes.OK {
			t.Fatal(code)
		}
	}
	stream := gametest.Must(kserve.NewGRPCInferenceServiceClient(openCall).ModelStreamInfer(t.Context()))(t)
	gametest.OK(t, stream.Send(bitboardRequest(connect4, game.Position{})))
	if m := gametest.Must(stream.Recv())(t); m.ErrorMessage != "" {
		t.Fatal(m.ErrorMessage)
	}

	// A certificate without its key, and a reload that fails, change nothing.
	f.certificate = cert2
	s.Reload()
	f.key, f.tokens = key2, "nonsense\n"
	s.Reload()
	f.tokens, f.err = "inference new\n", errors.New("cannot be read")
	s.Reload()
	if status, server := post(rest(client(mine)), "old"); status != http.StatusOK || server != "first" || s.accessFailures.Load() != 3 {
		t.Fatalf("after reloads that failed: %d %s, %d failures", status, server, s.accessFailures.Load())
	}
	// The other client's authority is revoked, and so is the old token.
	f.err, f.clients = nil, ca1
	s.Reload()

	if status, server := post(open, "old"); status != http.StatusUnauthorized || server != "first" {
		t.Errorf("the old token on an open connection: %d %s", status, server)
	}
	if status, server := post(open, "new"); status != http.StatusOK || server != "first" {
		t.Errorf("the new token on an open connection: %d %s", status, server)
	}
	if status, server := post(rest(client(mine)), "new"); status != http.StatusOK || server != "second" {
		t.Errorf("a new connection: %d %s", status, server)
	}
	if status, said := post(rest(client(others)), "new"); status != 0 {
		t.Errorf("a new connection with a revoked authority: %d %s", status, said)
	}
	if code := call(openCall); code != codes.Unauthenticated {
		t.Errorf("the old token on an open connection: %v", code)
	}
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer new")
	for name, want := range map[*grpc.ClientConn]codes.Code{s.connect(t, creds(mine)): codes.OK, s.connect(t, creds(others)): codes.Unavailable} {
		_, err := kserve.NewGRPCInferenceServiceClient(name).ModelInfer(ctx, bitboardRequest(connect4, game.Position{}))
		if status.Code(err) != want {
			t.Errorf("a new connection: %v, want %v", err, want)
		}
	}
	_, err := kserve.NewGRPCInferenceServiceClient(othersCall).ModelInfer(t.Context(), bitboardRequest(connect4, game.Position{}))
	if status.Code(err) != codes.Unauthenticated || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("an open connection with a revoked authority: %v", err)
	}
	if err := stream.Send(bitboardRequest(connect4, game.Position{})); err == nil {
		_, err = stream.Recv()
		if status.Code(err) != codes.Unauthenticated {
			t.Errorf("a stream that is older than its token's end: %v", err)
		}
	}
}

// bearerToken sends a token with each call.
type bearerToken string

func (b bearerToken) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}
func (bearerToken) RequireTransportSecurity() bool { return true }

// With --watch a change is in force once two looks have found the same files, so that no half of it
// ever is. A wrong one is reported once.
func TestAccessWatch(t *testing.T) {
	f := &files{tokens: "inference old\n"}
	c := testConfig(&evaltest.Stub{Source: eval.CPU})
	c.ReadAccess = f.read
	s := serve(t, c)
	for i, step := range []struct {
		tokens   string
		old, new int // status
		failures uint64
	}{
		{"inference old\n", 200, 401, 0},
		{"inference ne", 200, 401, 0}, // being written
		{"inference new\n", 200, 401, 0},
		{"inference new\n", 401, 200, 0},
		{"inference", 401, 200, 0},
		{"inference", 401, 200, 1},
		{"inference", 401, 200, 1},
		{"inference new\n", 401, 200, 1},
		{"inference new\n", 401, 200, 1},
		{"inference old\n", 401, 200, 1},
		{"inference old\n", 200, 401, 1},
	} {
		f.tokens = step.tokens
		s.refreshed()
		for token, want := range map[string]int{"old": step.old, "new": step.new} {
			if reply, text := s.post(t, inferPath, map[string]string{"Authorization": "Bearer " + token}, []byte(aMove)); reply.StatusCode != want {
				t.Errorf("step %d, %s: %d %s, want %d", i, token, reply.StatusCode, text, want)
			}
		}
		if n := s.accessFailures.Load(); n != step.failures {
			t.Errorf("step %d: %d failures, want %d", i, n, step.failures)
		}
	}
}

// The metrics say when the certificates in force end, of each file the first. The log warns of those
// that end soon: at the start, after a reload, and at each SIGHUP.
func TestCertificateEnds(t *testing.T) {
	now, dir := time.Now().Truncate(time.Second), t.TempDir()
	soon, late, later := now.Add(nearEnd-time.Minute), now.Add(nearEnd+time.Hour), now.Add(2*nearEnd)
	made := func(name string, end time.Time) (certificate, key string) {
		c, k := selfSignedUntil(t, dir, name, end)
		return string(gametest.Must(os.ReadFile(c))(t)), string(gametest.Must(os.ReadFile(k))(t))
	}
	ends, endsKey := made("ends", soon)
	stays, staysKey := made("stays", late)
	other, _ := made("other", later)
	f := &files{certificate: stays + ends, key: staysKey, clients: other + stays}
	c := testConfig(&evaltest.Stub{Source: eval.CPU})
	book := &logbook{}
	c.Log, c.ReadAccess = book.logger(slog.LevelWarn), f.read
	s := serve(t, c)
	warned := 0
	check := func(what string, server, clients time.Time, warnings ...string) {
		t.Helper()
		for file, end := range map[string]time.Time{"tls-cert": server, "tls-client-ca": clients} {
			if got := s.metric(`evald_certificate_expiry_timestamp_seconds{file="` + file + `"}`); got != float64(end.Unix()) {
				t.Errorf("%s: the certificates of %s end at %v, want %v", what, file, int64(got), end.Unix())
			}
		}
		var got []string
		for _, r := range book.records(t, "a certificate ends soon, or has ended: replace the file and reload")[warned:] {
			got = append(got, r["file"].(string)+" "+r["end"].(string))
		}
		if warned += len(got); !slices.Equal(got, warnings) {
			t.Errorf("%s: the log warns of %q, want %q", what, got, warnings)
		}
	}
	ofServer := "tls-cert " + soon.UTC().Format(time.RFC3339)
	check("at the start", soon, late, ofServer)
	s.Reload()
	check("SIGHUP without another file", soon, late, ofServer)
	f.certificate, f.clients = stays, other
	s.Reload()
	check("with other files", late, later)
	f.certificate = ends
	s.Reload()
	check("without its key", late, later)
	f.key = endsKey
	s.refreshed()
	s.refreshed()
	check("--watch", soon, later, ofServer)
	s.refreshed()
	check("--watch without another file", soon, later)
}

// A service whose files are wrong does not start.
func TestAccessWrong(t *testing.T) {
	c := testConfig(&evaltest.Stub{Source: eval.CPU})
	c.ReadAccess = (&files{tokens: "nonsense"}).read
	if s, err := New(c); err == nil || !strings.Contains(err.Error(), "line 1") {
		s.Close()
		t.Errorf("%v", err)
	}
}

// Connections without requests stay open for Limits.Idle, over HTTP and gRPC, which by default is
// longer than the 60 s for which common load balancers keep theirs.
func TestIdleTimeout(t *testing.T) {
	if DefaultLimits.Idle <= time.Minute {
		t.Errorf("the default is %v", DefaultLimits.Idle)
	}
	c := testConfig(&evaltest.Stub{Source: eval.CPU})
	if s := serve(t, c); s.httpServer(t.Context(), nil).IdleTimeout != DefaultLimits.Idle {
		t.Error("HTTP has another idle time")
	}
	c.Limits.Idle = 100 * time.Millisecond
	s := serve(t, c)
	conn := gametest.Must(net.Dial("tcp", strings.TrimPrefix(s.rest, "http://")))(t)
	defer conn.Close()
	gametest.Must(fmt.Fprintf(conn, "GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n"))(t)
	if text, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(text), "HTTP/1.1 200") { // the server ends it
		t.Errorf("HTTP: %q %v", text, err)
	}
	if _, err := s.api.ServerLive(t.Context(), &kserve.ServerLiveRequest{}); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for state := s.conn.GetState(); state != connectivity.Idle; state = s.conn.GetState() {
		if !s.conn.WaitForStateChange(ctx, state) {
			t.Fatal("an idle gRPC connection stays open")
		}
	}
}
