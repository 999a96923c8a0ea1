// Package origin prevents other sites' pages, in the browsers of people who can reach a service, from using that service.
//
// A browser is recognized by headers that it adds to every request and that no page can remove: Origin, Sec-Fetch-Site and similar ones,
// and Accept-Language, which is the only one of them on a GET over plain HTTP. These requests of browsers are refused:
//
//   - requests of another site's page, unless that is an allowed origin; links that people follow are let through;
//   - requests whose Host is a name that somebody else may own: its owner can make such a name point to this service, and
//     the page under that name then counts as the service's own (DNS rebinding). Addresses, names of this machine, names
//     without a dot, and names below .localhost, .internal, .svc and .cluster.local, which public DNS does not have, are safe;
//   - bodies of the types that every page's form can send, if an old browser does not say which site's page sends the request.
//
// Programs such as curl, Prometheus, Kubernetes' probes and NVIDIA's clients send none of these headers. Their requests are accepted with
// any Host.
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

// Policy allows exceptions from the rules of the package. A nil Policy allows none.
type Policy struct {
	origins, hosts []string
}

// New returns a Policy. Pages of origins ("https://notebook.example.org:8888") may call the protocol, and browsers may use the names in
// hosts (without ports) for the service.
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

// protocol is the path below which pages of allowed origins may send requests.
const protocol = "/v2"

// Guard returns a handler that passes requests accepted by Check to next, and adds CORS headers to responses for allowed origins.
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

// Check returns nil if the request is accepted, else the reason and the HTTP status of the refusal.
func (p *Policy) Check(r *http.Request) (status int, err error) {
	if !byBrowser(r.Header) {
		return 0, nil
	}
	if !p.knows(hostName(r.Host)) {
		return http.StatusForbidden, fmt.Errorf("host %s: a browser may call this service by an address, by a name of its machine, or by one that evald serve --host allows", short.Quote(r.Host))
	}
	// A bearer token comes only from a program or page that knows it: browsers do not add it to requests by themselves.
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

// byBrowser reports whether the request looks like a browser's. Node's fetch does too.
func byBrowser(h http.Header) bool {
	for _, name := range []string{"Origin", "Accept-Language", "Sec-Fetch-Site", "Sec-Fetch-Mode"} {
		if _, ok := h[name]; ok {
			return true
		}
	}
	return false
}

var crossOrigin http.CrossOriginProtection

// foreign reports whether the page of another site sends the request, with any method.
func foreign(r *http.Request) bool {
	unsafe := http.Request{Method: http.MethodPost, Host: r.Host, Header: r.Header, URL: r.URL}
	return crossOrigin.Check(&unsafe) != nil
}

// allows reports whether the request is from a page of an allowed origin, to the protocol.
func (p *Policy) allows(r *http.Request) bool {
	return p != nil && (r.URL.Path == protocol || strings.HasPrefix(r.URL.Path, protocol+"/")) &&
		slices.Contains(p.origins, strings.ToLower(r.Header.Get("Origin")))
}

// isLink reports whether the request follows a link that opens as a page of its own, not in a frame.
func isLink(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) &&
		r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}

// isForm reports whether a page can send this type of body without a preflight request.
func isForm(contentType string) bool {
	kind, _, err := mime.ParseMediaType(contentType)
	return err != nil || slices.Contains([]string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data"}, kind)
}

// knows reports whether a host name is safe, because no other machine can have it.
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

// machineNames returns those names of this machine that may have a dot.
func machineNames() []string {
	full, err := os.Hostname()
	if err != nil {
		return nil
	}
	full = strings.ToLower(full)
	first, _, _ := strings.Cut(full, ".")
	return []string{full, first + ".local"}
}

// hostName returns the name in a Host header, in lower case, without port, brackets and final dot.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
}
