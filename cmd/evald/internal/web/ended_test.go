package web

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/solver"
)

// The first screen gives nothing away: a board, an opponent to choose, and no value. A button shows the values, and the browser keeps the choice.
func TestPageQuiet(t *testing.T) {
	b := open(t, Config{}, "/", newcomer)
	b.at("7x6x4:-")
	b.click(column(3))
	b.until(`document.querySelectorAll("#record button").length === 3`)
	hidden := func() []string {
		return valueOf[[]string](b, `["#opinions", ".thought", "#curve", "#record .worth"].filter((s) => document.querySelector(s).getClientRects().length > 0)`)
	}
	if seen := hidden(); len(seen) > 0 {
		t.Errorf("a new visitor sees %q", seen)
	}
	for _, url := range b.requests {
		if strings.HasSuffix(url, "/ui/analyze") || strings.HasSuffix(url, "/ui/values") {
			t.Errorf("without values the page asks for %s", url)
		}
	}
	for name, at := range b.boxes("#side", "#agent", "#board") {
		if at.Bottom > 1000 || at.Bottom < 1 {
			t.Errorf("%s is at %v", name, at)
		}
	}
	b.tidy("quiet")
	b.click("#values")
	b.says("#wdl-text", "%")
	if seen := hidden(); len(seen) != 4 {
		t.Errorf("with values the page shows %q", seen)
	}
	b.do(chromedp.Reload())
	b.says("#wdl-text", "%")
}

// A lost game says where it was lost, leads to the better move, and comes back as a puzzle on the next day.
func TestPageLost(t *testing.T) {
	tomorrow := onEachPage(`if (localStorage.tomorrow) { window.Date = class extends Date { constructor(...of) { super(...(of.length ? of : [Date.now() + 86400000])); } }; }`)
	c := Config{Agents: agent.Shared{Ships: solver.ShippedBook}}
	b := open(t, c, "/#7x6x4:44141424&red=person&yellow=strong", newcomer, tomorrow)
	b.says("#ended-text", "You lost. You were winning until move 3. It comes back as a puzzle tomorrow.")
	b.tidy("lost")
	b.click("#ended-review")
	b.says("#review-caption", "Move 3: Red plays 1")
	b.says("#review-mark", "turns a win into a loss")
	if at := valueOf[string](b, "location.hash"); at != "#review=7x6x4:44141424&move=3" {
		t.Errorf("the review has the address %s", at)
	}
	b.run(`location.hash = "#puzzles"`)
	b.says("#puzzle-review", "(0)")
	b.run(`localStorage.tomorrow = "yes"`)
	b.do(chromedp.Reload())
	b.says("#puzzle-review", "(1)")
	b.click("#puzzle-review")
	b.says("#puzzle-title", "mistake")
	b.says("#puzzle-status", "Red to move")
	b.tidy("mistake")
	b.click("#puzzle-board > button:nth-child(4)")
	b.says("#puzzle-verdict", "Right")
}

// A game that the visitor won, and one of two agents, have no such words.
func TestPageEnded(t *testing.T) {
	b := open(t, Config{}, "/#7x6x4:4142434&red=person&yellow=strong", newcomer)
	b.says("#ended-text", "You won.")
	b.run(`location.hash = "#7x6x4:4142434&red=random&yellow=random"`)
	b.until(`document.getElementById("ended").hidden`)
	b.tidy("")
}

// A board with gravity has the numbers of its columns below it, wherever it is.
func TestPageCoordinates(t *testing.T) {
	b := open(t, Config{}, "/", newcomer)
	for address, board := range map[string]string{"": "board", "#review=7x6x4:4455": "review-board", "#explore": "explore-board", "#drill": "drill-board", "#puzzles": "puzzle-board"} {
		b.run(fmt.Sprintf("location.hash = %q", address))
		b.until(fmt.Sprintf(`document.querySelector("#%[1]s + .names")?.textContent === "1234567" && document.querySelector("#%[1]s .cell")`, board))
		off := valueOf[float64](b, fmt.Sprintf(`(() => {
			const e = document.getElementById(%q), at = (x) => { const r = x.getBoundingClientRect(); return (r.left + r.right) / 2; };
			const cells = [...e.querySelectorAll(".cell")], names = [...e.nextElementSibling.children];
			const columns = [...new Set(cells.map(at).map(Math.round))];
			return Math.max(...names.map((n) => Math.min(...columns.map((c) => Math.abs(c - at(n))))));
		})()`, board))
		if off > 2 {
			t.Errorf("%s: a column's number is %v pixels away from it", board, off)
		}
	}
	b.run(`location.hash = "#3x3x3free:5"`)
	b.at("3x3x3free:5")
	if n := valueOf[int](b, `document.querySelectorAll("#board + .names > *").length`); n != 0 {
		t.Errorf("a game without gravity has %d numbers of columns", n)
	}
}
