package web

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/google/go-cmp/cmp"
)

// record returns the list of moves, one line each. The one on the board is preceded by *.
func (b *tab) record() []string {
	b.t.Helper()
	return valueOf[[]string](b, `[...document.querySelectorAll("#record button")].map((e) => (e.ariaCurrent === "step" ? "*" : "") + e.textContent.replace(/\s+/g, " ").trim())`)
}

// The list shows each move and the value after it. Choosing a move goes back to it and keeps those after it.
func TestPageRecord(t *testing.T) {
	b := open(t, Config{Limits: Limits{Time: time.Second / 10}}, "/#7x6x4:4455&red=person&yellow=person")
	worth := `document.querySelectorAll("#record .worth")`
	b.until(fmt.Sprintf(`%[1]s.length === 5 && [...%[1]s].every((e) => /^(≈|■) /.test(e.textContent))`, worth))
	want := []string{"Start", "1. Red 4", "2. Yellow 4", "3. Red 5", "*4. Yellow 5"}
	for i, line := range b.record() {
		if !regexp.MustCompile("^" + regexp.QuoteMeta(want[i]) + `( (≈ (Red \d+%|Yellow \d+%|even) estimate|■ (Red wins|draw|Yellow wins) exact))$`).MatchString(line) {
			t.Errorf("line %d is %q, want %q and a value", i, line, want[i])
		}
	}
	b.click("#record li:nth-child(3) button")
	b.at("7x6x4:44")
	b.says("#status", "Yellow played 4. Red to move")
	if got := b.record(); len(got) != 5 || !strings.HasPrefix(got[2], "*2. Yellow 4") {
		t.Errorf("the record after going back is %q", got)
	}
	b.do(chromedp.Focus(chromedp.CSS("#record [aria-current]")))
	b.press(kb.ArrowRight)
	b.at("7x6x4:445")
	b.until(`document.activeElement.textContent.startsWith("3.")`)              // the focus goes with the game
	b.until(`document.querySelectorAll("#record [tabindex='0']").length === 1`) // the record is one stop in the order of tabs
	b.press(kb.End)
	b.press(" ")
	b.at("7x6x4:4455")
	b.back()
	b.at("7x6x4:445")
	b.tidy("")
	b.click(column(0))
	b.at("7x6x4:4451")
	if got := b.record(); len(got) != 5 || !strings.HasPrefix(got[4], "*4. Yellow 1") {
		t.Errorf("the record after another move is %q", got)
	}
}

// The evaluation of a finished game is its result, and the curve covers the whole game, even if a link led to it.
func TestPageEnd(t *testing.T) {
	for moves, want := range map[string][3]string{
		"7x6x4:1212121":  {"Red has won", "Red wins: the result", "*7. Red 1 ■ Red wins exact"},
		"7x6x4:71212121": {"Yellow has won", "Yellow wins: the result", "*8. Yellow 1 ■ Yellow wins exact"},
		"2x1x2:12":       {"draw", "draw: the result", "*2. Yellow 2 ■ draw exact"},
	} {
		b := open(t, Config{}, "/#"+moves)
		b.says("#wdl-text", want[0])
		b.says("#exact-text", want[1])
		positions := len(moves) - len("7x6x4:") + 1
		b.until(fmt.Sprintf(`(document.querySelector("#curve path")?.getAttribute("d").match(/[ML]/g).length) === %d`, positions))
		record := b.record()
		if diff := cmp.Diff(want[2], record[len(record)-1]); diff != "" {
			t.Errorf("the last move (-want +got):\n%s", diff)
		}
		if label := valueOf[string](b, `document.querySelector("#curve svg").getAttribute("aria-label")`); !strings.HasSuffix(label, strings.TrimSuffix(strings.Join(strings.Fields(want[2])[4:], " "), " exact")+" (exact)") {
			t.Errorf("the curve is called %q", label)
		}
		if moves == "7x6x4:1212121" {
			b.picture("end")
		}
		b.tidy("")
	}
}

// The page says if exact scores take too long, and continues on request without losing those that were found.
func TestPageExact(t *testing.T) {
	b := open(t, Config{}, "/")
	b.until(`document.getElementById("exact-text").textContent === "No move was solved in 0.5 s: exact scores take longer where so much of the board is empty."`)
	b.until(`document.getElementById("solve-on").innerText === "Look further"`)
	b.tidy("exact_later")
	b.click("#solve-on")
	b.until(`document.getElementById("exact-text").textContent.startsWith("No move was solved in 1 s")`)
	// A fake server that finds two scores, and the others when asked again.
	b.run(`window.asked = []; const real = fetch; window.fetch = (path, options) => {
		if (path !== "/ui/analyze") { return real(path, options); }
		const {known} = JSON.parse(options.body);
		asked.push(known ?? null);
		const scores = known ? [-2, -1, 0, 1, 0, -1, -2] : [null, null, 0, 1, null, null, null];
		const exact = {type: "exact", scores, solved: known ? 7 : 2, legal: 7, done: !!known};
		return Promise.resolve(new Response([exact, {type: "end"}].map((x) => JSON.stringify(x) + "\n").join("")));
	}; location.hash = "7x6x4:44"`)
	b.says("#exact-text", "2 of 7 moves solved in 0.5 s. Best of them: 4, Red wins in 20.")
	row := `[...document.querySelectorAll("#opinions > [role=row]:nth-child(4) > [role=cell] > span:not(.unseen)")].map((e) => e.textContent).join()`
	if got := valueOf[string](b, row); got != ",,draw,R in 20,,," {
		t.Errorf("the scores are %q", got)
	}
	b.click("#solve-on")
	b.says("#exact-text", "Red wins in 20. Best: 4")
	if got := valueOf[string](b, row); got != "Y in 19,Y in 20,draw,R in 20,draw,Y in 20,Y in 19" {
		t.Errorf("the scores in the end are %q", got)
	}
	b.until("JSON.stringify(asked) === '[null,[null,null,0,1,null,null,null]]'")
	b.until(`document.getElementById("solve-on").hidden`) // nothing is left to look for
}
