package web

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/google/go-cmp/cmp"

	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/puzzle"
	"github.com/evald/evald/engine/solver"
)

// The puzzles are sent compressed to those who take that, and once only.
func TestPuzzleFile(t *testing.T) {
	gametest.OneGoroutine(t)
	h := handler(t, Config{})
	get := func(accept, tag string) *http.Response {
		r := httptest.NewRequest(http.MethodGet, "/ui/puzzles", nil)
		r.Header.Set("Accept-Encoding", accept)
		r.Header.Set("If-None-Match", tag)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Result()
	}
	tags := map[string]bool{}
	for accept, encoding := range map[string]string{"gzip, br": "gzip", "br;q=1, gzip;q=0.5": "gzip", "": "", "br, gzip;q=0": "", "gzip;q=0.0": "", "x-gzip": ""} {
		r := get(accept, "")
		body := gametest.Must(io.ReadAll(r.Body))(t)
		puzzles, err := puzzle.Read(bytes.NewReader(body))
		if got := r.Header.Get("Content-Encoding"); err != nil || len(puzzles) < 10_000 || got != encoding || bytes.HasPrefix(body, []byte("#")) != (encoding == "") {
			t.Errorf("Accept-Encoding %q: encoding %q, %d puzzles, %v", accept, got, len(puzzles), err)
		}
		if r.Header.Get("Vary") != "Accept-Encoding" || r.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
			t.Errorf("Accept-Encoding %q: headers %v", accept, r.Header)
		}
		tag := r.Header.Get("ETag")
		tags[encoding+tag] = true
		if again := get(accept, tag); again.StatusCode != http.StatusNotModified {
			t.Errorf("Accept-Encoding %q again: status %d", accept, again.StatusCode)
		}
	}
	if len(tags) != 2 {
		t.Errorf("two encodings have the tags %v", tags)
	}
}

// The view loads at most 250 kB when it is opened, and other views load none of its files.
func TestPuzzleWeight(t *testing.T) {
	b := open(t, Config{}, "/")
	b.says("#status", "Red to move")
	own := []string{"/ui/puzzles", "/ui/puzzles.js", "/ui/puzzleform.js", "/ui/follow.js", "/ui/store.js", "/ui/puzzles.css"}
	asked := func() string {
		b.mu.Lock()
		defer b.mu.Unlock()
		return strings.ReplaceAll(strings.Join(b.requests, " ")+" ", b.url, "")
	}
	for _, path := range own[:3] {
		if strings.Contains(asked(), path+" ") {
			t.Errorf("the view for play loads %s", path)
		}
	}
	b.click("#to-learn")
	b.click("#to-puzzles")
	b.says("#puzzle-status", "to move")
	weight := 0
	for _, path := range own {
		if !strings.Contains(asked(), path+" ") {
			t.Errorf("the view of puzzles does not load %s: it asked for %s", path, asked())
		}
		size := len(b.h.files[path].content)
		if path == "/ui/puzzles" {
			size = len(puzzle.Shipped())
		}
		t.Logf("%-20s %d", path, size)
		weight += size
	}
	t.Logf("%-20s %d", "all", weight)
	if weight > 250_000 {
		t.Errorf("the view weighs %d bytes", weight)
	}
}

// puzzled is a tab on the view of puzzles.
type puzzled struct {
	*tab
	known map[string]puzzle.Puzzle // by position, with the rules
}

func openPuzzles(t *testing.T, actions ...chromedp.Action[chromedp.Void]) puzzled {
	t.Helper()
	p := puzzled{open(t, Config{Metrics: services(), Runs: metrics(t), Agents: agent.Shared{Ships: solver.ShippedBook}, Limits: Limits{Time: 5 * time.Second}}, "/#puzzles", actions...), map[string]puzzle.Puzzle{}}
	for _, one := range gametest.Must(puzzle.Read(bytes.NewReader(puzzle.Shipped())))(t) {
		rules := one.Board.Rules()
		p.known[rules.String()+":"+game.FormatMoves(rules, one.Moves)] = one
	}
	p.ready()
	return p
}

// ready waits for an unanswered puzzle.
func (p puzzled) ready() {
	p.t.Helper()
	p.until("document.querySelector('#puzzle-board button[aria-disabled=false]') && document.getElementById('puzzle-verdict').hidden")
}

// at returns the position that Play on leads to.
func (p puzzled) at() string {
	p.t.Helper()
	place, _, _ := strings.Cut(valueOf[string](p.tab, "document.getElementById('puzzle-on').hash.slice(1)"), "&")
	return place
}

// current returns the puzzle that is shown.
func (p puzzled) current() puzzle.Puzzle {
	p.t.Helper()
	one, ok := p.known[p.at()]
	if !ok {
		p.t.Fatalf("%s is no puzzle", p.at())
	}
	return one
}

// play plays a move by its number on the keyboard.
func (p puzzled) play(action int) {
	p.t.Helper()
	p.do(chromedp.Focus(chromedp.CSS("#puzzle-board button[tabindex='0']")))
	p.press(fmt.Sprint(action + 1))
	p.until("!document.getElementById('puzzle-verdict').hidden")
}

// wrong returns a legal move that is not the right one.
func (p puzzled) wrong() int {
	one := p.current()
	for a := range one.Board.Actions() {
		if a != one.Move && one.Board.CanPlay(one.Position(), a) {
			return a
		}
	}
	p.t.Fatalf("%v has one move", &one)
	return -1
}

// days moves the page's clock.
func (p puzzled) days(n int) {
	p.t.Helper()
	p.run(fmt.Sprintf(`(() => { const Real = window.RealDate ??= Date; window.Date = class extends Real { constructor(...a) { a.length ? super(...a) : super(Real.now() + %d * 86400000); } }; })()`, n))
}

func (p puzzled) mistakes() int {
	p.t.Helper()
	return valueOf[int](p.tab, `Object.keys(JSON.parse(localStorage.getItem("evald.puzzles")).mistakes).length`)
}

func (p puzzled) rating() int {
	p.t.Helper()
	return valueOf[int](p.tab, `Number(document.getElementById("puzzle-rating").textContent)`)
}

// After the right move the page praises it and shows its theme, the scores of all moves and the continuation.
func TestPagePuzzleRight(t *testing.T) {
	p := openPuzzles(t)
	p.says("#puzzle-title", "Puzzle of ")
	one := p.current()
	p.says("#puzzle-status", map[game.Result]string{game.Win: "one move alone wins", game.Draw: "one move alone does not lose"}[one.Result])
	before := p.rating()
	p.play(one.Move)
	p.says("#puzzle-verdict", fmt.Sprintf("Right: %d is the move. Your rating: ", one.Move+1))
	if p.rating() <= before || p.mistakes() != 0 {
		t.Errorf("after a right move the rating is %d, before it was %d; %d mistakes", p.rating(), before, p.mistakes())
	}
	p.until("!document.getElementById('puzzle-scores').hidden && !document.getElementById('puzzle-kind').hidden")
	scores := valueOf[[]string](p.tab, "[...document.querySelectorAll('#puzzle-scores [role=cell]')].map((e) => e.textContent.split(' ')[0])")
	keep := map[game.Result]string{game.Win: "wins", game.Draw: "draws"}[one.Result]
	for a, text := range scores {
		if (text == keep) != (a == one.Move) || (text == "–") == one.Board.CanPlay(one.Position(), a) {
			t.Errorf("of %v the moves are %q", &one, scores)
		}
	}
	p.until(`document.getElementById("puzzle-end").textContent && document.getElementById("puzzle-end").textContent !== "Looking .."`)
	if got := valueOf[int](p.tab, "document.querySelectorAll('#puzzle-line button').length"); got == 0 {
		t.Error("the game does not go on")
	}
	end := p.at()
	p.click("#puzzle-line li:first-child button")
	p.until("document.querySelector('#puzzle-line li:first-child button').ariaCurrent === 'step'")
	if got := p.at(); !strings.HasPrefix(got, end) || len(got) != len(end)+1 {
		t.Errorf("the first of the moves that follow leads from %s to %s", end, got)
	}
	p.until("document.getElementById('puzzle-again').hidden && document.getElementById('puzzle-show').hidden")
	p.tidy("puzzle_right")
	first := one
	p.click("#puzzle-more")
	p.until("document.getElementById('puzzle-title').textContent.startsWith('Puzzle, rating')")
	p.ready()
	if two := p.current(); two.String() == first.String() || two.Rating < 900 || two.Rating > 1200 {
		t.Errorf("after %v for a rating of %d comes %v", &first, p.rating(), &two)
	}
	p.click("#puzzle-daily") // was answered: it does not count again
	p.says("#puzzle-title", "Puzzle of ")
	p.ready()
	rating := p.rating()
	p.play(first.Move)
	p.says("#puzzle-verdict", "Right")
	if p.rating() != rating || strings.Contains(p.text("#puzzle-verdict"), "rating") {
		t.Error("a puzzle that was answered before counts again")
	}
}

// A wrong move is refuted and may be tried again, which does not count. The mistake comes back after 1, 3, 7 and 21 days.
func TestPagePuzzleWrong(t *testing.T) {
	p := openPuzzles(t)
	one, before := p.current(), p.rating()
	p.play(p.wrong())
	p.says("#puzzle-verdict", map[game.Result]string{game.Win: "gives the win away", game.Draw: "loses"}[one.Result])
	lower := p.rating()
	if lower >= before || p.mistakes() != 1 {
		t.Errorf("after a wrong move the rating is %d, before it was %d; %d mistakes", lower, before, p.mistakes())
	}
	p.until("document.querySelectorAll('#puzzle-line button').length > 0")
	p.until("document.getElementById('puzzle-scores').hidden && document.getElementById('puzzle-kind').hidden")
	p.tidy("puzzle_wrong")
	p.click("#puzzle-again")
	p.ready()
	p.press(kb.ArrowRight + kb.ArrowLeft) // the focus is on the board
	p.until("document.activeElement.parentElement.id === 'puzzle-board'")
	p.play(one.Move)
	p.says("#puzzle-verdict", "Right")
	if p.rating() != lower || p.mistakes() != 1 {
		t.Error("another try counts")
	}
	p.until("document.getElementById('puzzle-review').ariaDisabled === 'true'")
	day := 0
	for _, wait := range []int{1, 3, 7, 21} {
		p.days(day + wait - 1)
		p.click("#puzzle-daily")
		p.ready()
		p.says("#puzzle-review", "Your mistakes (0)")
		day += wait
		p.days(day)
		p.click("#puzzle-daily")
		p.says("#puzzle-review", "Your mistakes (1)")
		p.ready()
		p.click("#puzzle-review")
		p.says("#puzzle-title", "One of your mistakes")
		p.ready()
		if now := p.current(); now.String() != one.String() {
			t.Fatalf("%v comes back, want %v", &now, &one)
		}
		p.play(one.Move)
		p.says("#puzzle-verdict", "Right")
	}
	if p.rating() != lower || p.mistakes() != 0 {
		t.Errorf("after all reviews the rating is %d and there are %d mistakes", p.rating(), p.mistakes())
	}
}

// A mistake that is made again comes back after a day, whatever was right before.
func TestPagePuzzleWrongAgain(t *testing.T) {
	p := openPuzzles(t)
	one := p.current()
	p.play(p.wrong())
	for _, c := range []struct {
		day   int
		right bool
	}{{1, true}, {4, false}, {5, true}, {8, true}} {
		p.days(c.day - 1)
		if n := valueOf[int](p.tab, `import("/ui/store.js").then((store) => store.due().length)`, chromedp.EvalAwaitPromise); n != 0 {
			t.Errorf("%d mistakes are due on day %d", n, c.day-1)
		}
		p.days(c.day)
		p.click("#puzzle-daily")
		p.says("#puzzle-review", "Your mistakes (1)")
		p.ready()
		p.click("#puzzle-review")
		p.says("#puzzle-title", "One of your mistakes")
		p.ready()
		if c.right {
			p.play(one.Move)
		} else {
			p.play(p.wrong())
		}
		p.says("#puzzle-review", "Your mistakes (0)")
	}
}

// Who gives up sees the move, and it comes back as a mistake.
func TestPagePuzzleShown(t *testing.T) {
	p := openPuzzles(t)
	one, before := p.current(), p.rating()
	p.click("#puzzle-show")
	p.says("#puzzle-verdict", fmt.Sprintf("%d was the move", one.Move+1))
	p.until("document.activeElement.id === 'puzzle-more'")
	if p.rating() >= before || p.mistakes() != 1 {
		t.Errorf("the rating is %d, before it was %d; %d mistakes", p.rating(), before, p.mistakes())
	}
	p.until("!document.getElementById('puzzle-scores').hidden")
	p.click("#puzzle-more")
	p.ready()
	p.play(p.wrong())
	p.click("#puzzle-show") // after a wrong move too
	p.says("#puzzle-verdict", "was the move")
	if p.mistakes() != 2 {
		t.Errorf("%d mistakes", p.mistakes())
	}
	p.until("!document.getElementById('puzzle-scores').hidden")
	p.tidy("")
}

// Each theme has puzzles, and a game may be played on from one.
func TestPagePuzzleThemes(t *testing.T) {
	p := openPuzzles(t)
	var names []string
	for _, theme := range puzzle.Themes() {
		names = append(names, string(theme))
	}
	if diff := cmp.Diff(names, valueOf[[]string](p.tab, "[...document.getElementById('puzzle-theme').options].slice(1).map((o) => o.value)")); diff != "" {
		t.Errorf("themes (-package +page)\n%s", diff)
	}
	for _, theme := range puzzle.Themes() {
		p.choose("puzzle-theme", string(theme))
		p.until("document.getElementById('puzzle-title').textContent.startsWith('Puzzle, rating')")
		p.until(fmt.Sprintf("document.getElementById('puzzle-on').hash.length > 8 && document.getElementById('puzzle-theme').value === %q", theme))
		p.ready()
		p.run("window.seen = document.getElementById('puzzle-on').hash")
		p.click("#puzzle-next")
		p.until("document.getElementById('puzzle-on').hash !== window.seen")
		p.ready()
		if one := p.current(); one.Theme != theme {
			t.Errorf("for theme %s comes %v", theme, &one)
		}
	}
	// The link is read and clicked in one step, because the last theme's second puzzle may still replace the first.
	at, _, _ := strings.Cut(valueOf[string](p.tab, "((a) => { const at = a.hash.slice(1); a.click(); return at; })(document.getElementById('puzzle-on'))"), "&")
	p.says("#shared", "This game comes from a link")
	p.tab.at(at)
	p.back()
	p.until("!document.getElementById('puzzles').hidden")
	p.until(fmt.Sprintf("document.getElementById('puzzle-on').hash.includes(%q)", at))
}

// All have the same puzzle on the same date, and another on another date.
func TestPagePuzzleDaily(t *testing.T) {
	p, other := openPuzzles(t), openPuzzles(t)
	seen := map[string]int{}
	for day := range 5 {
		for _, who := range []puzzled{p, other} {
			who.run("document.getElementById('puzzle-on').removeAttribute('href')")
			who.days(day)
			who.click("#puzzle-daily")
			who.until("document.getElementById('puzzle-on').hash")
			who.ready()
			seen[who.at()]++
		}
	}
	if len(seen) != 5 {
		t.Errorf("five days have the puzzles %v", seen)
	}
}

// The visitor's data is saved, loaded and deleted. Files that are no such data change nothing, and of others what is wrong is left out.
func TestPagePuzzleData(t *testing.T) {
	p := openPuzzles(t)
	p.play(p.wrong())
	saved := valueOf[string](p.tab, `import("/ui/store.js").then((store) => store.text())`, chromedp.EvalAwaitPromise)
	rating := p.rating()
	p.click("#puzzle-save")
	p.says("#puzzle-data", "Saved.")
	p.click("#puzzle-delete")
	p.says("#puzzle-delete", "Really delete all?")
	p.do(chromedp.Focus(chromedp.CSS("#puzzle-next"))) // no
	p.until("document.getElementById('puzzle-delete').textContent === 'Delete all'")
	p.click("#puzzle-delete")
	p.click("#puzzle-delete")
	p.says("#puzzle-data", "All is deleted.")
	if got := valueOf[bool](p.tab, `localStorage.getItem("evald.puzzles") === null`); p.rating() != 1000 || !got {
		t.Errorf("after all was deleted the rating is %d, and the browser keeps nothing: %v", p.rating(), got)
	}
	dir := t.TempDir()
	load := func(text, says string) {
		t.Helper()
		path := filepath.Join(dir, "data.json")
		gametest.OK(t, os.WriteFile(path, []byte(text), 0o644))
		p.run("document.getElementById('puzzle-data').textContent = ''")
		p.do(chromedp.SetUploadFiles(chromedp.CSS("#puzzle-file"), []string{path}))
		p.says("#puzzle-data", says)
	}
	for _, text := range []string{"", "nonsense", "[]", "{}", "null", strings.Replace(saved, `"version": 1`, `"version": 2`, 1), strings.Replace(saved, `"tried"`, `"tired"`, 1), strings.Repeat(" ", 4<<20) + saved} {
		load(text, "This is no file of puzzle data")
	}
	if p.rating() != 1000 {
		t.Error("a wrong file has changed the rating")
	}
	load(saved, "Loaded.")
	if p.rating() != rating || p.mistakes() != 1 {
		t.Errorf("loaded: rating %d, want %d; %d mistakes", p.rating(), rating, p.mistakes())
	}
	load(`{"version":1,"rating":1e9,"right":99,"tried":{"7x6x4:44":20000,"__proto__":{"x":1},"7x6x4:<b>":3,"7x6x4:45":-1},"mistakes":{"7x6x4:4":{"move":"4","right":0,"day":5},"7x6x4:5":{"move":"4","right":9,"day":5},"7x6x4:6":7}}`, "Loaded.")
	if got := valueOf[string](p.tab, `localStorage.getItem("evald.puzzles")`); got != `{"version":1,"rating":3000,"right":1,"tried":{"7x6x4:44":20000},"mistakes":{"7x6x4:4":{"move":"4","right":0,"day":5}}}` {
		t.Errorf("of a file with wrong entries is kept %s", got)
	}
	p.tidy("")
}

// Whatever a file holds, it is refused or becomes data that is read again the same.
func TestPagePuzzleDataFuzz(t *testing.T) {
	p := openPuzzles(t)
	p.play(p.wrong())
	p.run(fmt.Sprintf(`import("/ui/store.js").then((store) => {
		let state = 7, adopted = 0;
		const random = (n) => (state = (state * 48271) %% 2147483647) %% n;
		const good = store.text(), pieces = ["{", "}", "null", "1e99", "-1", '"', ",", "[]", "true", '"version"', "0x", "é"];
		for (let i = 0; i < %d; i++) {
			let text = good;
			for (let j = random(3); j >= 0; j--) {
				const at = random(text.length), cut = random(8);
				text = text.slice(0, at) + (random(2) ? pieces[random(pieces.length)] : "") + text.slice(at + cut);
			}
			if (store.adopt(text)) {
				adopted++;
				const once = store.text();
				if (!store.adopt(once) || store.text() !== once) {
					throw new Error("not the same again: " + text);
				}
				store.due();
			}
		}
		window.adopted = adopted;
	}).catch((e) => { window.adopted = String(e); })`, 2000))
	p.until("window.adopted !== undefined")
	if got := valueOf[any](p.tab, "window.adopted"); got == 0. || fmt.Sprintf("%T", got) != "float64" {
		t.Errorf("of 2000 damaged files this many were read: %v", got)
	}
}

// Another view's mistake comes back like one of the puzzles.
func TestPagePuzzleRemember(t *testing.T) {
	p := openPuzzles(t)
	p.run(`import("/ui/puzzles.js").then(({ remember }) => {
		remember("7x6x4:4455", "3");
		for (const [position, move] of [["4455", "3"], ["7x6x4:4455", ""], [null, "3"], ["7x6x4:44", 4], ["7x6x4:4<", "4"]]) {
			remember(position, move);
		}
		window.remembered = true;
	})`)
	p.until("window.remembered")
	if p.mistakes() != 1 {
		t.Fatalf("%d mistakes", p.mistakes())
	}
	p.days(1)
	p.click("#puzzle-daily")
	p.says("#puzzle-review", "Your mistakes (1)")
	p.ready()
	p.click("#puzzle-review")
	p.says("#puzzle-status", "Red to move: find the right move")
	p.ready()
	p.play(0)
	p.says("#puzzle-verdict", "1 is not the right move.")
	p.click("#puzzle-again")
	p.ready()
	p.play(5)
	p.says("#puzzle-verdict", "Right: 6 is the move.") // which wins as well as 3
	p.until("document.getElementById('puzzle-kind').hidden")
	p.until("!document.getElementById('puzzle-scores').hidden")
	p.tidy("")
}

// Without localStorage the view works, and says that nothing is kept.
func TestPagePuzzleRefused(t *testing.T) {
	refuse := command(cdppage.AddScriptToEvaluateOnNewDocument, cdppage.AddScriptToEvaluateOnNewDocumentParams{
		Source: `Object.defineProperty(window, "localStorage", { get() { throw new DOMException("refused", "SecurityError"); } });`,
	})
	p := openPuzzles(t, chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		if _, err := cdp.Call(ctx, target, cdppage.Enable, cdppage.EnableParams{}); err != nil {
			return err
		}
		return nil
	}), refuse)
	p.says("#puzzle-kept", "This browser keeps nothing")
	before := p.rating()
	p.play(p.current().Move)
	p.says("#puzzle-verdict", "Right")
	p.until(fmt.Sprintf("Number(document.getElementById('puzzle-rating').textContent) > %d", before))
	p.tidy("")
}

// A puzzle by keyboard alone, from outside the page.
func TestPagePuzzleKeyboard(t *testing.T) {
	p := openPuzzles(t)
	one := p.current()
	for range 20 {
		p.press(kb.Tab)
		if valueOf[bool](p.tab, "document.activeElement.parentElement.id === 'puzzle-board'") {
			break
		}
	}
	if got := valueOf[string](p.tab, "document.activeElement.ariaLabel"); !strings.HasPrefix(got, "Column 4: ") {
		t.Fatalf("the focus is on %q, want the middle column", got)
	}
	p.press(kb.Home)
	for range p.wrong() {
		p.press(kb.ArrowRight)
	}
	p.press(kb.Enter)
	p.until("!document.getElementById('puzzle-again').hidden")
	p.press(kb.Backspace)
	p.ready()
	p.until("document.activeElement.parentElement.id === 'puzzle-board'")
	p.press(fmt.Sprint(one.Move + 1))
	p.says("#puzzle-verdict", "Right")
	p.press(kb.Tab) // to the moves that follow, or the buttons
	p.until("document.activeElement.closest('#puzzle-line, .buttons')")
}

// The view fits phones and dark colours, and speaks German.
func TestPagePuzzlePhone(t *testing.T) {
	p := openPuzzles(t, phone(), dark())
	p.play(p.current().Move)
	p.until("!document.getElementById('puzzle-scores').hidden && document.querySelectorAll('#puzzle-line button').length > 0")
	p.tidy("puzzle_phone_dark")
	if small := valueOf[[]string](p.tab, "[...document.querySelectorAll('#puzzles button, #puzzles select, #puzzles a, #puzzles input')].filter((e) => e.offsetParent && Math.min(e.offsetWidth, e.offsetHeight) < 36).map((e) => e.id || e.textContent)"); len(small) > 0 {
		t.Errorf("too small for a finger: %q", small)
	}
	p.do(chromedp.EmulateViewport(320, 640))
	p.choose("language", "de")
	p.says("#puzzle-title", "Aufgabe vom ")
	p.says("#to-puzzles", "Aufgaben")
	p.ready()
	p.play(p.wrong())
	p.until("document.querySelectorAll('#puzzle-line button').length > 0")
	p.tidy("puzzle_320_german")
}

// Without the file of puzzles the view says so, and the page works. It is asked for again the next time.
func TestPagePuzzleMissing(t *testing.T) {
	h := handler(t, Config{})
	var there atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/ui/puzzles" && !there.Load() {
			http.Error(w, "none", http.StatusInternalServerError)
			return
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	b := openURL(t, server.URL, "/#puzzles")
	b.says("#problem", "The server answered with status 500.")
	for _, id := range []string{"daily", "next", "more", "review", "show", "again"} { // which have nothing to show
		b.run(fmt.Sprintf("document.getElementById('puzzle-%s').click()", id))
	}
	there.Store(true)
	b.click("#to-play")
	b.says("#status", "Red to move")
	b.click("#to-learn")
	b.click("#to-puzzles")
	b.says("#puzzle-status", " to move: ")
	for _, wrong := range b.complaints() {
		if !strings.Contains(wrong, "500") {
			t.Errorf("the page complains %q", wrong)
		}
	}
}
