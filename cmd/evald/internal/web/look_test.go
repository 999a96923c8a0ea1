package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/google/go-cmp/cmp"

	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/solver"
)

// The list of moves and the curve show results where the solver knows them, and tell them from estimates by more than colour.
func TestPageExactMoves(t *testing.T) {
	c := Config{Agents: agent.Shared{Ships: solver.ShippedBook}}
	b := open(t, c, "/#7x6x4:1234567712")
	b.until(`document.querySelectorAll("#record button").length === 11 && [...document.querySelectorAll("#record button")].every((e) => e.textContent.includes("exact"))`)
	record := b.record()
	for i, want := range map[int]string{0: "Start ■ Red wins exact", 6: "6. Yellow 6 ■ Red wins exact", 8: "8. Yellow 7 ■ draw exact"} {
		if record[i] != want {
			t.Errorf("line %d is %q, want %q", i, record[i], want)
		}
	}
	marks := func() []int {
		return valueOf[[]int](b, `["rect.sure", "circle", "path.sure", "path.guess"].map((s) => document.querySelectorAll("#curve " + s).length)`)
	}
	if got := marks(); !slices.Equal(got, []int{11, 0, 1, 1}) {
		t.Errorf("the curve has %v exact points, estimates, and lines of both", got)
	}
	b.says(".marks", "■ exact ○ ≈ estimate")
	b.tidy("exact_moves")
	b.run("location.hash = '9x7x5:12345'")
	b.until(`document.querySelectorAll("#record .worth").length === 6 && [...document.querySelectorAll("#record .worth")].every((e) => e.textContent.startsWith("≈"))`)
	if got := marks(); !slices.Equal(got[:2], []int{0, 6}) {
		t.Errorf("of a game that is not solved the curve has %v", got)
	}
}

// All opinions are Red's and Yellow's chances, whichever side is to move, in the players' colours and in words.
func TestPageViewpoint(t *testing.T) {
	b := open(t, Config{}, "/")
	for i, moves := range []string{"44", "445"} { // Red's turn, then Yellow's
		b.run("location.hash = '7x6x4:" + moves + "'")
		b.at("7x6x4:" + moves)
		_, p, err := parseOngoing(moves)
		gametest.OK(t, err)
		board, _, _ := parsePosition(moves)
		wdl := evaluated(t, b.h, board, p).WDL
		if i == 1 {
			slices.Reverse(wdl)
		}
		b.says("#wdl-text", fmt.Sprintf("Red %.0f%%, draw %.0f%%, Yellow %.0f%%", 100*wdl[0], 100*wdl[1], 100*wdl[2]))
		got := valueOf[[]string](b, `[...document.querySelectorAll("#wdl i")].map((e) => e.className + " " + Math.round(parseFloat(e.style.width)))`)
		if diff := cmp.Diff([]string{fmt.Sprintf("red %.0f", 100*wdl[0]), fmt.Sprintf("even %.0f", 100*wdl[1]), fmt.Sprintf("yellow %.0f", 100*wdl[2])}, got); diff != "" {
			t.Errorf("%s: the bar (-want +got):\n%s", moves, diff)
		}
		b.until(`/^(Red|Yellow) \d+%|^Even/.test(document.getElementById("search-text").textContent)`)
		if text := b.text("body"); strings.Contains(text, "side to move") || strings.Contains(text, "for Red") {
			t.Errorf("the page has another viewpoint: %q", text)
		}
	}
	if pattern := valueOf[string](b, `getComputedStyle(document.querySelector("#wdl .yellow")).backgroundImage`); !strings.Contains(pattern, "gradient") {
		t.Errorf("only colour tells the sides of the bar apart: %q", pattern)
	}
}

// box is where an element is in the window.
type box struct{ Left, Top, Right, Bottom float64 }

// boxes returns where elements are, in the page.
func (b *tab) boxes(selectors ...string) map[string]box {
	b.t.Helper()
	all := map[string]box{}
	list := gametest.Must(json.Marshal(selectors))(b.t)
	at := valueOf[[][4]float64](b, fmt.Sprintf(`%s.map((s) => ((r) => [r.left + scrollX, r.top + scrollY, r.right + scrollX, r.bottom + scrollY].map(Math.round))(document.querySelector(s).getBoundingClientRect()))`, list)) // at one moment
	for i, s := range selectors {
		all[s] = box{at[i][0], at[i][1], at[i][2], at[i][3]}
	}
	return all
}

// size is a window of that many pixels.
func size(width, height int64) chromedp.Action[chromedp.Void] {
	return chromedp.EmulateViewport(width, height)
}

// The board and its buttons are in sight without scrolling, on a screen also the exact scores.
func TestPageFits(t *testing.T) {
	for _, c := range []struct {
		width, height int64
		inSight       []string
	}{
		{1280, 800, []string{"#board", "#opinions", ".buttons", "#hint-text"}},
		{390, 844, []string{"#board", "#opinions", ".buttons"}},
		{844, 390, []string{"#board", ".buttons", "#hint-text"}},
		{640, 360, []string{"#board", ".buttons", "#hint-text"}},
	} {
		b := open(t, Config{}, "/#7x6x4:4455&red=person&yellow=person", size(c.width, c.height))
		b.until("/tried/.test(document.getElementById('search-text').textContent)")
		for name, at := range b.boxes(c.inSight...) {
			if at.Bottom > float64(c.height) || at.Right > float64(c.width) || at.Left < 0 || at.Top < 0 {
				t.Errorf("%d x %d: %s is at %v", c.width, c.height, name, at)
			}
		}
		b.tidy(fmt.Sprintf("fits_%dx%d", c.width, c.height))
	}
	// Boards of few cells have larger ones.
	b := open(t, Config{}, "/#3x3x3free:5", size(1280, 800))
	b.at("3x3x3free:5")
	if at := b.boxes("#board")["#board"]; at.Right-at.Left < 350 || at.Bottom > 650 {
		t.Errorf("the board of tic-tac-toe is at %v", at)
	}
}

// All views can be chosen on a small phone without scrolling sideways, in each language.
func TestPageViewsInSight(t *testing.T) {
	for _, language := range []string{"en", "de"} {
		c := Config{Metrics: services(), Runs: metrics(t)}
		b := open(t, c, "/#drill", chromedp.EmulateViewport(320, 640, chromedp.EmulateMobile, chromedp.EmulateTouch))
		b.choose("language", language)
		b.until(fmt.Sprintf(`document.documentElement.lang === %q && document.getElementById("drill-said").textContent.length > 10`, language))
		outside := `[...document.querySelectorAll("nav a")].filter((e) => { const at = e.getBoundingClientRect(); return at.left < 0 || at.right > 320; }).map((e) => e.id)`
		if hidden := valueOf[[]string](b, outside); len(hidden) > 0 {
			t.Errorf("in %s the links %q are not in sight", language, hidden)
		}
		b.tidy("views_" + language)
	}
}

// Nothing moves during a game: not at moves, hints, messages, or as results arrive.
func TestPageStill(t *testing.T) {
	for _, window := range [][2]int64{{1280, 800}, {390, 844}} {
		b := open(t, Config{Limits: Limits{Time: time.Second / 5}}, "/", size(window[0], window[1]))
		b.says("#status", "Red to move: you")
		b.agent("random")
		all := []string{"#board", "#opinions", ".buttons", "#hint-text", ".thought", "#curve", "#record", "#setup"}
		want := b.boxes(all...)
		still := func(when string) {
			t.Helper()
			if diff := cmp.Diff(want, b.boxes(all...)); diff != "" {
				t.Errorf("%v: %s (-before +after):\n%s", window, when, diff)
			}
		}
		for move, action := range []int{0, 1, 3, 5} {
			b.until("/solved in|Best: /.test(document.getElementById('exact-text').textContent)")
			still(fmt.Sprintf("after %d moves", 2*move))
			b.click("#hint")
			b.until("/best/i.test(document.getElementById('hint-text').textContent) && !/Looking/.test(document.getElementById('hint-text').textContent)")
			still("with a hint")
			b.run(`document.getElementById("problem").hidden = false; document.getElementById("problem").textContent = "A problem."`)
			still("with a problem")
			b.click(column(action))
			b.until(fmt.Sprintf(`/Yellow played .. Red to move/.test(document.getElementById("status").textContent) && location.hash.split("&")[0].length === %d`, len("#7x6x4:")+2*(move+1)))
		}
		b.click("#undo")
		b.says("#status", "Red to move")
		still("after Undo")
	}
}

// pixels returns what the window shows.
func (b *tab) pixels() image.Image {
	b.t.Helper()
	shot := gametest.Must(chromedp.Run(b.ctx, chromedp.CaptureScreenshot()))(b.t)
	return gametest.Must(png.Decode(bytes.NewReader(shot)))(b.t)
}

// A stone falls behind the board. Visitors who want no motion see none.
func TestPageStoneFalls(t *testing.T) {
	b := open(t, Config{Limits: Limits{Time: time.Second / 10}}, "/", size(1280, 800))
	b.says("#status", "Red to move: you")
	b.choose("side", "both")
	b.says("#status", "Red to move")
	// Halts each animation of a stone between the first two cells from the bottom.
	b.run(`document.addEventListener("animationstart", (e) => { const a = e.target.getAnimations()[0]; a.pause(); a.effect.updateTiming({easing: "linear"}); a.currentTime = a.effect.getTiming().duration * 0.917; document.body.dataset.halted = "yes"; })`)
	b.click(column(3))
	b.until("document.body.dataset.halted === 'yes'")
	at := valueOf[[]int](b, `((r) => [r.left + r.width / 2, r.top, r.top - r.height / 4].map(Math.round))(document.querySelector("#board > button:nth-child(4) > .cell:last-child").getBoundingClientRect())`)
	stone := b.boxes(".hole.s1")[".hole.s1"]
	if float64(at[1]) < stone.Top || float64(at[1]) > stone.Bottom {
		t.Fatalf("the stone is at %v, not between the cells at %v", stone, at)
	}
	shown := b.pixels()
	isRed := func(x, y int) bool {
		r, g, bl, _ := shown.At(x, y).RGBA()
		return r > 2*g && r > 2*bl
	}
	if isRed(at[0], at[1]) {
		t.Error("the stone is before the board")
	}
	if !isRed(at[0], at[2]) {
		t.Error("the stone is not seen through the cell that it passes")
	}
	still := command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-reduced-motion", Value: "reduce"}}})
	b = open(t, Config{}, "/", still)
	b.says("#status", "Red to move: you")
	b.click(column(3))
	b.says("#status", "Red played 4")
	if n := valueOf[int](b, "document.getAnimations().length"); n != 0 {
		t.Errorf("%d animations for a visitor who wants none", n)
	}
}
