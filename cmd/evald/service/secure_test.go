package service

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/evald/evald/cmd/evald/kserve"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

func tokens(t *testing.T, lines string) *Tokens {
	t.Helper()
	return gametest.Must(ReadTokens(strings.NewReader(lines)))(t)
}

// manyNames returns n lines of tokens with names.
func manyNames(n int) string {
	text := ""
	for i := range n {
		text += fmt.Sprintf("all t%d name=n%d\nall u%d\n", i, i, i)
	}
	return text
}

func TestReadTokens(t *testing.T) {
	longName := strings.Repeat("n", longestName)
	for text, says := range map[string]string{
		"inference a\n\n# of ops\nall b": "",
		"inference":                      "line 1 has one word",
		"inference a weight=2.5":         "",
		"inference a name=a.B-3_ weight=2\nall b weight=1 name=b": "",
		"inference a weight=0":          `line 1: "weight=0", must be name=NAME or weight=N`,
		"inference a weight=2 weight=2": `line 1: "weight=2"`,
		"inference - weight=2":          "after a token",
		"inference - name=a":            `line 1: "name=a", must be name=NAME or weight=N after a token`,
		"all a\nall b name=":            `line 2: "name="`,
		"all a name=3":                  `line 1: "name=3"`, // or it would look like a line
		"all a name=ü":                  `line 1: "name=ü"`,
		"all a name=" + longName + "x":  `line 1: "name=`,
		"all a name=" + longName:        "",
		"all a name=x name=y":           `line 1: "name=y"`,
		"all a b":                       `line 1: "b"`,
		"all a name=x\n\nall b name=x":  "line 3: name x is that of line 1",
		manyNames(mostClients):          "",
		manyNames(mostClients + 1):      fmt.Sprintf("line %d: name n%d: more than 100 names", 2*mostClients+1, mostClients),
		"all a\nadmin b":                `line 2: group "admin"`,
		"health,, x":                    `group ""`,
		strings.Repeat("x", 1<<17):      "too long",
	} {
		_, err := ReadTokens(strings.NewReader(text))
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%.30q: %v, want %q", text, err, says)
		}
	}
}

// Each group of calls is open to its own tokens alone, over both transports.
func TestTokens(t *testing.T) {
	c := testConfig(&evaltest.Stub{Source: eval.CPU})
	c.Repository = true
	c.Tokens = tokens(t, "inference infer\nmetadata -\nrepository,inference ops\n")
	s := serve(t, c)
	body := []byte(aMove)
	for token, want := range map[string]struct{ infer, index, page codes.Code }{
		"":             {codes.Unauthenticated, codes.Unauthenticated, codes.Unauthenticated},
		"Bearer wrong": {codes.Unauthenticated, codes.Unauthenticated, codes.Unauthenticated},
		"Bearer -":     {codes.Unauthenticated, codes.Unauthenticated, codes.Unauthenticated},
		"Basic infer":  {codes.Unauthenticated, codes.Unauthenticated, codes.Unauthenticated},
		"Bearer infer": {codes.OK, codes.PermissionDenied, codes.PermissionDenied},
		"bearer ops":   {codes.OK, codes.OK, codes.PermissionDenied},
	} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", token)
		_, err := s.api.ModelInfer(ctx, bitboardRequest(connect4, game.Position{}))
		if status.Code(err) != want.infer {
			t.Errorf("%q: infer: %v, want %v", token, err, want.infer)
		}
		stream, err := s.api.ModelStreamInfer(ctx)
		if err == nil {
			_ = stream.CloseSend()
			_, err = stream.Recv()
		}
		if want.infer != codes.OK && status.Code(err) != want.infer {
			t.Errorf("%q: stream: %v, want %v", token, err, want.infer)
		}
		if _, err := s.api.RepositoryIndex(ctx, &kserve.RepositoryIndexRequest{}); status.Code(err) != want.index {
			t.Errorf("%q: index: %v, want %v", token, err, want.index)
		}
		if _, err := s.api.ServerMetadata(ctx, &kserve.ServerMetadataRequest{}); err != nil {
			t.Errorf("%q: metadata, which is open: %v", token, err)
		}
		if _, err := healthpb.NewHealthClient(s.conn).Check(ctx, &healthpb.HealthCheckRequest{}); err != nil {
			t.Errorf("%q: health, which no line closes: %v", token, err)
		}
		header := map[string]string{"Authorization": token}
		for path, code := range map[string]codes.Code{inferPath: want.infer, "/v2/repository/index": want.index} {
			reply, text := s.post(t, path, header, body)
			wanted := http.StatusOK
			if code != codes.OK {
				wanted = httpStatus(code)
			}
			if reply.StatusCode != wanted {
				t.Errorf("%q: %s: %d %s, want %d", token, path, reply.StatusCode, text, wanted)
			}
		}
		if reply, _ := s.post(t, "/page", header, nil); reply.StatusCode != httpStatus(want.page) {
			t.Errorf("%q: page: %d, want %d", token, reply.StatusCode, httpStatus(want.page))
		}
	}
}

// A browser can ask for a token, which it gives as a password; what another site asks for with it is refused.
func TestBrowserToken(t *testing.T) {
	c := testConfig(&evaltest.Stub{Source: eval.CPU})
	c.Tokens = tokens(t, "page,metadata see\ninference infer\n")
	s := serve(t, c) // whose page answers 404 to those who are let in
	basic := func(password string) string {
		return "Basic " + base64.StdEncoding.EncodeToString([]byte("me:"+password))
	}
	type headers = map[string]string
	body := aMove
	for _, x := range []struct {
		name, method, path string
		headers            headers
		status             int
		asks               bool // the answer has the challenge that makes a browser ask
	}{
		{"nothing", "GET", "/", nil, 401, true},
		{"nothing, REST", "POST", inferPath, nil, 401, true},
		{"password", "GET", "/", headers{"Authorization": basic("see")}, 404, false},
		{"password, REST", "GET", "/v2", headers{"Authorization": basic("see")}, 200, false},
		{"no password", "GET", "/", headers{"Authorization": basic("")}, 401, true},
		{"everybody's", "GET", "/", headers{"Authorization": basic("-")}, 401, true},
		{"wrong password", "GET", "/", headers{"Authorization": basic("look")}, 401, true},
		{"not even one", "GET", "/", headers{"Authorization": "Basic see"}, 401, true},
		{"another's password", "GET", "/", headers{"Authorization": basic("infer")}, 401, true}, // or the browser would not ask again
		{"another's token", "GET", "/", headers{"Authorization": "Bearer infer"}, 403, false},
		{"a picture elsewhere", "GET", "/v2", headers{"Authorization": basic("see"), "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, 403, false},
		{"own page", "POST", inferPath, headers{"Authorization": basic("infer"), "Sec-Fetch-Site": "same-origin"}, 200, false},
		{"another site", "POST", inferPath, headers{"Authorization": basic("infer"), "Sec-Fetch-Site": "cross-site"}, 403, false},
	} {
		reply, _ := s.ask(t, x.method, x.path, x.headers, []byte(body))
		challenges := []string(nil)
		if x.asks {
			challenges = []string{`Basic realm="evald", charset="UTF-8"`, "Bearer"}
		}
		if got := reply.Header.Values("WWW-Authenticate"); reply.StatusCode != x.status || !slices.Equal(got, challenges) {
			t.Errorf("%s: status %d with challenges %q, want %d with %q", x.name, reply.StatusCode, got, x.status, challenges)
		}
	}
	// Over gRPC, where no browser is, there are bearer tokens alone.
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", basic("infer"))
	if _, err := s.api.ModelInfer(ctx, bitboardRequest(connect4, game.Position{})); status.Code(err) != codes.Unauthenticated {
		t.Errorf("a password over gRPC: %v, want Unauthenticated", err)
	}
}

// selfSigned writes a certificate for 127.0.0.1, which has signed itself, and its key.
func selfSigned(t *testing.T, dir, name string) (certificate, key string) {
	t.Helper()
	return selfSignedUntil(t, dir, name, time.Now().Add(time.Hour))
}

func selfSignedUntil(t *testing.T, dir, name string, end time.Time) (certificate, key string) {
	t.Helper()
	private := gametest.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: end,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der := gametest.Must(x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private))(t)
	pkcs8 := gametest.Must(x509.MarshalPKCS8PrivateKey(private))(t)
	certificate, key = filepath.Join(dir, name+".pem"), filepath.Join(dir, name+".key")
	for path, block := range map[string]*pem.Block{certificate: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: pkcs8}} {
		gametest.OK(t, os.WriteFile(path, pem.EncodeToMemory(block), 0o600))
	}
	return certificate, key
}

// With mutual TLS only clients whose certificate is signed get in, and none without TLS.
func TestMutualTLS(t *testing.T) {
	dir := t.TempDir()
	cert, key := selfSigned(t, dir, "server")
	mine, myKey := selfSigned(t, dir, "client")
	strange, strangeKey := selfSigned(t, dir, "stranger")

	c := testConfig(&evaltest.Stub{Source: eval.CPU})
	text := func(path string) []byte { return gametest.Must(os.ReadFile(path))(t) }
	c.Access = gametest.Must(ReadTLS(text(cert), text(key), text(mine)))(t)
	s := serve(t, c)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text(cert))
	with := func(certificate, key string) *tls.Config {
		config := &tls.Config{RootCAs: roots}
		if certificate != "" {
			pair := gametest.Must(tls.LoadX509KeyPair(certificate, key))(t)
			config.Certificates = []tls.Certificate{pair}
		}
		return config
	}
	for name, d := range map[string]struct {
		config *tls.Config
		want   bool
	}{
		"signed": {with(mine, myKey), true}, "none": {with("", ""), false}, "signed by another": {with(strange, strangeKey), false}, "plain": {nil, false},
	} {
		secure := insecure.NewCredentials()
		web := &http.Client{Transport: &http.Transport{}}
		url := s.rest
		if d.config != nil {
			secure = credentials.NewTLS(d.config)
			web.Transport = &http.Transport{TLSClientConfig: d.config, ForceAttemptHTTP2: true}
		} else {
			url = strings.Replace(url, "https", "http", 1)
		}
		api := kserve.NewGRPCInferenceServiceClient(s.connect(t, grpc.WithTransportCredentials(secure)))
		_, err := api.ModelInfer(t.Context(), bitboardRequest(connect4, game.Position{}))
		if (err == nil) != d.want {
			t.Errorf("gRPC, %s: %v", name, err)
		}
		reply, err := web.Get(url + "/v2")
		if ok := err == nil && reply.StatusCode == http.StatusOK; ok != d.want {
			t.Errorf("REST, %s: %v", name, err)
		}
		if err == nil {
			reply.Body.Close()
		}
		web.CloseIdleConnections()
	}
	if _, err := ReadTLS(text(cert), text(key), text(key)); !errors.Is(err, ErrAuthorities) {
		t.Errorf("a key for the clients' certificates: %v", err)
	}
	if _, err := ReadTLS(text(cert), text(myKey), nil); err == nil {
		t.Error("a certificate with another's key was taken")
	}
}
