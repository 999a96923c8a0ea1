package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/heuristic"
)

var stopBrowser = func() {}

// browser starts the browser that all tests share. If there is none, the error says so.
var browser = sync.OnceValues(func() (context.Context, error) {
	path := ""
	// The shell is the same engine without the windows of Chromium, which take a third of the time.
	for _, name := range []string{os.Getenv("EVALD_CHROMIUM"), "chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil && path == "" {
			path = found
		}
	}
	if path == "" {
		return nil, errors.New("no chromium in PATH: Debian has it in the package chromium-headless-shell; EVALD_CHROMIUM may name one")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WindowSize(1280, 1000))
	allocator, stopAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, stop := chromedp.NewContext(allocator)
	stopBrowser = func() { _ = chromedp.Cancel(ctx); stop(); stopAllocator() }
	return ctx, chromedp.Do(ctx)
})

// tab is a browser tab on a page with a server of its own.
type tab struct {
	t   *testing.T
	ctx context.Context
	url string
	h   *Handler // nil if the page is another's

	mu       sync.Mutex
	requests []string // URLs
	wrong    []string // complaints of the console and the network
}

// open goes to the address on the server of a page, in a tab of its own. Analyses take half a second unless the config says
// otherwise.
func open(t *testing.T, c Config, address string, actions ...chromedp.Action[chromedp.Void]) *tab {
	t.Helper()
	if c.Limits.Time == 0 {
		c.Limits.Time = time.Second / 2
	}
	if c.Agents.Models == nil { // the levels have networks
		c.Agents.Models = func(string) (*eval.Evaluator, error) { return heuristic.New(eval.Bitsquares) }
	}
	h := handler(t, c)
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	t.Cleanup(h.Close) // before server.Close
	b := openTab(t, server.URL, address, fresh+askedForValues, actions...)
	b.h = h
	return b
}

// openURL goes to an address on a server, in a tab of its own. Without a browser the test is skipped, or fails if a browser
// is required.
func openURL(t *testing.T, url, address string, actions ...chromedp.Action[chromedp.Void]) *tab {
	t.Helper()
	return openTab(t, url, address, askedForValues, actions...)
}

const (
	// fresh forgets what an earlier server at the same port has stored.
	fresh = `try { if (!sessionStorage.fresh) { localStorage.clear(); sessionStorage.fresh = "yes"; } } catch {}`
	// askedForValues makes the visitor one who has asked for values, unless the test says otherwise.
	askedForValues = `try { localStorage.evald ??= '{"values":true}'; } catch {}`
)

func openTab(t *testing.T, url, address, script string, actions ...chromedp.Action[chromedp.Void]) *tab {
	t.Helper()
	if testing.Short() {
		t.Skip("a browser's tests are not for short runs")
	}
	shared, err := browser()
	gametest.Need(t, err == nil, fmt.Sprint(err))
	ctx, stop := chromedp.NewContext(shared)
	t.Cleanup(stop)
	b := &tab{t: t, ctx: ctx, url: url}
	gametest.OK(t, chromedp.Listen(ctx, b.hear))
	b.do(command(network.Enable, network.EnableParams{}), command(cdplog.Enable, cdp.Empty{}), chromedp.EmulateViewport(1280, 1000))
	b.do(onEachPage(script))
	b.do(append(actions, chromedp.Navigate(url+address))...)
	return b
}

// newcomer is a visitor for whom the page has stored nothing.
var newcomer = onEachPage(`try { if (!sessionStorage.came && localStorage.evald === '{"values":true}') { localStorage.evald = "{}"; } sessionStorage.came = "yes"; } catch {}`)

// onEachPage runs a script at the beginning of each page.
func onEachPage(script string) chromedp.Action[chromedp.Void] {
	return command(cdppage.AddScriptToEvaluateOnNewDocument, cdppage.AddScriptToEvaluateOnNewDocumentParams{Source: script})
}

// command is a command of the DevTools protocol.
func command[P, R any](c cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, c, params)
		return err
	})
}

func (b *tab) hear(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		b.requests = append(b.requests, e.Request.URL)
	case *cdplog.EventEntryAdded:
		b.wrong = append(b.wrong, e.Entry.Text)
	case *runtime.EventExceptionThrown:
		b.wrong = append(b.wrong, fmt.Sprintf("%s:%d: %v", e.ExceptionDetails.URL, e.ExceptionDetails.LineNumber+1, e.ExceptionDetails.Exception.Description))
	case *runtime.EventConsoleAPICalled:
		b.wrong = append(b.wrong, "console."+string(e.Type))
	}
}

// waiting is the time limit of each step.
const waiting = 40 * time.Second

func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, stop := context.WithTimeout(b.ctx, waiting)
	defer stop()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.fail(err)
	}
}

func (b *tab) fail(err error) {
	b.t.Helper()
	b.t.Fatalf("%v; the page shows %q; complaints %q", err, b.text("body"), b.complaints())
}

// text returns an element's text, or the reason why it is unknown.
func (b *tab) text(selector string) string {
	ctx, stop := context.WithTimeout(b.ctx, waiting)
	defer stop()
	s, err := chromedp.Run(ctx, chromedp.Evaluate[string](fmt.Sprintf("document.querySelector(%q)?.innerText ?? 'there is no ' + %q", selector, selector)))
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(s)
}

func (b *tab) complaints() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.wrong...)
}

// valueOf returns the value of an expression.
func valueOf[T any](b *tab, expression string, options ...chromedp.EvaluateOption) T {
	b.t.Helper()
	ctx, stop := context.WithTimeout(b.ctx, waiting)
	defer stop()
	x, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, options...))
	if err != nil {
		b.fail(fmt.Errorf("%.100s: %w", expression, err))
	}
	return x
}

// until waits until an expression is true.
func (b *tab) until(expression string) {
	b.t.Helper()
	ctx, stop := context.WithTimeout(b.ctx, waiting)
	defer stop()
	err := error(nil)
	for again := true; again; { // a page that is replaced meanwhile discards the expression
		err = chromedp.Do(ctx, chromedp.Poll[chromedp.Void](expression, chromedp.WithPollingInterval(20*time.Millisecond)))
		again = err != nil && ctx.Err() == nil && (strings.Contains(err.Error(), "Cannot find context") || strings.Contains(err.Error(), "navigated or closed"))
	}
	if err != nil {
		b.fail(fmt.Errorf("until %s: %w", expression, err))
	}
}

// says waits for an element's text to contain some text.
func (b *tab) says(selector, text string) {
	b.t.Helper()
	b.until(fmt.Sprintf("document.querySelector(%q)?.textContent.includes(%q)", selector, text))
}

// press types a key at the focused element.
func (b *tab) press(keys string) {
	b.t.Helper()
	b.do(chromedp.KeyEvent(keys))
}

func (b *tab) click(selector string) {
	b.t.Helper()
	b.do(chromedp.Click(chromedp.CSS(selector)))
}

// choose picks an option and fires the event that a person's choice fires.
func (b *tab) choose(id, value string) {
	b.t.Helper()
	b.run(fmt.Sprintf(`(() => { const e = document.getElementById(%q); e.value = %q; e.dispatchEvent(new Event("change", {bubbles: true})); })()`, id, value))
}

// agent chooses an opponent that is no level.
func (b *tab) agent(spec string) {
	b.t.Helper()
	b.run(fmt.Sprintf(`document.getElementById("agent-text").value = %q`, spec))
	b.choose("agent", "other")
}

// position returns the position that the address names.
func (b *tab) position() string {
	b.t.Helper()
	place, _, _ := strings.Cut(strings.TrimPrefix(valueOf[string](b, "location.hash"), "#"), "&")
	return place
}

// column is the selector of an action's button.
func column(action int) string { return fmt.Sprintf("#board > button:nth-child(%d)", action+1) }

// picture saves a screenshot of the whole page in the folder EVALD_SCREENSHOTS, if that is set.
func (b *tab) picture(name string) {
	b.t.Helper()
	b.save(name, chromedp.FullScreenshot(100))
}

// save is picture for any screenshot.
func (b *tab) save(name string, shot chromedp.Action[[]byte]) {
	b.t.Helper()
	if folder := os.Getenv("EVALD_SCREENSHOTS"); folder != "" {
		gametest.OK(b.t, os.WriteFile(filepath.Join(folder, name+".png"), gametest.Must(chromedp.Run(b.ctx, shot))(b.t), 0o644))
	}
}

// tidy checks what holds for every page: nothing is loaded from another host, there are no complaints, nothing overflows at
// the side, and axe finds no accessibility problem, if EVALD_AXE names its script. It takes a picture if that has a name.
func (b *tab) tidy(picture string) {
	b.t.Helper()
	if picture != "" {
		b.picture(picture)
	}
	b.mu.Lock()
	for _, url := range b.requests {
		if !strings.HasPrefix(url, b.url+"/") {
			b.t.Errorf("the page asked for %s", url)
		}
	}
	b.mu.Unlock()
	if wrong := b.complaints(); len(wrong) > 0 {
		b.t.Errorf("complaints: %q", wrong)
	}
	// Not innerWidth: a phone shows more of a page that is too wide.
	if wide := valueOf[float64](b, "document.documentElement.scrollWidth - document.documentElement.clientWidth"); wide > 0 {
		b.t.Errorf("the page is %v pixels too wide: %q", wide, valueOf[[]string](b,
			`[...document.querySelectorAll("main *")].filter((e) => e.getBoundingClientRect().right > document.documentElement.clientWidth).map((e) => e.id || e.className || e.tagName).slice(0, 9)`))
	}
	if picture != "" || gametest.Soak() {
		b.axe()
	}
}

// axe runs the accessibility checker.
func (b *tab) axe() {
	b.t.Helper()
	path := os.Getenv("EVALD_AXE")
	if path == "" {
		if os.Getenv("EVALD_REQUIRE_TOOLS") == "1" {
			b.t.Error("EVALD_AXE names no axe.min.js (npm's axe-core)")
		}
		return
	}
	script := gametest.Must(os.ReadFile(path))(b.t)
	found := valueOf[string](b, string(script)+`; axe.run(document).then((r) => JSON.stringify({n: r.passes.length,
		v: r.violations.map((v) => [v.id, v.help, v.nodes.map((n) => n.html + " " + n.any.map((a) => a.message).join(" "))])}))`, chromedp.EvalAwaitPromise)
	var result struct {
		N int   `json:"n"`
		V []any `json:"v"`
	}
	if err := json.Unmarshal([]byte(found), &result); err != nil || result.N < 10 {
		b.t.Fatalf("axe answered %q, %v", found, err)
	}
	for _, v := range result.V {
		b.t.Errorf("axe: %v", v)
	}
}

// phone is a small touch screen.
func phone() chromedp.Action[chromedp.Void] {
	return chromedp.EmulateViewport(360, 740, chromedp.EmulateScale(2), chromedp.EmulateMobile, chromedp.EmulateTouch)
}

func dark() chromedp.Action[chromedp.Void] {
	return command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}})
}
