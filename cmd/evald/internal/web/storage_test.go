package web

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/evald/evald/engine/game/gametest"
)

// twoTabs has, for each of the page's stores, what a visitor does in one tab and then in another
// that was opened before, and an expression that is true of the stored value if neither is lost.
var twoTabs = map[string]struct {
	one, two func(b *tab)
	both     string
}{
	"evald": {
		func(b *tab) { b.run("location.hash = ''"); b.at("7x6x4:-"); b.choose("agent", "beginner") },
		func(b *tab) { b.choose("side", "second") },
		`x.agent === "beginner" && x.side === "second"`,
	},
	"evald.explorer": {
		func(b *tab) {
			b.explore("7x6x4:12")
			b.click("#explore-keep")
			b.says("#explore-said", "The line is kept")
		},
		func(b *tab) {
			b.explore("7x6x4:13")
			b.click("#explore-keep")
			b.says("#explore-said", "The line is kept")
		},
		`["2", "3"].every((move) => move in x["7x6x4"].next["1"].next)`,
	},
	"evald.puzzles": {
		func(b *tab) {
			b.await(`import("/ui/store.js").then((s) => { s.remember("7x6x4:44", "4"); s.first({ position: "7x6x4:45", rating: 1500 }, true); })`)
		},
		func(b *tab) {
			b.await(`import("/ui/store.js").then((s) => { s.remember("7x6x4:55", "4"); s.first({ position: "7x6x4:45", rating: 1500 }, true); })`)
		},
		`"7x6x4:44" in x.mistakes && "7x6x4:55" in x.mistakes && x.right === 1 && x.rating > 1000 && x.rating < 1050`,
	},
	"evald.drill": {
		func(b *tab) { // misses the first move
			b.run("location.hash = 'drill'")
			b.says("#drill-said", "One first move wins")
			b.click("#drill-board > button:nth-child(1)")
			b.says("#drill-said", "1 gives the win away")
		},
		func(b *tab) { // misses the second one, after a reply that is always the same
			b.run("Math.random = () => 0")
			b.run("location.hash = 'drill'")
			b.says("#drill-said", "One first move wins")
			b.click("#drill-board > button:nth-child(4)")
			b.until(`document.querySelectorAll("#drill-line li").length === 2`)
			b.click("#drill-board > button:nth-child(1)")
			b.says("#drill-said", "1 gives the win away")
		},
		`Object.keys(x).length === 2`,
	},
}

// explore goes to a position in the explorer.
func (b *tab) explore(position string) {
	b.t.Helper()
	b.run(fmt.Sprintf("location.hash = 'explore=%s'", position))
	b.until(fmt.Sprintf("document.getElementById('explore-position').value === %q && !document.getElementById('explore').hidden", position))
}

// await waits for a promise.
func (b *tab) await(promise string) {
	b.t.Helper()
	valueOf[bool](b, promise+".then(() => true)", chromedp.EvalAwaitPromise)
}

// stored returns the text that the browser stores under a name.
func (b *tab) stored(name string) string {
	b.t.Helper()
	return valueOf[string](b, fmt.Sprintf("localStorage.getItem(%q) ?? ''", name))
}

// One file alone uses the browser's storage, but for the files of the page, which a service worker keeps, and every store of it is tested.
func TestStores(t *testing.T) {
	gametest.OneGoroutine(t)
	made, names := regexp.MustCompile(`new Store\((\w+|"[\w.]+")`), map[string]bool{}
	gametest.OK(t, fs.WalkDir(page, "page", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text := string(gametest.Must(page.ReadFile(name))(t))
		if used := regexp.MustCompile(`(?i)localStorage|sessionStorage|indexedDB|document\.cookie|\bcaches\b`).FindString(text); used != "" && name != "page/storage.js" && !(used == "caches" && slices.Contains([]string{"page/engine.js", "page/sw.js"}, name)) {
			t.Errorf("%s uses %s, which only storage.js may", name, used)
		}
		for _, m := range made.FindAllStringSubmatch(text, -1) {
			value := m[1]
			if value[0] != '"' {
				value = regexp.MustCompile(`const ` + value + ` = ("[\w.]+")`).FindStringSubmatch(text)[1]
			}
			names[strings.Trim(value, `"`)] = true
		}
		return nil
	}))
	if got, want := slices.Sorted(maps.Keys(twoTabs)), slices.Sorted(maps.Keys(names)); !slices.Equal(got, want) {
		t.Errorf("the page has the stores %q, and %q are tested", want, got)
	}
}

// What is done in one tab is not lost by what is done in another that was opened before.
func TestPageTwoTabs(t *testing.T) {
	one := open(t, reviewConfig(), "/")
	two := openURL(t, one.url, "/")
	for _, b := range []*tab{one, two} {
		b.says("#status", "Red to move")
		b.await(`import("/ui/store.js").then((s) => s.stored())`)
		b.run("location.hash = 'drill'")
		b.says("#drill-said", "One first move wins")
		b.explore("7x6x4:-")
		b.run("location.hash = ''")
		b.at("7x6x4:-")
	}
	for name, do := range twoTabs {
		do.one(one)
		after := one.stored(name)
		two.until(fmt.Sprintf("localStorage.getItem(%q) === %q", name, after)) // browsers may take a moment
		do.two(two)
		if x := two.stored(name); x == "" || !valueOf[bool](two, fmt.Sprintf("((x) => %s)(%s)", do.both, x)) {
			t.Errorf("%s: one tab has stored %s, then another %s", name, after, x)
		}
	}
	one.explore("7x6x4:1") // which shows the other tab's line too
	one.until(`document.querySelectorAll("#explore-tree button[data-position]").length === 3`)
	two.run(`document.getElementById("drill-forget").click()`)
	one.run("location.hash = 'drill'")
	one.says("#drill-due", "None")
}

// A browser whose storage is full or turned off is said to store nothing, once. What it did not
// store is shown, and stored with the next change that it accepts.
func TestPageFull(t *testing.T) {
	b := open(t, Config{}, "/#explore=7x6x4:12")
	b.says("#explore-status", "Red to move")
	b.run(`window.setItem = Storage.prototype.setItem; Storage.prototype.setItem = function () { throw new DOMException("full", "QuotaExceededError"); }`)
	b.click("#explore-keep")
	b.says("#explore-said", "The line is not stored")
	b.says("#explore-kept", "This browser keeps nothing")
	b.says("#unkept", "does not store what you change here")
	b.until(`document.querySelectorAll("#explore-tree button[data-position]").length === 2`)
	b.tidy("full")
	b.click("#unkept button")
	b.explore("7x6x4:13")
	b.click("#explore-keep")
	b.says("#explore-said", "The line is not stored")
	b.until(`document.getElementById("unkept").hidden && document.querySelectorAll("#explore-tree button[data-position]").length === 3`)
	b.await(`import("/ui/store.js").then((s) => { s.remember("7x6x4:44", "4"); })`)
	if x := b.stored("evald.explorer") + b.stored("evald.puzzles"); x != "" {
		t.Errorf("a full browser has stored %s", x)
	}
	b.run("Storage.prototype.setItem = window.setItem")
	b.await(`import("/ui/store.js").then((s) => { s.remember("7x6x4:45", "4"); })`)
	b.explore("7x6x4:14")
	b.click("#explore-keep")
	b.says("#explore-said", "The line is kept")
	for name, want := range map[string]string{
		"evald.explorer": `["2", "3", "4"].every((move) => move in x["7x6x4"].next["1"].next)`,
		"evald.puzzles":  `"7x6x4:44" in x.mistakes && "7x6x4:45" in x.mistakes`,
	} {
		if x := b.stored(name); !valueOf[bool](b, fmt.Sprintf("((x) => %s)(%s)", want, x)) {
			t.Errorf("when the browser stores again, %s is %s", name, x)
		}
	}
}

// The explorer adds a file's lines and notes to those that it has.
func TestPageExplorerMerges(t *testing.T) {
	b := open(t, Config{}, "/#explore=7x6x4:12")
	b.says("#explore-status", "Red to move")
	b.click("#explore-keep")
	b.run(`(() => { const e = document.getElementById("explore-note"); e.value = "mine"; e.dispatchEvent(new Event("change")); })()`)
	file := filepath.Join(t.TempDir(), "lines.json")
	load := func(text string) {
		t.Helper()
		gametest.OK(t, os.WriteFile(file, []byte(text), 0o644))
		b.do(chromedp.SetUploadFiles(chromedp.CSS("#explore-load"), []string{file}))
	}
	load(`{"7x6x4":{"next":{"1":{"next":{"2":{"next":{},"note":"theirs"},"3":{"next":{}}}}}},"5x4x4":{"next":{"3":{"next":{}}}}}`)
	want := `{"7x6x4":{"next":{"1":{"next":{"2":{"next":{},"note":"mine; theirs"},"3":{"next":{}}}}}},"5x4x4":{"next":{"3":{"next":{}}}}}`
	b.until(fmt.Sprintf(`localStorage.getItem("evald.explorer") === %q`, want))
	load(lines("a"))
	b.until(`localStorage.getItem("evald.explorer").length > 100_000`)
	before := b.stored("evald.explorer")
	load(lines("b"))
	b.says("#problem", "more than 20000 positions")
	if b.stored("evald.explorer") != before {
		t.Error("more lines are stored than can be read again")
	}
	b.run(`localStorage.setItem("evald.explorer", "{what another program has stored")`)
	b.click("#explore-keep")
	b.until(`localStorage.getItem("evald.explorer.old") === "{what another program has stored" && localStorage.getItem("evald.explorer") === '{"7x6x4":{"next":{"1":{"next":{"2":{"next":{}}}}}}}'`)
}

// lines returns a file with 10,000 positions, whose first moves begin with a letter.
func lines(letter string) string {
	node := func(name func(int) string, n int, next string) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf("%q:%s", name(i), next))
		}
		return `{"next":{` + strings.Join(all, ",") + `}}`
	}
	inner := node(strconv.Itoa, 100, `{"next":{}}`)
	return `{"8x7x4":` + node(func(i int) string { return letter + strconv.Itoa(i) }, 99, inner) + `}`
}
