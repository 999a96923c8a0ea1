package web

import (
	"fmt"
	"net"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/evald/evald/cmd/evald/internal/play"
	"github.com/evald/evald/engine/game/gametest"
)

// asked returns how many requests the page has made to a path.
func (b *tab) asked(path string) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, url := range b.requests {
		if strings.HasSuffix(url, path) {
			n++
		}
	}
	return n
}

// lit returns what is marked on the board and in the table.
func (b *tab) lit() []string {
	b.t.Helper()
	return valueOf[[]string](b, `[...[...document.querySelectorAll("[data-rank]")].map((e) => e.dataset.rank + " in " + e.closest("button").ariaLabel[7]), ...[...document.querySelectorAll(".names .best")].map((e) => e.textContent)]`)
}

// A hint marks the best moves on the board and says them, until the next move. Without one nothing is marked.
func TestPageHint(t *testing.T) {
	b := open(t, Config{Limits: Limits{Time: 10 * time.Second}}, "/#444444226626&red=person&yellow=person")
	b.says("#exact-text", "Best: 3, 5")
	if lit := b.lit(); len(lit) > 0 {
		t.Errorf("without a hint %q are marked", lit)
	}
	b.click("#hint")
	b.says("#hint-text", "Best: 3, 5. Exact: Red wins.")
	want := []string{"1 in 3", "1 in 5", "3", "5"}
	if lit := b.lit(); !slices.Equal(lit, want) {
		t.Errorf("the hint marks %q, want %q", lit, want)
	}
	if label := valueOf[string](b, fmt.Sprintf("document.querySelector(%q).ariaLabel", column(2))); !strings.HasSuffix(label, ", best move") {
		t.Errorf("the column is called %q", label)
	}
	b.tidy("hint")
	b.click("#evaluate") // another setting does not end the hint
	b.until("document.querySelectorAll('[data-rank]').length === 2")
	b.click(column(0))
	b.says("#status", "Red played 1")
	if lit := b.lit(); len(lit) > 0 || b.text("#hint-text") != "" {
		t.Errorf("after a move %q are marked, %q", lit, b.text("#hint-text"))
	}
	// Who wants the best moves all the time sees three.
	b.click("#best")
	b.until("document.querySelectorAll('[data-rank]').length >= 3")
	if text := b.text("#hint-text"); text != "" {
		t.Errorf("without being asked the page says %q", text)
	}
	b.tidy("best")
}

// Arrows go through the game and digits play, wherever the focus is, except in fields and on the board.
func TestPageKeys(t *testing.T) {
	b := open(t, Config{Limits: Limits{Time: time.Second / 10}}, "/#7x6x4:4455&red=person&yellow=person")
	b.at("7x6x4:4455")
	b.press(kb.ArrowLeft)
	b.at("7x6x4:445")
	b.press(kb.ArrowLeft)
	b.at("7x6x4:44")
	b.press(kb.ArrowRight)
	b.at("7x6x4:445")
	b.press("1")
	b.at("7x6x4:4451")
	b.do(chromedp.Focus(chromedp.CSS("#undo")))
	b.press(kb.ArrowLeft)
	b.at("7x6x4:445")
	b.do(chromedp.Focus(chromedp.CSS("#moves")))
	b.press(kb.ArrowLeft + "7")
	b.do(chromedp.Focus(chromedp.CSS("#side")))
	b.press("7")
	b.do(chromedp.Focus(chromedp.CSS("#board > button:nth-child(4)")))
	b.press(kb.ArrowLeft)
	b.until("document.activeElement.ariaLabel.startsWith('Column 3')")
	if got := b.position(); got != "7x6x4:445" {
		t.Errorf("keys for fields and the board led to %s", got)
	}
	// A click on the curve goes to its move.
	b.run("document.activeElement.blur()")
	b.until("document.querySelectorAll('#curve .guess, #curve .sure').length > 4")
	at := valueOf[[]float64](b, `(() => { document.getElementById("curve").scrollIntoView({block: "center"}); const r = document.querySelector("#curve svg").getBoundingClientRect(); return [r.left + r.width * 0.26, r.top + r.height / 2]; })()`)
	b.do(chromedp.MouseClickXY(at[0], at[1]))
	b.at("7x6x4:4")
	b.tidy("")
}

// A page whose server is gone says so in plain words, and continues by itself once the server is back.
func TestPageOffline(t *testing.T) {
	h := handler(t, Config{Limits: Limits{Time: time.Second / 10}})
	server := httptest.NewServer(h)
	t.Cleanup(server.Close) // also where there is no browser
	address := server.Listener.Addr().String()
	b := openURL(t, server.URL, "/")
	b.says("#status", "Red to move: you")
	b.choose("side", "both")
	b.says("#status", "Red to move")
	server.CloseClientConnections()
	server.Close()
	b.click(column(3))
	b.says("#offline", "The server cannot be reached. The page tries again by itself.")
	b.picture("offline")
	if text := b.text("body"); strings.Contains(text, "fetch") {
		t.Errorf("the page says %q", text)
	}
	again := httptest.NewUnstartedServer(h)
	again.Listener.Close()
	again.Listener = gametest.Must(net.Listen("tcp", address))(t)
	again.Start()
	t.Cleanup(again.Close)
	t.Cleanup(h.Close)
	b.says("#status", "Red played 4. Yellow to move") // the move was not lost
	b.until("document.getElementById('offline').hidden && document.getElementById('problem').hidden")
	if text := b.text("body"); strings.Contains(text, "cannot be reached") {
		t.Error("the message stays")
	}
}

// The link for people who skip to the content leaves the game as it is.
func TestPageSkip(t *testing.T) {
	b := open(t, Config{}, "/#7x6x4:4455&red=person&yellow=person")
	b.at("7x6x4:4455")
	b.press(kb.Tab)
	if got := valueOf[string](b, "document.activeElement.className"); got != "skip" {
		t.Fatalf("the first stop is %q", got)
	}
	b.press(kb.Enter)
	b.until("document.activeElement.id === 'main'")
	b.until("fetch('/ui/config').then(() => true)")
	b.at("7x6x4:4455")
	if len(b.record()) != 5 || b.text("#problem") != "" {
		t.Errorf("the game is %q, %q", b.record(), b.text("#problem"))
	}
}

// Who wants no opinions gets none, also after a reload, and not even the server is asked for them. A hint still works.
func TestPageNoOpinions(t *testing.T) {
	b := open(t, Config{}, "/#444444226626&red=person&yellow=person")
	b.says("#wdl-text", "Red")
	for _, id := range []string{"sight", "evaluate", "solve"} {
		b.click("#" + id)
	}
	none := func() {
		t.Helper()
		b.until(`["wdl-text", "search-text", "exact-text"].every((id) => document.getElementById(id).textContent === "off")`)
		b.until(`[...document.querySelectorAll("#record .worth")].every((e) => e.textContent.trim() === "") && document.querySelectorAll("#curve .sure, #curve .guess").length === 0`)
		if rows := valueOf[int](b, `[...document.querySelectorAll("#opinions > .row")].filter((e) => !e.hidden).length`); rows != 1 {
			t.Errorf("%d rows are shown, want the names of the moves alone", rows)
		}
	}
	none()
	b.choose("language", "en")
	b.until("document.getElementById('status')?.textContent.includes('Red to move')")
	before := b.asked("/ui/analyze") + b.asked("/ui/values")
	b.do(chromedp.Reload())
	b.says("#status", "Red to move")
	none()
	b.click(column(0))
	b.says("#status", "Red played 1")
	none()
	if n := b.asked("/ui/analyze") + b.asked("/ui/values"); n != before {
		t.Errorf("the page asked for opinions %d times", n-before)
	}
	b.tidy("no_opinions")
	b.click("#hint")
	b.until("document.querySelectorAll('[data-rank]').length > 0")
	none()
}

// In a browser that keeps nothing, all works until the page is closed, also the choice of a language.
func TestPageForgets(t *testing.T) {
	refuses := command(cdppage.AddScriptToEvaluateOnNewDocument, cdppage.AddScriptToEvaluateOnNewDocumentParams{
		Source: `Object.defineProperty(window, "localStorage", { get() { throw new DOMException("refused", "SecurityError"); } });`,
	})
	b := open(t, Config{Limits: Limits{Time: time.Second / 10}}, "/", refuses)
	b.says("#status", "Red to move: you")
	b.click("#values")
	b.click("#solve")
	b.says("#exact-text", "off")
	b.says("#unkept", "This browser does not store what you change here")
	b.agent("random")
	b.choose("side", "both")
	b.says("#status", "Red to move")
	b.choose("language", "de")
	b.says("#status", "Rot ist am Zug")
	b.click(column(3))
	b.says("#status", "Rot spielte 4.")
	b.tidy("german")
}

// A mistake in the field for positions is named beside it, and the game stays.
func TestPageTypo(t *testing.T) {
	b := open(t, Config{}, "/#7x6x4:4455&red=person&yellow=person")
	b.at("7x6x4:4455")
	b.do(chromedp.SetValue(chromedp.CSS("#moves"), "7x6x4:445x5"), chromedp.SendKeys(chromedp.CSS("#moves"), kb.Enter))
	b.says("#moves-problem", `move 4 is "x"`)
	b.until("document.getElementById('moves').ariaInvalid === 'true'")
	if record := b.record(); len(record) != 5 || b.position() != "7x6x4:4455" || valueOf[string](b, "document.getElementById('moves').value") != "7x6x4:445x5" {
		t.Errorf("the game is %q at %s", record, b.position())
	}
	b.forget("400 (Bad Request)")
	b.tidy("typo")
	b.do(chromedp.SetValue(chromedp.CSS("#moves"), "7x6x4:4451"), chromedp.SendKeys(chromedp.CSS("#moves"), kb.Enter))
	b.at("7x6x4:4451")
	b.until("document.getElementById('moves-problem').textContent === '' && document.getElementById('moves').ariaInvalid === null")
}

// forget removes the browser's complaints that have a text.
func (b *tab) forget(text string) {
	b.t.Helper()
	has := func(s string) bool { return strings.Contains(s, text) }
	for range 1000 { // the browser may tell it after what it shows
		b.mu.Lock()
		there := slices.ContainsFunc(b.wrong, has)
		b.wrong = slices.DeleteFunc(b.wrong, has)
		b.mu.Unlock()
		if there {
			return
		}
		valueOf[bool](b, "true")
	}
	b.t.Errorf("there is no complaint %q", text)
}

// While a visitor analyses, both sides are the visitor's, whichever players they have.
func TestPageAnalyse(t *testing.T) {
	b := open(t, Config{Limits: Limits{Time: time.Second / 10}}, "/#7x6x4:44&red=person&yellow=random")
	b.says("#status", "Red to move: you")
	b.click("#analyse")
	b.until("document.getElementById('analyse').ariaPressed === 'true'")
	for i, side := range []string{"Red", "Yellow", "Red"} {
		b.click(column(i))
		b.says("#status", fmt.Sprintf("%s played %d. ", side, i+1))
	}
	b.at("7x6x4:44123")
	if n := b.asked("/ui/move"); n != 0 {
		t.Errorf("an agent was asked %d times", n)
	}
	b.tidy("analyse")
	b.click("#undo") // one move, as for two people
	b.at("7x6x4:4412")
	b.click("#redo")
	b.at("7x6x4:44123")
	b.click("#analyse")
	b.says("#status", "Yellow waits: random")
	b.click("#go")
	b.says("#status", "Red to move: you")
}

// A hidden page sends no requests.
func TestPageHidden(t *testing.T) {
	b := open(t, Config{Limits: Limits{Time: time.Minute}}, "/")
	b.says("#search-text", "tried")
	hide := func(hidden bool) {
		b.run(fmt.Sprintf(`Object.defineProperty(document, "hidden", {value: %v, configurable: true}); document.dispatchEvent(new Event("visibilitychange"))`, hidden))
	}
	hide(true)
	for b.h.config.Places.Taken() > 0 {
		time.Sleep(time.Millisecond) // nothing signals that the search has ended
	}
	hide(false)
	b.says("#search-text", "tried")
}

// The page lists all agents, each with a description, its settings, and the levels that use it.
func TestPageAgentList(t *testing.T) {
	b := open(t, Config{}, "/")
	b.says("#status", "Red to move: you")
	b.click(".options summary")
	names := valueOf[[]string](b, `[...document.querySelectorAll("#agents dt")].map((e) => e.innerText)`)
	if !slices.Contains(names, "negamax") || len(names) < 9 || !slices.IsSorted(names) {
		t.Errorf("the agents are %q", names)
	}
	good := gametest.Must(play.ParseAgent("good"))(t).String()
	for agent, wants := range map[string][]string{"mcts": {"PUCT with a network", "mcts:visits=800"}, "human": {"Level good", good}} {
		about := valueOf[string](b, `[...document.querySelectorAll("#agents dt")].find((e) => e.innerText === "`+agent+`").nextElementSibling.innerText`)
		for _, want := range wants {
			if !strings.Contains(about, want) {
				t.Errorf("of %s it says %q, want %q", agent, about, want)
			}
		}
	}
	b.tidy("agents")
}

// A file that is of no training run is not drawn, and the page says so.
func TestPageTrainingLeft(t *testing.T) {
	dir := metrics(t)
	write(t, dir+"/bench/rows.jsonl", `{"rows":1}`)
	b := open(t, Config{Runs: dir}, "/#training")
	b.says("#runs-note", "Left out, because they are not metrics of a training run or a learner: bench/rows.jsonl")
	if runs := valueOf[[]string](b, `[...document.querySelectorAll("#run-table input")].map((e) => e.value)`); slices.Contains(runs, "bench") {
		t.Errorf("the runs are %q", runs)
	}
}

// Sounds are off until the visitor turns them on: one for each stone.
func TestPageSound(t *testing.T) {
	b := open(t, Config{}, "/")
	b.run(`window.tones = 0; const start = OscillatorNode.prototype.start; OscillatorNode.prototype.start = function (...when) { window.tones++; start.apply(this, when); }`)
	b.choose("side", "both")
	b.says("#status", "Red to move")
	b.click(column(3))
	b.says("#status", "Yellow to move")
	if tones := valueOf[int](b, "window.tones"); tones != 0 {
		t.Errorf("%d tones without leave", tones)
	}
	b.click("#sound")
	b.click(column(3))
	b.until("window.tones === 1")
	b.do(chromedp.Reload())
	b.until("document.getElementById('sound').checked")
}

// While the best moves are shown, the solver continues by itself; it stops when the page is hidden.
func TestPageWatches(t *testing.T) {
	b := open(t, Config{Limits: Limits{Time: time.Second / 5}}, "/#9x7x4:-")
	b.until("!document.getElementById('solve-on').hidden")
	before := b.asked("/ui/analyze")
	b.click("#best")
	for b.asked("/ui/analyze") < before+4 {
		b.until("document.getElementById('solve-on').hidden") // another turn has begun
	}
	b.run(`Object.defineProperty(document, "hidden", { configurable: true, get: () => true }); document.dispatchEvent(new Event("visibilitychange"))`)
	b.until("document.getElementById('exact-text').textContent.length > 0")
	stopped := b.asked("/ui/analyze")
	b.run("window.waited = false; setTimeout(() => { window.waited = true; }, 600)") // three turns
	b.until("window.waited")
	if after := b.asked("/ui/analyze"); after > stopped {
		t.Errorf("%d more requests for a hidden page", after-stopped)
	}
}
