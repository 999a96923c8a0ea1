package web

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/evald/evald/cmd/evald/internal/play"
	"github.com/evald/evald/engine/game/gametest"
)

// Every marked word explains itself: to the pointer, to the keyboard, and to screen readers.
func TestPageWords(t *testing.T) {
	b := open(t, Config{Metrics: services(), Runs: metrics(t)}, "/#7x6x4:44")
	b.until("/positions tried/.test(document.getElementById('search-text').textContent)")
	if text := b.text("#about"); !strings.HasPrefix(text, "Play Connect Four") || strings.Count(text, ".") != 1 {
		t.Errorf("the page says of itself %q", text)
	}
	for _, view := range []string{"", "service", "runs"} {
		if view != "" {
			b.click("#to-" + view)
			b.until("document.querySelectorAll('#" + view + " svg, #" + view + " tbody tr').length > 0")
		}
		mute := valueOf[[]string](b, `[...document.querySelectorAll("abbr")].filter((e) => e.tabIndex !== 0 ||
			!(document.getElementById(e.getAttribute("aria-describedby"))?.textContent.length > 20)).map((e) => e.textContent)`)
		if len(mute) > 0 {
			t.Errorf("view %q: words without an explanation: %q", view, mute)
		}
		metric := valueOf[[]string](b, `[...document.querySelectorAll("h2, h3, .legend span, .help, svg")].map((e) => e.getAttribute("aria-label") ?? e.textContent).filter((s) => /_|nv_|evald_/.test(s))`)
		if view != "" && len(metric) > 0 {
			t.Errorf("view %q: names of metrics for words: %q", view, metric)
		}
	}
	b.click("#to-play")
	b.do(chromedp.Focus(chromedp.CSS("#thoughts abbr[data-word=exact]")))
	b.until("!document.getElementById('tip').hidden")
	if text := b.text("#tip"); !strings.Contains(text, "0 is a draw") {
		t.Errorf("the word's explanation is %q", text)
	}
	b.tidy("word")
	b.press(kb.Escape)
	b.until("document.getElementById('tip').hidden")
	b.run(`document.activeElement.blur(); document.querySelector("#thoughts abbr[data-word=search]").dispatchEvent(new PointerEvent("pointerover", {bubbles: true}))`)
	b.says("#tip", "looks ahead")
	b.run(`document.body.dispatchEvent(new PointerEvent("pointerover", {bubbles: true}))`)
	b.until("document.getElementById('tip').hidden")
	b.click("footer summary")
	b.says("#words", "Critical positions")
	b.tidy("")
}

// Opponents are named by their levels.
func TestPageLevels(t *testing.T) {
	b := open(t, Config{Networks: []string{"mine"}, Limits: Limits{Time: 10 * time.Second}}, "/")
	b.says("#status", "Red to move: you")
	texts := valueOf[[]string](b, `[...document.querySelectorAll("#agent option")].map((e) => e.textContent)`)
	for i, l := range play.Levels {
		if want := fmt.Sprintf("%s, Elo %d on 7x6", l.Name, l.Elo); i >= len(texts) || texts[i] != want {
			t.Errorf("the opponents are %q; number %d must be %q", texts, i, want)
		}
		b.choose("agent", l.Name)
		if got, want := b.text("#agent-sees"), strings.ToUpper(l.CannotSee[:1])+l.CannotSee[1:]+"."; got != want {
			t.Errorf("%s: the page says %q, want %q", l.Name, got, want)
		}
	}
	b.choose("agent", "strong")
	for _, text := range texts {
		if strings.Contains(text, "=") {
			t.Errorf("%q is no name for people", text)
		}
	}
	b.run(fmt.Sprintf(`document.getElementById("agent-text").value = %q`, gametest.Must(play.ParseAgent("strong"))(t)))
	b.choose("agent", "other")
	b.until(`location.hash === "#7x6x4:-&red=person&yellow=strong"`)
	b.click(column(3))
	b.says("#status", "Yellow thinks: strong")
}
