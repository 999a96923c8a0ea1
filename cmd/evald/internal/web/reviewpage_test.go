package web

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/solver"
)

// reviewConfig is a page that knows the first plies of Connect Four, and has time enough for all of a game's scores.
func reviewConfig() Config {
	return Config{Agents: agent.Shared{Ships: solver.ShippedBook}, Limits: Limits{Time: time.Minute, Review: time.Minute}}
}

// reviewedGame has mistakes of both sides.
const reviewedGame = "7371311325657771745663464"

// A game is reviewed from a link, and its mistakes are visited by buttons.
func TestPageReview(t *testing.T) {
	b := open(t, reviewConfig(), "/#review=7x6x4:"+reviewedGame)
	b.says("#review-status", "25 moves reviewed. Mistakes: Red ")
	b.until("document.querySelectorAll('#review-graph circle.proved').length === 26")
	wrong := valueOf[[]string](b, "[...document.querySelectorAll('#review-moves .wrong')].map((e) => e.innerText)")
	marks := valueOf[int](b, "document.querySelectorAll('#review-graph path.mistake').length")
	if len(wrong) == 0 || len(wrong) != marks {
		t.Fatalf("mistakes %q in the list, %d in the graph", wrong, marks)
	}
	// The first mistake is on the board, with its reason.
	b.until("document.querySelector('#review-moves .wrong[aria-current]') === document.querySelector('#review-moves .wrong')")
	b.says("#review-reason", "Best was: ")
	b.tidy("review")
	for range len(wrong) - 1 {
		before := b.text("#review-caption")
		b.click("#review-next")
		b.until(fmt.Sprintf("document.getElementById('review-caption').textContent !== %q && !document.getElementById('review-why').hidden", before))
	}
	b.until("document.getElementById('review-next').ariaDisabled === 'true' && document.querySelector('#review-moves li:last-child') !== null")
	b.until("[...document.querySelectorAll('#review-moves .wrong')].at(-1).ariaCurrent === 'step'")
	b.click("#review-before")
	b.until("[...document.querySelectorAll('#review-moves .wrong')].at(-2).ariaCurrent === 'step'")
	b.says("#review-accuracy", "%")
	b.says("#review-accuracy", "the share that did not")
	// A mistake that cost the result comes back among the puzzles.
	b.says("#review-reason", "Best was: ")
	for valueOf[bool](b, "document.getElementById('review-remember').hidden") {
		before := b.text("#review-caption")
		b.click("#review-before")
		b.until(fmt.Sprintf("document.getElementById('review-caption').textContent !== %q && document.getElementById('review-reason').textContent.includes('Best was')", before))
	}
	b.click("#review-remember")
	b.says("#review-remember", "will come back")
	if kept := valueOf[int](b, "Object.entries(localStorage).filter(([, text]) => text.includes(document.getElementById('review-retry').hash.slice(1))).length"); kept != 1 {
		t.Errorf("the mistake is kept %d times", kept)
	}
	// The line that refutes it, on the board.
	b.says("#review-reason", "Best was: ")
	b.click("#review-after")
	b.says("#review-caption", "What follows move ")
	b.click("#review-last")
	b.until("document.querySelectorAll('#review-board .won').length > 0 || document.getElementById('review-reason').textContent.includes('board fills')")
	b.tidy("review_line")
	b.click("#review-leave")
	b.until("document.getElementById('review-leave').hidden")
	// Another try at that position.
	to := valueOf[string](b, "document.getElementById('review-retry').hash")
	b.click("#review-retry")
	b.until("!document.getElementById('play').hidden")
	b.at(strings.TrimPrefix(to, "#"))
	b.says("#status", "waits")
	// And from the board back to the review of the moves so far.
	b.click("#review-this")
	b.says("#review-status", fmt.Sprintf("%d moves reviewed", len(strings.TrimPrefix(to, "#7x6x4:"))))
	b.tidy("")
}

// Moves and replays are pasted; what is wrong with them is said.
func TestPageReviewPaste(t *testing.T) {
	b := open(t, reviewConfig(), "/#review")
	b.until("document.activeElement.id === 'review-text'")
	b.do(chromedp.SendKeys(chromedp.CSS("#review-text"), "448"+kb.Enter))
	b.says("#problem", "move 3 is")
	b.run(`document.getElementById("review-text").value = ""`)
	b.do(chromedp.SendKeys(chromedp.CSS("#review-text"), "1212121"))
	b.click("#review-ask")
	b.says("#review-status", "7 moves reviewed")
	b.until("document.getElementById('problem').hidden && location.hash === '#review=7x6x4:1212121'")
	replay := string(gametest.Must(os.ReadFile("../pasted/testdata/replay-6x5x4.json"))(t))
	b.run(fmt.Sprintf("document.getElementById('review-text').value = JSON.stringify(JSON.parse(%q), null, 4)", replay))
	b.click("#review-ask")
	b.says("#review-status", "12 moves reviewed")
	b.until("location.hash === '#review=6x5x4:451316363656'")
	b.run("location.hash = '#review=1212121'") // a link without rules, whose address gets them
	b.says("#review-status", "7 moves reviewed")
	b.until("location.hash === '#review=7x6x4:1212121'")
	b.back()
	b.says("#review-status", "12 moves reviewed")
	b.back() // to the game before
	b.says("#review-status", "7 moves reviewed")
	b.forgive("400 (Bad Request)")
	b.tidy("")
}

// forgive drops complaints of the browser that a test expects.
func (b *tab) forgive(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	kept := b.wrong[:0]
	for _, s := range b.wrong {
		if !strings.Contains(s, text) {
			kept = append(kept, s)
		}
	}
	b.wrong = kept
}

// What decides a line, in words: lines of every kind, and mistakes that the next stone punishes.
func TestPageReviewWords(t *testing.T) {
	b := open(t, reviewConfig(), "/#review")
	for _, c := range []struct {
		game  string
		move  int
		words string
	}{
		{"7x6x4:121213", 6, "Red completes 4 in a row at once, in column 1, row 4. The move did not stop that."},
		{"7x6x4:1237172634", 10, "Red completes 4 in a row at once, in column 4, row 2. The move filled the cell below it."},
		{"7x6x4:4455", 4, "after one move Red threatens two cells, column"},
		{"7x6x4:" + reviewedGame, 20, "Yellow must play below a cell where Red completes 4 in a row: column 4, row 3. Red, who moved first, gets the cells of odd rows"},
		{"7x6x4:" + reviewedGame, 1, "Yellow answers each move in the same column, and so gets the cells of even rows (claimeven)."},
		{"3x3x3free:52", 2, "Red threatens two cells"},
	} {
		b.run(fmt.Sprintf("location.hash = '#review=%s'", c.game))
		_, moves, err := parsePosition(c.game)
		gametest.OK(t, err)
		b.until(fmt.Sprintf("location.hash.endsWith(%q) && document.querySelectorAll('#review-moves li').length === %d && !document.getElementById('review-result').hidden", c.game, len(moves)+1))
		b.click(fmt.Sprintf("#review-moves li:nth-child(%d) button", c.move+1))
		b.says("#review-reason", c.words)
	}
	b.tidy("")
}

// All of a review by the keyboard alone.
func TestPageReviewKeys(t *testing.T) {
	b := open(t, reviewConfig(), "/#review")
	b.until("document.activeElement.id === 'review-text'")
	b.press("7x6x4:" + reviewedGame + kb.Enter)
	b.says("#review-status", "25 moves reviewed")
	for range 8 { // from the text to the board
		if valueOf[string](b, "document.activeElement.id") == "review-board" {
			break
		}
		b.press(kb.Tab)
	}
	b.until("document.activeElement.id === 'review-board'")
	b.press(kb.Home)
	b.says("#review-caption", "Start")
	b.press(kb.ArrowRight)
	b.says("#review-caption", "Move 1: Red plays 7")
	b.until("document.getElementById('review-board').ariaLabel.startsWith('Move 1: Red plays 7. Column 7, from the bottom: Red')")
	b.press(kb.Home + "n")
	b.until("document.querySelector('#review-moves .wrong').ariaCurrent === 'step'")
	b.says("#review-reason", "Best was: ")
	b.press("w")
	b.says("#review-caption", "What follows move")
	b.press(kb.End)
	b.press(kb.Escape)
	b.until("document.getElementById('review-leave').hidden")
	b.press("b")
	b.says("#review-caption", "Better than move")
	b.press(kb.Escape)
	b.press("p")
	b.press(kb.End)
	b.says("#review-caption", "Move 25: ")
	b.says("#review-value", "has won")
	b.until("document.querySelectorAll('#review-board .won').length >= 4")
	b.tidy("review_end")
}

func light() chromedp.Action[chromedp.Void] {
	return command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "light"}}})
}

// A review that could not prove everything says so, marks likely mistakes as estimates, and continues where it was.
func TestPageReviewFurther(t *testing.T) {
	c := reviewConfig()
	c.Limits.Time = time.Minute
	// The first answer is made one that has proved nothing, and whose search thinks that Red's first move gives something away.
	b := open(t, c, "/#review=6x5x4:11132663352515624646", onEachPage(`{
		const real = fetch;
		let first = true;
		window.fetch = async (path, options) => {
			const answer = await real(path, options);
			if (path !== "/ui/review" || !first) { return answer; }
			first = false;
			const game = await answer.json();
			game.moves.forEach((m) => { m.mark = "unproved"; });
			game.positions.forEach((p, i) => Object.assign(p, { least: -1, most: 1, in: 0, value: i ? -0.25 : 0.25 }));
			game.further = { scores: game.positions.map(() => [-30, 30]), limit: 0 };
			return new Response(JSON.stringify(game));
		};
	}`))
	b.says("#review-status", "20 moves reviewed. Mistakes: Red 0, Yellow 0. Not proved: 20 moves. Likely mistakes among them, by the search's opinion: 1.")
	if text := b.text("#review-moves li:nth-child(2)"); !strings.Contains(text, "≈ −25%") {
		t.Errorf("the first move is %q", text)
	}
	b.tidy("review_unproved")
	b.click("#review-back")
	at := b.text("#review-caption")
	b.click("#review-further")
	b.until(`/moves reviewed/.test(document.getElementById("review-status").textContent)`)
	if text := b.text("#review-status"); strings.Contains(text, "Not proved") || b.text("#review-caption") != at || !valueOf[bool](b, `document.getElementById("review-further").hidden`) {
		t.Errorf("in the end the review says %q, at %q, before %q", text, b.text("#review-caption"), at)
	}
	b.tidy("review_proved")
}

// A review on small screens, in dark colours, in German, and of boards that are not proved.
func TestPageReviewPhone(t *testing.T) {
	small := chromedp.EmulateViewport(320, 640, chromedp.EmulateMobile, chromedp.EmulateTouch)
	b := open(t, reviewConfig(), "/#review=7x6x4:"+reviewedGame, small, dark())
	b.says("#review-reason", "Best was: ")
	b.tidy("review_320_dark")
	b.choose("language", "de")
	b.says("#review-reason", "Am besten war: ")
	b.says("#review-status", "25 Züge analysiert")
	b.tidy("review_320_german")
	b.do(light())
	b.tidy("review_320_light")
	if tiny := valueOf[[]string](b, "[...document.querySelectorAll('#review button, #review a, #review textarea')].filter((e) => e.offsetParent && Math.min(e.offsetWidth, e.offsetHeight) < 36).map((e) => e.id || e.textContent)"); len(tiny) > 0 {
		t.Errorf("too small for a finger: %q", tiny)
	}
	c := reviewConfig()
	c.Limits.Review = time.Second / 2
	b = open(t, c, "/#review=7x6x4:-", small, light())
	b.choose("language", "de")
	b.says("#to-review", "Analyse")
	for _, game := range []string{"9x7x5:5545464637382", "7x7x5free:pqst", "16x6x4:1234567g", "3x3x3free:5123", "7x6x4:-"} {
		b.run(fmt.Sprintf("location.hash = '#review=%s'", game))
		b.until(fmt.Sprintf("location.hash === '#review=%s' && document.getElementById('review-status').textContent.includes('analysiert. ')", game))
		rules, _, _ := strings.Cut(game, ":")
		b.tidy("review_" + rules)
		if free := strings.HasSuffix(rules, "5free"); free {
			b.until("document.querySelectorAll('#review-graph path.opinion').length > 0 && document.querySelectorAll('#review-graph path.range').length > 0")
			b.says("#review-value", "nicht bewiesen")
		}
	}
}
