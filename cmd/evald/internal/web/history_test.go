package web

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/evald/evald/cmd/evald/internal/play"
)

// run evaluates an expression and ignores its value.
func (b *tab) run(expression string) {
	b.t.Helper()
	b.do(chromedp.Evaluate[chromedp.Void](expression + "; undefined"))
}

func (b *tab) back()    { b.t.Helper(); b.run("setTimeout(() => history.back())") }
func (b *tab) forward() { b.t.Helper(); b.run("setTimeout(() => history.forward())") }

// at waits until the address names a position and the board shows it.
func (b *tab) at(position string) {
	b.t.Helper()
	b.until(fmt.Sprintf("location.hash.split('&')[0] === %q && document.getElementById('moves').value === %q", "#"+position, position))
}

// shows waits for a view, its address and its title.
func (b *tab) shows(view, title string) {
	b.t.Helper()
	b.until(fmt.Sprintf("!document.getElementById(%[1]q).hidden && document.title === %[2]q && document.querySelector('[aria-current=page]').id === 'to-%[1]s'", view, title))
	if hash := valueOf[string](b, "location.hash"); view != "play" && hash != "#"+view {
		b.t.Errorf("the address of %s ends in %q", view, hash)
	}
}

// Tabs have addresses: an address opens its tab, and Back and Forward go between tabs.
func TestPageTabs(t *testing.T) {
	b := open(t, Config{Metrics: services(), Runs: metrics(t)}, "/#service")
	b.says("#service-line", "Ready: ")
	b.shows("service", "Status - evald")
	b.click("#to-runs")
	b.until("document.querySelectorAll('#run-chart canvas').length > 0")
	b.shows("runs", "Runs - evald")
	b.click("#to-play")
	b.says("#status", "Red to move: you")
	b.shows("play", "Play - evald")
	b.at("7x6x4:-")
	b.choose("side", "both")
	b.click(column(3))
	b.at("7x6x4:4")
	b.click("#to-service")
	b.shows("service", "Status - evald")
	b.back()
	b.shows("play", "Play - evald")
	b.at("7x6x4:4")
	b.back()
	b.at("7x6x4:-")
	b.back()
	b.shows("runs", "Runs - evald")
	b.back()
	b.shows("service", "Status - evald")
	b.forward()
	b.shows("runs", "Runs - evald")
	b.do(chromedp.Reload())
	b.until("document.querySelectorAll('#run-chart canvas').length > 0")
	b.shows("runs", "Runs - evald")
	b.forward()
	b.shows("play", "Play - evald")
	b.at("7x6x4:-")
	b.tidy("")
}

// Back takes back a move and the reply to it, as Undo does, and Forward makes both again. A new game replaces the old one.
func TestPageBack(t *testing.T) {
	b := open(t, Config{Metrics: services(), Limits: Limits{Time: time.Second / 10}}, "/")
	b.says("#status", "Red to move: you")
	b.choose("agent", "beginner")
	var positions []string
	for i, action := range []int{3, 2, 3} {
		positions = append(positions, b.position())
		b.click(column(action))
		b.until(fmt.Sprintf("location.hash.split('&')[0].split(':')[1].length === %d", 2*(i+1)))
		b.until("/Yellow played .. Red to move/.test(document.getElementById('status').textContent)")
	}
	last := b.position()
	b.back()
	b.at(positions[2])
	b.until("/Yellow played .. Red to move: you/.test(document.getElementById('status').textContent)")
	b.back()
	b.at(positions[1])
	b.click("#undo")
	b.at(positions[0])
	b.forward()
	b.at(positions[1])
	b.click("#redo")
	b.at(positions[2])
	b.forward()
	b.at(last)
	b.click("#to-service")
	b.shows("service", "Status - evald")
	b.click("#to-play")
	b.at(last)
	b.click("#undo") // skips the other view
	b.at(positions[2])
	b.click("#new")
	b.at("7x6x4:-")
	b.says("#status", "Red to move: you")
	b.click(column(0))
	b.until("location.hash.split('&')[0].split(':')[1].length === 2")
	b.back()
	b.at("7x6x4:-")
	if entries := valueOf[int](b, "history.state.trail.length"); entries != 1 {
		t.Errorf("the new game begins %d entries after the page was opened, want at the first", entries)
	}
	b.tidy("")
}

// A link names the players by their levels, and no agent moves before the visitor does.
func TestPageShared(t *testing.T) {
	b := open(t, Config{}, "/#7x6x4:444&red=person&yellow="+url.QueryEscape(play.Levels[0].Agent.String()))
	b.says("#status", "Red played 4. Yellow waits: beginner")
	b.says("#shared", "Red is a person, Yellow is beginner. No move is made until you play on.")
	b.until("/solved in 0.5 s/.test(document.getElementById('exact-text').textContent)") // everything that was requested has arrived
	b.at("7x6x4:444")
	b.picture("shared")
	b.mu.Lock()
	if slices.ContainsFunc(b.requests, func(url string) bool { return strings.HasSuffix(url, "/ui/move") }) {
		t.Error("a move was asked for")
	}
	b.mu.Unlock()
	b.tidy("")
	b.click("#go")
	b.until("/Yellow played .. Red to move: you/.test(document.getElementById('status').textContent)")
	b.until("document.getElementById('shared').hidden") // the game is no longer a link's
	if hash := valueOf[string](b, "location.hash"); !regexp.MustCompile(`^#7x6x4:444.&red=person&yellow=beginner$`).MatchString(hash) {
		t.Errorf("the address ends in %q", hash)
	}
	for link, want := range map[string]string{
		"7x6x4:44&red=solver%3Arandom%3Dtrue&yellow=person": "Red is solver:random=true, Yellow is a person",
		"7x6x4:45&red=random&yellow=random":                 "Red is random, Yellow is random",
		"7x6x4:1212121&red=person&yellow=person":            "Red is a person, Yellow is a person.",
		"7x6x4:46":                                          "This position comes from a link, which does not say who plays.",
	} {
		b.run(fmt.Sprintf("location.hash = %q", link))
		b.at(strings.Split(link, "&")[0])
		b.says("#shared", want)
		if over := strings.Contains(link, "1212121"); over == strings.Contains(b.text("#shared"), "play on") {
			t.Errorf("%s: %q", link, b.text("#shared"))
		}
	}
}

// A move on the board of a link continues the game, by any device: the agent moves first if it is
// its turn, and then the visitor's move is made. If the link does not say who plays, the visitor
// moves for the side to move.
func TestPageSharedMove(t *testing.T) {
	b := open(t, Config{Limits: Limits{Time: time.Second / 10}}, "/#7x6x4:-", chromedp.EmulateViewport(1280, 1000, chromedp.EmulateTouch))
	b.at("7x6x4:-")
	b.run(`for (const id of ["evaluate", "solve"]) { document.getElementById(id).click(); }`) // the test needs no opinions
	const waits = "7x6x4:4444422&red=person&yellow=random"
	focus := func(action int) { b.do(chromedp.Focus(chromedp.CSS(column(action)))) }
	for name, play := range map[string]func(){
		"mouse": func() { b.click(column(2)) },
		"touch": func() {
			at := valueOf[[]float64](b, fmt.Sprintf("((r) => [r.left + r.width / 2, r.top + r.height / 2])(document.querySelector(%q).getBoundingClientRect())", column(2)))
			b.do(command(input.DispatchTouchEvent, input.DispatchTouchEventParams{Type: input.DispatchTouchEventTypeTouchStart, TouchPoints: []*input.TouchPoint{{X: at[0], Y: at[1]}}}),
				command(input.DispatchTouchEvent, input.DispatchTouchEventParams{Type: input.DispatchTouchEventTypeTouchEnd, TouchPoints: []*input.TouchPoint{}}))
		},
		"Enter":              func() { focus(2); b.press(kb.Enter) },
		"a key on the board": func() { focus(5); b.press("3") },
		"a key elsewhere":    func() { b.run("document.activeElement.blur()"); b.press("3") },
	} {
		for link, want := range map[string]string{
			waits:                                   `^#7x6x4:4444422.3.*&red=person&yellow=random$`,
			"7x6x4:444442&red=person&yellow=random": `^#7x6x4:4444423.*&red=person&yellow=random$`,
			"7x6x4:44444":                           `^#7x6x4:444443.*&red=.*&yellow=person$`,
			"7x6x4:5555&red=random&yellow=random":   `^#7x6x4:5555..*&red=random&yellow=random$`,
		} {
			if name != "mouse" && link != waits {
				continue
			}
			b.run(fmt.Sprintf("location.hash = %q", link))
			b.at(strings.Split(link, "&")[0])
			b.until("!document.getElementById('shared').hidden && document.querySelectorAll('#board button[aria-disabled=false]').length > 5")
			play()
			b.until(fmt.Sprintf("/%s/.test(location.hash)", want))
			if !strings.Contains(link, "5555") {
				b.until("/you$|wins|draw/.test(document.getElementById('status').textContent)")
			}
		}
	}
	// The same after Back to a position in which the agent is to move, and after a reload there.
	b.run("location.hash = '7x6x4:44&red=person&yellow=random'")
	b.at("7x6x4:44")
	b.run("location.hash = '7x6x4:444&red=person&yellow=random'")
	b.at("7x6x4:444")
	b.click("#to-learn")
	b.click("#to-puzzles")
	b.back()
	b.back()
	b.at("7x6x4:444")
	b.do(chromedp.Reload())
	b.says("#status", "Yellow waits: random")
	b.tidy("shared_waits")
	b.click(column(0))
	b.until(`/^#7x6x4:444.1/.test(location.hash)`)
}

// Of a broken link the legal part is kept, and the page says what was dropped.
func TestPageBroken(t *testing.T) {
	b := open(t, Config{}, "/#7x6x4:4489&red=person&yellow=strong")
	b.says("#problem", `This link is broken: moves "4489": move 3 is "8", not one of 1 to 7; the 2 moves before it are kept.`)
	b.at("7x6x4:44")
	b.says("#shared", "Red is a person, Yellow is strong")
	b.run("location.hash = '7x6x4:5&red=random&yellow=beginner'")
	b.says("#problem", "beginner cannot play Yellow")
	b.at("7x6x4:5")
	b.run("location.hash = 'nowhere'")
	b.says("#problem", `move 1 is "n"`)
	b.at("7x6x4:-")
	b.tidy("")
}

// A link that is followed while the answer to an earlier request is on its way is not lost.
func TestHistoryWhileAnswering(t *testing.T) {
	b := open(t, Config{}, "/")
	b.at("7x6x4:-")
	b.run(`{
		const answer = fetch;
		window.fetch = async (...request) => {
			const arrived = await answer(...request);
			if (location.hash === "#7x6x4:4") {
				location.hash = "7x6x4:44";
			}
			return arrived;
		};
		location.hash = "7x6x4:4";
	}`)
	b.at("7x6x4:44")
	b.says("#status", "Red to move")
}
