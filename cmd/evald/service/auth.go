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
	"regexp"
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

// tokenLine is a line of the file of tokens. Its name, or else its number, stands for the token in the log and the metrics, since its text
// is a secret.
type tokenLine struct {
	number int
	name   string
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
// further word such as weight=4 gives the token's holder four times the share of others while the service is busy. The log and the metrics
// call a token by a further word such as name=nightly, or else by its line. Any group that no line mentions is closed, except health,
// which probes need. Blank lines and lines that begin with # are skipped.
func ReadTokens(r io.Reader) (*Tokens, error) {
	t := &Tokens{open: map[group]bool{}}
	var mentioned []group
	lineOf := map[string]int{} // by the name of a token
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if len(fields) < 2 {
			return nil, fmt.Errorf("tokens: line %d has one word, must be groups and a token, and name=NAME and weight=N if need be", n)
		}
		line := tokenLine{number: n, hash: sha256.Sum256([]byte(fields[1])), opens: groups}
		for _, word := range fields[2:] {
			if err := line.set(word); err != nil || fields[1] == "-" {
				return nil, fmt.Errorf("tokens: line %d: %s, must be name=NAME or weight=N after a token, each once: "+
					"1 to %d letters, digits, dots, _ and -, beginning with a letter; 0.01 to 100", n, short.Quote(word), longestName)
			}
		}
		if line.name != "" {
			if before := lineOf[line.name]; before > 0 {
				return nil, fmt.Errorf("tokens: line %d: name %s is that of line %d: give each token its own", n, line.name, before)
			}
			if len(lineOf) == mostClients {
				return nil, fmt.Errorf("tokens: line %d: name %s: more than %d names, the most clients that the metrics tell apart: leave it out", n, line.name, mostClients)
			}
			lineOf[line.name] = n
		}
		if fields[0] != "all" {
			line.opens = nil
			for name := range strings.SplitSeq(fields[0], ",") {
				if !slices.Contains(groups, group(name)) {
					return nil, fmt.Errorf("tokens: line %d: group %s, must be all or of %v", n, short.Quote(name), groups)
				}
				line.opens = append(line.opens, group(name))
			}
		}
		mentioned = append(mentioned, line.opens...)
		if fields[1] != "-" {
			t.lines = append(t.lines, line)
			continue
		}
		for _, g := range line.opens {
			t.open[g] = true
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("tokens: %w", err)
	}
	if !slices.Contains(mentioned, healthCalls) {
		t.open[healthCalls] = true
	}
	return t, nil
}

// longestName is the maximum length of a token's name in bytes.
const longestName = 64

var tokenName = regexp.MustCompile(fmt.Sprintf(`^[A-Za-z][A-Za-z0-9._-]{0,%d}$`, longestName-1)) // is no number, which stands for a line

// set sets what a word after a token says.
func (l *tokenLine) set(word string) (err error) {
	switch key, value, _ := strings.Cut(word, "="); {
	case key == "name" && l.name == "" && tokenName.MatchString(value):
		l.name = value
	case key == "weight" && l.weight == 0:
		if l.weight, err = strconv.ParseFloat(value, 64); err == nil && !(l.weight >= 0.01 && l.weight <= 100) {
			err = strconv.ErrRange
		}
	default:
		err = strconv.ErrSyntax
	}
	return err
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
