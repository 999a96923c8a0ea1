package service

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/evald/evald/engine/short"
)

// group names a set of calls that a token opens together.
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

// Tokens are access rules: the calls that each token opens.
type Tokens struct {
	open  map[group]bool // groups that need no token
	lines []tokenLine
}

// tokenLine is a line of the file of tokens. Its number names the token in the log, since its text is a secret.
type tokenLine struct {
	number int
	hash   [sha256.Size]byte
	opens  []group
	weight float64 // of the holder's share of the batches; 0 stands for 1
}

// ReadTokens reads lines of a token and the groups of calls that it opens:
//
//	inference,metadata  s3cret
//	health  -
//
// Groups are health, metadata, inference, repository and page; all stands for all of them. The token - opens groups to every client. A
// third word such as weight=4 gives the token's holder four times the share of others while the service is busy. Any group that no line
// mentions is closed, except health, which probes need. Blank lines and lines that begin with # are skipped. The log names a token by
// its line.
func ReadTokens(r io.Reader) (*Tokens, error) {
	t := &Tokens{open: map[group]bool{}}
	var named []group
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		weight := 0.0
		if len(fields) == 3 {
			text, ok := strings.CutPrefix(fields[2], "weight=")
			var err error
			if weight, err = strconv.ParseFloat(text, 64); !ok || err != nil || !(weight >= 0.01 && weight <= 100) || fields[1] == "-" {
				return nil, fmt.Errorf("tokens: line %d: %s, must be weight=N after a token, N from 0.01 to 100", n, short.Quote(fields[2]))
			}
		} else if len(fields) != 2 {
			return nil, fmt.Errorf("tokens: line %d has %d words, must be groups and a token, and weight=N if need be", n, len(fields))
		}
		names := groups
		if fields[0] != "all" {
			names = nil
			for name := range strings.SplitSeq(fields[0], ",") {
				if !slices.Contains(groups, group(name)) {
					return nil, fmt.Errorf("tokens: line %d: group %s, must be all or of %v", n, short.Quote(name), groups)
				}
				names = append(names, group(name))
			}
		}
		named = append(named, names...)
		if fields[1] != "-" {
			t.lines = append(t.lines, tokenLine{n, sha256.Sum256([]byte(fields[1])), names, weight})
			continue
		}
		for _, g := range names {
			t.open[g] = true
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("tokens: %w", err)
	}
	if !slices.Contains(named, healthCalls) {
		t.open[healthCalls] = true
	}
	return t, nil
}

// allow returns an error unless a token opens a group of calls; "" is no token. line is the line of the token, or nil if no line has it
// or the group needs no token.
func (t *Tokens) allow(g group, token string) (line *tokenLine, err error) {
	if t == nil || t.open[g] {
		return nil, nil
	}
	if token == "" {
		return nil, status.Errorf(codes.Unauthenticated, "calls of group %s need the header \"Authorization: Bearer TOKEN\"", g)
	}
	// All hashes are compared, each in constant time, so that the response time reveals nothing about a token.
	hash := sha256.Sum256([]byte(token))
	known, allowed := 0, 0 // 0: in no line; else the line's index + 1
	for i := range t.lines {
		l := &t.lines[i]
		same := subtle.ConstantTimeCompare(l.hash[:], hash[:])
		known = subtle.ConstantTimeSelect(same, i+1, known)
		if slices.Contains(l.opens, g) {
			allowed = subtle.ConstantTimeSelect(same, i+1, allowed)
		}
	}
	switch {
	case allowed > 0:
		return &t.lines[allowed-1], nil
	case known > 0:
		return &t.lines[known-1], status.Errorf(codes.PermissionDenied, "the token does not open calls of group %s", g)
	}
	return nil, status.Error(codes.Unauthenticated, "the token is not known")
}

// holder returns the name in the client's certificate, or "" without one.
func holder(c *tls.ConnectionState) string {
	if c == nil || len(c.VerifiedChains) == 0 {
		return ""
	}
	return c.PeerCertificates[0].Subject.String()
}

// bearer returns the token of the header "Authorization", or "".
func bearer(header string) string {
	if scheme, token, _ := strings.Cut(header, " "); strings.EqualFold(scheme, "Bearer") {
		return token
	}
	return ""
}

// grpcGroup returns the group of the gRPC method with a full name.
func grpcGroup(method string) group {
	service, name, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	if service == "grpc.health.v1.Health" {
		return healthCalls
	}
	return cmp.Or(grpcGroups[name], metadataCalls) // reflection too
}

var grpcGroups = map[string]group{
	"ServerLive": healthCalls, "ServerReady": healthCalls, "ModelReady": healthCalls,
	"ModelInfer": inferenceCalls, "ModelStreamInfer": inferenceCalls,
	"RepositoryIndex": repositoryCalls, "RepositoryModelLoad": repositoryCalls, "RepositoryModelUnload": repositoryCalls,
}

// guard passes REST requests that arrive accepts to answer, which must write nothing if it returns an error. The token is a bearer token,
// or the password of any user, for which a browser can ask. The browser then sends the password with all requests, also with those of
// other sites' pages, so an origin.Policy must precede the guard.
func (s *Server) guard(g group, answer func(w http.ResponseWriter, r *http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ask := requestOf(r.Context())
		ask.model, ask.version, ask.group = r.PathValue("model"), r.PathValue("version"), g
		token := bearer(r.Header.Get("Authorization"))
		_, password, basic := r.BasicAuth()
		if basic {
			token = password
		}
		err := s.arrive(ask, token)
		if code := status.Code(err); code == codes.Unauthenticated || basic && code == codes.PermissionDenied {
			// A browser sends a password until it receives 401, even if it is the token of other groups.
			why := status.Convert(err).Message()
			if token == "" {
				why += ", or the token as the password of any user"
			}
			err = status.Error(codes.Unauthenticated, why)
			w.Header()["Www-Authenticate"] = []string{`Basic realm="evald", charset="UTF-8"`, "Bearer"}
		}
		if ask.conn.spare && err != nil {
			w.Header().Set("Connection", "close")
		}
		if err == nil {
			err = answer(w, r)
		}
		if err != nil {
			if status.Code(err) == codes.ResourceExhausted {
				s.slowDown(r.Context(), ask.conn)
			}
			writeError(w, err)
		}
	})
}
