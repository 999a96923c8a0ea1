package service

import (
	"bufio"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// group is calls that a token opens together.
type group string

// The groups.
const (
	healthCalls     group = "health"
	metadataCalls   group = "metadata"
	inferenceCalls  group = "inference"
	repositoryCalls group = "repository"
	pageCalls       group = "page"
)

var groups = []group{healthCalls, metadataCalls, inferenceCalls, repositoryCalls, pageCalls}

// Tokens say who may call what.
type Tokens struct {
	open   map[group]bool
	hashes map[group][][sha256.Size]byte
}

// ReadTokens reads lines of a token and the groups of calls that it opens:
//
//	inference,metadata  s3cret
//	health  -
//
// Groups are health, metadata, inference, repository and page; all stands for all of them. The token - lets everybody
// in. A group that no line names is closed, but for health, which probes ask. Blank lines and those that begin with # are
// skipped.
func ReadTokens(r io.Reader) (*Tokens, error) {
	t := &Tokens{open: map[group]bool{}, hashes: map[group][][sha256.Size]byte{}}
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if len(fields) != 2 {
			return nil, fmt.Errorf("tokens: line %d has %d words, must be groups and a token", n, len(fields))
		}
		names := groups
		if fields[0] != "all" {
			names = nil
			for name := range strings.SplitSeq(fields[0], ",") {
				if !slices.Contains(groups, group(name)) {
					return nil, fmt.Errorf("tokens: line %d: group %q, must be all or of %v", n, name, groups)
				}
				names = append(names, group(name))
			}
		}
		for _, g := range names {
			if fields[1] == "-" {
				t.open[g] = true
			}
			t.hashes[g] = append(t.hashes[g], sha256.Sum256([]byte(fields[1])))
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("tokens: %w", err)
	}
	if len(t.hashes[healthCalls]) == 0 {
		t.open[healthCalls] = true
	}
	return t, nil
}

// allow checks what the header "Authorization" says against what a call needs.
func (t *Tokens) allow(g group, header string) error {
	if t == nil || t.open[g] {
		return nil
	}
	scheme, token, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" || token == "-" {
		return status.Errorf(codes.Unauthenticated, "calls of group %s need the header \"Authorization: Bearer TOKEN\"", g)
	}
	// Hashes are compared in constant time, all of them, so that the time tells nothing of a token.
	hash := sha256.Sum256([]byte(token))
	known, allowed := 0, 0
	for in, hashes := range t.hashes {
		for _, h := range hashes {
			same := subtle.ConstantTimeCompare(h[:], hash[:])
			known |= same
			if in == g {
				allowed |= same
			}
		}
	}
	switch {
	case allowed == 1:
		return nil
	case known == 1:
		return status.Errorf(codes.PermissionDenied, "the token does not open calls of group %s", g)
	}
	return status.Error(codes.Unauthenticated, "the token is not known")
}

// grpcGroup is the group of a gRPC call, by its full name.
func grpcGroup(method string) group {
	service, name, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	if service == "grpc.health.v1.Health" {
		return healthCalls
	}
	switch name {
	case "ServerLive", "ServerReady", "ModelReady":
		return healthCalls
	case "ModelInfer", "ModelStreamInfer":
		return inferenceCalls
	case "RepositoryIndex", "RepositoryModelLoad", "RepositoryModelUnload":
		return repositoryCalls
	}
	return metadataCalls // reflection too
}

// allowGRPC is allow for a gRPC call.
func (t *Tokens) allowGRPC(method string, md metadata.MD) error {
	header := ""
	if values := md.Get("authorization"); len(values) == 1 {
		header = values[0]
	}
	return t.allow(grpcGroup(method), header)
}

// guard lets requests of REST through to next.
func (t *Tokens) guard(g group, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := t.allow(g, r.Header.Get("Authorization")); err != nil {
			if status.Code(err) == codes.Unauthenticated {
				w.Header().Set("WWW-Authenticate", "Bearer")
			}
			writeError(w, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// LoadTLS is a certificate with its key, and where clients must show one too, the file of those who sign it.
func LoadTLS(certificate, key, clients string) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("certificate %s with key %s: %w", certificate, key, err)
	}
	c := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if clients == "" {
		return c, nil
	}
	pem, err := os.ReadFile(clients)
	if err != nil {
		return nil, err
	}
	c.ClientCAs, c.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
	if !c.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s has no certificate", clients)
	}
	return c, nil
}
