package origin

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/evald/evald/engine/game/gametest"
)

type headers map[string]string

// ask returns the response of a guarded handler, which itself answers 200.
func ask(t *testing.T, p *Policy, method, host, path, body string, h headers) *http.Response {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	r.Host = host
	for name, value := range h {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	p.Guard(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(w, r)
	return w.Result()
}

// with returns a copy of headers with further ones.
func with(h, more headers) headers {
	out := headers{}
	for _, h := range []headers{h, more} {
		for name, value := range h {
			out[name] = value
		}
	}
	return out
}

// The headers of browsers and programs. On plain HTTP to other machines browsers omit Sec-Fetch-*, and on a GET of the
// page's own origin they omit Origin.
var (
	browser = headers{"User-Agent": "Mozilla/5.0", "Accept-Language": "en"}
	own     = with(browser, headers{"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"})
	cross   = with(browser, headers{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty", "Origin": "https://evil.example"})
	form    = headers{"Content-Type": "application/x-www-form-urlencoded"}
	asJSON  = headers{"Content-Type": "application/json"}
)

const infer = "/v2/models/default/infer"

func TestGuard(t *testing.T) {
	p := gametest.Must(New([]string{"https://notebook.example.org"}, []string{"Evald.example.org"}))(t)
	notebook := with(cross, headers{"Origin": "https://notebook.example.org"})
	for _, x := range []struct {
		name, method, host, path string
		headers                  headers
		status                   int
	}{
		// Programs, under any name.
		{"curl", "POST", "evald.prod.example.com:8000", infer, with(form, headers{"User-Agent": "curl/8"}), 200},
		{"tritonclient", "POST", "evald.prod:8000", infer, headers{"Accept": "*/*"}, 200},
		{"probe", "GET", "10.0.0.7:8000", "/v2/health/ready", headers{"User-Agent": "kube-probe/1.30", "Accept": "*/*"}, 200},
		{"Prometheus", "GET", "evald-0.evald.monitoring.example.com:8002", "/metrics", headers{"User-Agent": "Prometheus/3.0"}, 200},
		{"Node in Kubernetes", "POST", "evald.default.svc.cluster.local:8000", infer, with(asJSON, headers{"Accept-Language": "*", "Sec-Fetch-Mode": "cors"}), 200},
		{"Node beside it", "POST", "evald:8000", infer, with(asJSON, headers{"Accept-Language": "*", "Sec-Fetch-Mode": "cors"}), 200},
		{"HTTP 1.0", "GET", "", "/", headers{}, 200},

		// Our own page.
		{"address bar", "GET", "127.0.0.1:8000", "/", with(browser, headers{"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"}), 200},
		{"own page", "POST", "localhost:8000", "/ui/move", with(own, asJSON), 200},
		{"own page, IPv6", "POST", "[::1]:8000", "/ui/move", with(own, asJSON), 200},
		{"own page, plain HTTP", "POST", "192.168.1.9:8000", "/ui/move", with(browser, with(asJSON, headers{"Origin": "http://192.168.1.9:8000"})), 200},
		{"own page, allowed name", "GET", "EVALD.example.org.", "/ui/config", own, 200},
		{"own page, text", "POST", "localhost:8000", infer, with(own, headers{"Content-Type": "text/plain;charset=UTF-8"}), 200},
		{"own page, tensors", "POST", "localhost:8000", infer, with(own, headers{"Content-Type": "application/octet-stream"}), 200},

		// Other sites' pages.
		{"link", "GET", "localhost:8000", "/", with(cross, headers{"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}), 200},
		{"frame", "GET", "localhost:8000", "/", with(cross, headers{"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}), 403},
		{"picture", "GET", "localhost:8000", "/ui/run?name=.", with(cross, headers{"Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}), 403},
		{"fetch", "GET", "localhost:8000", "/v2", cross, 403},
		{"another port", "GET", "localhost:8000", "/v2", with(cross, headers{"Sec-Fetch-Site": "same-site", "Origin": "http://localhost:3000"}), 403},
		{"post", "POST", "localhost:8000", infer, with(cross, form), 403},
		{"post of JSON", "POST", "localhost:8000", infer, with(cross, asJSON), 403},
		{"post from a form in a tab", "POST", "localhost:8000", infer, with(cross, with(form, headers{"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"})), 403},
		{"old browser", "POST", "localhost:8000", infer, with(asJSON, headers{"Origin": "http://evil.example"}), 403},
		{"old browser's form", "POST", "localhost:8000", infer, with(browser, headers{"Content-Type": "multipart/form-data; boundary=x"}), 415},
		{"old browser's text", "POST", "localhost:8000", infer, with(browser, headers{"Content-Type": "text/plain;charset=UTF-8"}), 415},
		{"old browser's bytes", "POST", "localhost:8000", infer, browser, 415},
		{"old browser's JSON", "POST", "localhost:8000", infer, with(browser, asJSON), 200}, // no form sends that
		{"old browser with a bearer token", "POST", "localhost:8000", infer, with(browser, headers{"Authorization": "Bearer x"}), 200},
		{"sandbox", "POST", "localhost:8000", infer, with(asJSON, headers{"Origin": "null"}), 403},
		{"with a password", "POST", "localhost:8000", infer, with(cross, with(asJSON, headers{"Authorization": "Basic bWU6eA=="})), 403},
		{"with a bearer token", "POST", "localhost:8000", infer, with(cross, with(asJSON, headers{"Authorization": "bearer x"})), 200},

		// Names that an attacker makes point to this service.
		{"rebound name", "GET", "evil.example:8000", "/ui/config", browser, 403},
		{"rebound name, metrics", "GET", "evil.example:8002", "/metrics", browser, 403},
		{"rebound name, disguised", "GET", "evil.example:8000", "/v2", headers{"User-Agent": "curl/8", "Accept-Language": ""}, 403},
		{"rebound name, post", "POST", "evil.example:8000", infer, with(asJSON, headers{"Origin": "http://evil.example:8000"}), 403},
		{"rebound name, bearer", "GET", "evil.example:8000", "/v2", with(browser, headers{"Authorization": "Bearer x"}), 403},
		{"like an address", "GET", "127.0.0.1.evil.example:8000", "/v2", browser, 403},
		{"like an allowed one", "GET", "evald.example.org.evil.example:8000", "/v2", browser, 403},

		// Allowed origins, only below /v2.
		{"notebook", "POST", "localhost:8000", infer, with(notebook, asJSON), 200},
		{"notebook, page", "POST", "localhost:8000", "/ui/move", with(notebook, asJSON), 403},
		{"notebook, metrics", "GET", "localhost:8002", "/metrics", notebook, 403},
		{"notebook, like the protocol", "GET", "localhost:8000", "/v20", notebook, 403},
	} {
		r := ask(t, p, x.method, x.host, x.path, "{}", x.headers)
		if r.StatusCode != x.status {
			t.Errorf("%s: status %d, want %d", x.name, r.StatusCode, x.status)
		}
		cors := r.Header.Get("Access-Control-Allow-Origin")
		if want := strings.HasPrefix(x.name, "notebook") && x.status == 200; (cors != "") != want || want && cors != "https://notebook.example.org" {
			t.Errorf("%s: Access-Control-Allow-Origin %q", x.name, cors)
		}
	}
}

// The names of this machine are allowed.
func TestMachineNames(t *testing.T) {
	name, err := os.Hostname()
	if err != nil {
		t.Skip(err)
	}
	first, _, _ := strings.Cut(name, ".")
	for _, host := range []string{name, first, first + ".local"} {
		if r := ask(t, nil, "GET", host+":8000", "/", "", browser); r.StatusCode != 200 {
			t.Errorf("%s: status %d", host, r.StatusCode)
		}
	}
}

// A browser asks for permission before it sends JSON to another site, and only allowed origins get it.
func TestPreflight(t *testing.T) {
	p := gametest.Must(New([]string{"https://notebook.example.org"}, nil))(t)
	asks := headers{"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}
	r := ask(t, p, "OPTIONS", "localhost:8000", infer, "", with(cross, with(asks, headers{"Origin": "https://notebook.example.org"})))
	for name, want := range map[string]string{
		"Access-Control-Allow-Origin": "https://notebook.example.org", "Access-Control-Allow-Methods": "POST",
		"Access-Control-Allow-Headers": "Content-Type", "Vary": "Origin",
	} {
		if got := r.Header.Get(name); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if r.StatusCode != http.StatusNoContent || r.Header.Get("Access-Control-Allow-Credentials") != "" {
		t.Errorf("status %d, %v", r.StatusCode, r.Header)
	}
	for name, policy := range map[string]*Policy{"another site": p, "no policy": nil} {
		r := ask(t, policy, "OPTIONS", "localhost:8000", infer, "", with(cross, asks))
		if r.StatusCode != http.StatusForbidden || r.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: status %d, %v", name, r.StatusCode, r.Header)
		}
	}
}

func TestNew(t *testing.T) {
	for _, x := range []struct{ origin, host, says string }{
		{"https://a.example", "a.example", ""},
		{"http://127.0.0.1:8888", "x", ""},
		{"*", "a", `origin "*": must be SCHEME://HOST`},
		{"null", "a", "must be SCHEME"},
		{"https://a.example/", "a", "must be SCHEME"},
		{"https://a", "a.example:8000", `host "a.example:8000": must be a name`},
		{"https://a", "http://a", "must be a name"},
		{"https://a", "", "must be a name"},
		{"https://a", strings.Repeat("*", 1000), `**"..: must be a name`},
	} {
		_, err := New([]string{x.origin}, []string{x.host})
		if (err == nil) != (x.says == "") || err != nil && !strings.Contains(err.Error(), x.says) {
			t.Errorf("%.40s %.40s: %v, want %q", x.origin, x.host, err, x.says)
		}
	}
}

// No header makes the guard fail, and none lets another site's page in.
func FuzzGuard(f *testing.F) {
	f.Add("localhost:8000", "http://evil.example", "application/json")
	f.Add("[::1", "null", "multipart/form-data; boundary=\"")
	f.Fuzz(func(t *testing.T, host, origin, kind string) {
		r := ask(t, nil, "POST", host, "/v2/x", "x", headers{"Sec-Fetch-Site": "cross-site", "Origin": origin, "Content-Type": kind})
		if r.StatusCode != http.StatusForbidden || len(r.Header) != 1 {
			t.Errorf("host %q, origin %q, type %q: status %d, %v", host, origin, kind, r.StatusCode, r.Header)
		}
	})
}
