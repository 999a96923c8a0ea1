package web

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"

	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/solver"
)

// firefox is a session of WebDriver BiDi (w3c.github.io/webdriver-bidi) with Firefox, in one tab.
type firefox struct {
	t     *testing.T
	conn  *websocket.Conn
	tab   string
	calls int
	wrong []string // errors of the console and of scripts
}

// startFirefox starts a browser without a window and a profile of its own.
func startFirefox(t *testing.T) *firefox {
	t.Helper()
	var path string
	for _, name := range []string{"firefox", "firefox-esr"} {
		if found, err := exec.LookPath(name); err == nil && path == "" {
			path = found
		}
	}
	if path == "" {
		t.Skip("no firefox in PATH: Debian has it in the package firefox-esr")
	}
	c := exec.CommandContext(t.Context(), path, "--headless", "--remote-debugging-port", "0", "--profile", t.TempDir())
	c.WaitDelay = 5 * time.Second
	output := gametest.Must(c.StderrPipe())(t)
	gametest.OK(t, c.Start())
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	url := ""
	for lines := bufio.NewScanner(output); url == "" && lines.Scan(); {
		_, url, _ = strings.Cut(lines.Text(), "WebDriver BiDi listening on ")
	}
	if url == "" {
		t.Fatal("firefox says nothing of WebDriver BiDi")
	}
	conn, _, err := websocket.Dial(t.Context(), url+"/session", nil)
	gametest.OK(t, err)
	conn.SetReadLimit(16 << 20)
	f := &firefox{t: t, conn: conn}
	t.Cleanup(func() { _ = conn.CloseNow() })
	f.call("session.new", map[string]any{"capabilities": map[string]any{}})
	f.call("session.subscribe", map[string]any{"events": []string{"log.entryAdded"}})
	var tree struct {
		Contexts []struct {
			Context string `json:"context"`
		} `json:"contexts"`
	}
	gametest.OK(t, json.Unmarshal(f.call("browsingContext.getTree", map[string]any{}), &tree))
	f.tab = tree.Contexts[0].Context
	return f
}

// call sends a command and returns its result. Events that come before it are noted.
func (f *firefox) call(method string, params map[string]any) json.RawMessage {
	f.t.Helper()
	ctx, stop := context.WithTimeout(f.t.Context(), waiting)
	defer stop()
	f.calls++
	gametest.OK(f.t, wsjson.Write(ctx, f.conn, map[string]any{"id": f.calls, "method": method, "params": params}))
	for {
		var answer struct {
			Type    string          `json:"type"`
			ID      int             `json:"id"`
			Result  json.RawMessage `json:"result"`
			Message string          `json:"message"`
			Params  struct {
				Level string `json:"level"`
				Text  string `json:"text"`
			} `json:"params"`
		}
		gametest.OK(f.t, wsjson.Read(ctx, f.conn, &answer))
		switch {
		case answer.Type == "event" && (answer.Params.Level == "error" || answer.Params.Level == "warn"):
			f.wrong = append(f.wrong, answer.Params.Text)
		case answer.ID == f.calls && answer.Type == "error":
			f.t.Fatalf("%s: %s", method, answer.Message)
		case answer.ID == f.calls:
			return answer.Result
		}
	}
}

// until waits until an expression is true.
func (f *firefox) until(expression string) {
	f.t.Helper()
	for began := time.Now(); ; {
		wait := fmt.Sprintf("new Promise((done) => { const t = setInterval(() => { if (%s) { clearInterval(t); done(true); } }, 20); setTimeout(() => { clearInterval(t); done(false); }, 2000); })", expression)
		if strings.Contains(string(f.evaluate(wait)), "true") {
			return
		}
		if time.Since(began) > waiting {
			f.t.Fatalf("until %s: the page shows %s; complaints %q", expression, f.evaluate("document.body.innerText"), f.wrong)
		}
	}
}

func (f *firefox) evaluate(expression string) json.RawMessage {
	f.t.Helper()
	return f.call("script.evaluate", map[string]any{"expression": expression, "target": map[string]any{"context": f.tab}, "awaitPromise": true})
}

func (f *firefox) run(script string) { f.t.Helper(); f.evaluate("void (() => {" + script + "})()") }

// picture saves a screenshot in the folder EVALD_SCREENSHOTS, if that is set.
func (f *firefox) picture(name string) {
	f.t.Helper()
	if folder := os.Getenv("EVALD_SCREENSHOTS"); folder != "" {
		var shot struct {
			Data []byte `json:"data"`
		}
		gametest.OK(f.t, json.Unmarshal(f.call("browsingContext.captureScreenshot", map[string]any{"context": f.tab}), &shot))
		gametest.OK(f.t, os.WriteFile(filepath.Join(folder, "firefox-"+name+".png"), shot.Data, 0o644))
	}
}

// With EVALD_SOAK: each view of the page works in Firefox, wide and narrow, and nothing complains.
func TestFirefox(t *testing.T) {
	if !gametest.Soak() || gametest.Race {
		t.Skip("another browser, before a release: EVALD_SOAK=1m")
	}
	h := handler(t, Config{Agents: agent.Shared{Ships: solver.ShippedBook}, Limits: Limits{Time: 10 * time.Second}})
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	t.Cleanup(h.Close)
	f := startFirefox(t)
	for _, width := range []int{1280, 320} {
		f.call("browsingContext.setViewport", map[string]any{"context": f.tab, "viewport": map[string]any{"width": width, "height": 800}})
		for _, view := range []struct{ address, shows string }{
			{"#7x6x4:4455", `/\d/.test(document.querySelector("#exact-text, #opinions")?.textContent)`},
			{"#review=7x6x4:1234567712", `!document.getElementById("review-result").hidden`},
			{"#explore=7x6x4:4455", `document.querySelectorAll("#explore-moves .exact-worth.r1, #explore-moves .exact-worth.r-1").length > 0`},
			{"#puzzles", `document.querySelectorAll("#puzzle-board button").length === 7`},
			{"#tree=7x6x4:4455", `document.querySelectorAll("#tree-moves li").length > 3`},
			{"#drill", `document.getElementById("drill-said").textContent.length > 10`},
		} {
			f.call("browsingContext.navigate", map[string]any{"context": f.tab, "url": "about:blank", "wait": "complete"})
			f.call("browsingContext.navigate", map[string]any{"context": f.tab, "url": server.URL + "/" + view.address, "wait": "complete"})
			f.until(view.shows)
			f.until("document.documentElement.scrollWidth <= innerWidth")
			f.picture(fmt.Sprintf("%d-%s", width, strings.Trim(strings.SplitN(view.address, "=", 2)[0], "#")))
		}
		f.run(`document.querySelector("#drill-board button:nth-child(4)").click()`)
		f.until(`document.querySelectorAll("#drill-line li").length === 2`)
	}
	if len(f.wrong) > 0 {
		t.Errorf("complaints: %q", f.wrong)
	}
}
