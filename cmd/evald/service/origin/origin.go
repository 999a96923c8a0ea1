// Package origin keeps other sites' pages, in the browsers of people who can reach a service, from using it.
//
// A browser is known by headers that it adds to every request and that no page can take away: Origin, Sec-Fetch-Site and
// its like, and Accept-Language, which is all that there is on a GET over plain HTTP. Of a browser's requests these are
// refused:
//
//   - those of another site's page, unless that is an allowed origin, and but for links, which people follow;
//   - those whose Host is a name that others can own: such a name can be made to lead here, and its page then counts as
//     our own (DNS rebinding). Addresses, names of this machine, names without a dot and names below .localhost, .internal,
//     .svc and .cluster.local, which public DNS does not have, are nobody else's;
//   - where the browser is so old that it does not say which page asks: bodies of the types that every page's form can send.
//
// Requests of programs, which send none of these headers (curl, Prometheus, Kubernetes' probes, NVIDIA's clients), are let
// through whatever their Host is.
package origin

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/evald/evald/engine/short"
)

// Policy is what is allowed beyond the rules of the package. A nil one allows nothing more.
type Policy struct {
	origins, hosts []string
}

// New allows pages of these origins ("https://notebook.example.org:8888") to call the protocol, and browsers to name the
// service by these host names, which have no port.
func New(origins, hosts []string) (*Policy, error) {
	p := &Policy{}
	for _, o := range origins {
		if err := http.NewCrossOriginProtection().AddTrustedOrigin(o); err != nil {
			return nil, fmt.Errorf("origin %s: must be SCHEME://HOST or SCHEME://HOST:PORT, as a browser sends it", short.Quote(o))
		}
		p.origins = append(p.origins, strings.ToLower(o))
	}
	for _, h := range hosts {
		if h == "" || len(h) > 253 || hostName(h) != strings.ToLower(h) || strings.ContainsAny(h, "/* ") {
			return nil, fmt.Errorf("host %s: must be a name such as evald.example.org, without a port", short.Quote(h))
		}
		p.hosts = append(p.hosts, strings.ToLower(h))
	}
	return p, nil
}

// Protocol is the path below which allowed origins may call.
const Protocol = "/v2"

// Guard lets requests through to next that Check has nothing against, and answers those of allowed origins as CORS wants it.
func (p *Policy) Guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, err := p.Check(r)
		if err != nil {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(map[string]string{"error": err.Error()}) // the client may be gone
			return
		}
		if p.allows(r) {
			h := w.Header()
			h.Set("Access-Control-Allow-Origin", r.Header.Get("Origin"))
			h.Add("Vary", "Origin")
			h.Set("Access-Control-Expose-Headers", "Inference-Header-Content-Length, Retry-After")
			if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
				h.Set("Access-Control-Allow-Methods", "GET, POST")
				h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Content-Encoding, Inference-Header-Content-Length, Traceparent, Tracestate")
				h.Set("Access-Control-Max-Age", "600")
				w.WriteHeader(http.StatusNoContent)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// Check says why a request is refused, and with which status; nil where it is not.
func (p *Policy) Check(r *http.Request) (status int, err error) {
	if !byBrowser(r.Header) {
		return 0, nil
	}
	if !p.knows(hostName(r.Host)) {
		return http.StatusForbidden, fmt.Errorf("host %s: a browser may call this service by an address, by a name of its machine, or by one that evald serve --host allows", short.Quote(r.Host))
	}
	// A bearer token is in no request that a page makes without leave: who sends it has it.
	bearer := strings.HasPrefix(strings.ToLower(r.Header.Get("Authorization")), "bearer ")
	if foreign(r) && !p.allows(r) && !bearer && !isLink(r) {
		return http.StatusForbidden, errors.New("another site's page may not call this service, unless evald serve --allow-origin allows its origin")
	}
	saysWho := r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != ""
	if kind := r.Header.Get("Content-Type"); !saysWho && !bearer && r.Method == http.MethodPost && r.ContentLength != 0 && isForm(kind) {
		return http.StatusUnsupportedMediaType, fmt.Errorf("content type %s: every page's form can send that; a browser must say application/json or application/octet-stream", short.Quote(kind))
	}
	return 0, nil
}

// byBrowser reports whether a browser has made the request. Node's fetch looks like one too.
func byBrowser(h http.Header) bool {
	for _, name := range []string{"Origin", "Accept-Language", "Sec-Fetch-Site", "Sec-Fetch-Mode"} {
		if _, ok := h[name]; ok {
			return true
		}
	}
	return false
}

var crossOrigin http.CrossOriginProtection

// foreign reports whether another site's page makes the request, by any method.
func foreign(r *http.Request) bool {
	unsafe := http.Request{Method: http.MethodPost, Host: r.Host, Header: r.Header, URL: r.URL}
	return crossOrigin.Check(&unsafe) != nil
}

// allows reports whether an allowed origin's page calls the protocol.
func (p *Policy) allows(r *http.Request) bool {
	return p != nil && (r.URL.Path == Protocol || strings.HasPrefix(r.URL.Path, Protocol+"/")) &&
		slices.Contains(p.origins, strings.ToLower(r.Header.Get("Origin")))
}

// isLink reports whether a person follows a link, in a tab of its own.
func isLink(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) &&
		r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}

// isForm reports whether a page can send this type of body without being asked for leave.
func isForm(contentType string) bool {
	kind, _, err := mime.ParseMediaType(contentType)
	return err != nil || slices.Contains([]string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data"}, kind)
}

// knows reports whether a name can be nobody else's.
func (p *Policy) knows(name string) bool {
	if _, err := netip.ParseAddr(name); err == nil || !strings.Contains(name, ".") {
		return true
	}
	for _, zone := range []string{".localhost", ".internal", ".svc", ".cluster.local"} {
		if strings.HasSuffix(name, zone) {
			return true
		}
	}
	return slices.Contains(machineNames(), name) || p != nil && slices.Contains(p.hosts, name)
}

// machineNames are those of this machine that have a dot.
func machineNames() []string {
	full, err := os.Hostname()
	if err != nil {
		return nil
	}
	full = strings.ToLower(full)
	first, _, _ := strings.Cut(full, ".")
	return []string{full, first + ".local"}
}

// hostName is the name in a Host header, in lower case, without port, brackets and the dot that may end it.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
}
