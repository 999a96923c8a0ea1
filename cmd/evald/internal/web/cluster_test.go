package web

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/evald/evald/engine/cluster"
	"github.com/evald/evald/engine/game/gametest"
)

// several is a cluster with networks of two generations, of which a worker gives itself a name that is HTML.
func several() cluster.Status {
	s := cluster.Status{
		Run: "R", Playing: true, Generation: 4, Network: "003", Games: 1204, All: 3000, PerSecond: 61.25, Jobs: 11, Lag: 2, Kept: 10204, Duplicates: 17,
		Networks: []cluster.InFlight{{Generation: 4, Network: "003", Playing: 5, Fetching: 1, Begun: 640}, {Generation: 3, Network: "002", Playing: 1, Begun: 37}},
		Older:    52, Heard: 9, Spool: 112, Played: 70.5,
	}
	for n := range 7 {
		w := cluster.Worker{Name: fmt.Sprintf("gpu-%d-q7xk2m", n), Generation: 4, Network: "003", Begun: 128, Games: 3100 + int64(n), PerSecond: 11.5, Kept: 3080, Spool: 16, Silent: 1.2}
		switch n {
		case 5:
			w.Name, w.Generation, w.Network, w.Begun = "<script>alert(1)</script>", 3, "002", 37
		case 6:
			w.Generation, w.Network, w.Fetching, w.Begun, w.PerSecond = 3, "002", "003", 0, 0
		}
		s.Workers = append(s.Workers, w)
	}
	return s
}

// The page says what the status says, runs nothing that a worker wrote, and loads its style from here.
func TestCluster(t *testing.T) {
	s := several()
	h := gametest.Must(Cluster(func() cluster.Status { return s }))(t)
	get := func(method, path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
		if !strings.HasPrefix(w.Header().Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s %s: policy %q", method, path, w.Header().Get("Content-Security-Policy"))
		}
		return w
	}
	page := get("GET", "/").Body.String()
	for _, want := range []string{
		"1204 of 3000, by 003", "61.2 games/s", "52 games of earlier generations", "And 2 other workers.", "gpu-0-q7xk2m", "002 (downloads 003)",
		"<tr><td>002</td><td>3</td><td>1</td><td>37</td><td>0</td></tr>", "&lt;script&gt;",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(page, "<script>") || strings.Contains(page, "could not be written") {
		t.Error("the page has a worker's script, or a problem")
	}
	s = cluster.Status{Generation: -1, Failures: 3}
	page = get("GET", "/").Body.String()
	for _, want := range []string{"Before the first generation", "workers wait", "3 times games could not be written", "No worker reported", "No worker plays."} {
		if !strings.Contains(page, want) {
			t.Errorf("the page of an idle cluster lacks %q", want)
		}
	}
	for path, kind := range map[string]string{"/ui/style.css": "text/css", "/ui/cluster.js": "text/javascript", "/": "text/html"} {
		if w := get("GET", path); w.Code != http.StatusOK || !strings.HasPrefix(w.Header().Get("Content-Type"), kind) {
			t.Errorf("%s: %d, %s", path, w.Code, w.Header().Get("Content-Type"))
		}
	}
	for path, method := range map[string]string{"/ui/main.js": "GET", "/x": "GET", "/": "POST"} {
		if w := get(method, path); w.Code < 400 {
			t.Errorf("%s %s: %d", method, path, w.Code)
		}
	}
}

// A browser draws the page, and renews it until the learner ends.
func TestClusterInBrowser(t *testing.T) {
	var asked atomic.Int32
	h, err := Cluster(func() cluster.Status {
		s := several()
		s.Kept += int64(asked.Add(1))
		return s
	})
	gametest.OK(t, err)
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	b := openURL(t, server.URL, "/")
	b.until(`document.querySelectorAll(".numbers tbody tr").length === 9 && getComputedStyle(document.querySelector(".numbers td:nth-child(4)")).textAlign === "right"`)
	b.picture("cluster")
	b.says("#main", "10206 since its start")
	b.tidy("")
	server.CloseClientConnections()
	server.Close()
	b.says("#lost", "does not answer")
}
