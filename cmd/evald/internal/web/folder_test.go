package web

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"github.com/chromedp/chromedp"

	"github.com/evald/evald/cmd/evald/internal/standalone"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/models"
)

// small is the file of a network that is quickly made and small.
var small = sync.OnceValues(func() ([]byte, error) {
	whole, _, err := models.Open(standalone.Whole)
	if err != nil {
		return nil, err
	}
	return standalone.Shrink(context.Background(), whole, 10)
})

// written returns the files of a page without a server.
func written(t testing.TB) map[string][]byte {
	t.Helper()
	engine, err := standalone.ReadEngine("../standalone/built")
	gametest.Need(t, err == nil, "no engine: run make engine")
	file := gametest.Must(small())(t)
	return gametest.Must(Folder(t.Context(), engine, map[string][]byte{standalone.Small: file, standalone.Whole: file}))(t)
}

// fileServer is a plain server of files below /evald/, which can be stopped.
type fileServer struct {
	*httptest.Server
	files atomic.Pointer[fstest.MapFS]
	down  atomic.Bool
}

func serveFiles(t testing.TB, files map[string][]byte) *fileServer {
	s := new(fileServer)
	s.offer(files)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.down.Load() {
			panic(http.ErrAbortHandler) // closes the connection
		}
		http.StripPrefix("/evald", http.FileServerFS(*s.files.Load())).ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *fileServer) offer(files map[string][]byte) {
	all := fstest.MapFS{}
	for name, content := range files {
		all[name] = &fstest.MapFile{Data: content, Mode: fs.ModePerm}
	}
	s.files.Store(&all)
}

// question asks a question by the page's own modules, and returns the last object of its answer.
func question[T any](b *tab, name string, body any) (x T) {
	b.t.Helper()
	text := valueOf[string](b, fmt.Sprintf(`import("./ui/api.js").then((a) => a.post("/ui/%s", %s)).then(JSON.stringify)`, name, gametest.Must(json.Marshal(body))(b.t)), chromedp.EvalAwaitPromise)
	gametest.OK(b.t, json.Unmarshal([]byte(text), &x))
	return x
}

// versionOf returns the version in a service worker.
func versionOf(t testing.TB, sw []byte) string {
	_, rest, _ := strings.Cut(string(sw), `= ["`)
	version, _, ok := strings.Cut(rest, `"`)
	if !ok || len(version) != 16 {
		t.Fatalf("the service worker begins with %.80s", sw)
	}
	return version
}

// replaced is until for an expression that is true after the page has been replaced.
func (b *tab) replaced(expression string) {
	b.t.Helper()
	ctx, stop := context.WithTimeout(b.ctx, waiting)
	defer stop()
	soon := fmt.Sprintf("new Promise((done) => { setTimeout(() => done(%s), 50); })", expression)
	for is := false; !is; { // an error means that the page was replaced at that moment
		var err error
		if is, err = chromedp.Run(ctx, chromedp.Evaluate[bool](soon, chromedp.EvalAwaitPromise)); ctx.Err() != nil {
			b.fail(fmt.Errorf("until %s: %w", expression, err))
		}
	}
}

type object = map[string]any

// The page without a server plays, reviews, checks puzzles and gives values, also when the network is
// cut after the first visit, under a policy that forbids all else. A second version takes its place.
func TestFolder(t *testing.T) {
	files := written(t)
	server := serveFiles(t, files)
	b := openURL(t, server.URL, "/evald/")
	b.until("document.querySelectorAll('#board > button').length === 7")
	visit := func(network string) {
		t.Helper()
		b.click(column(3))
		b.until("/^#7x6x4:4[1-7]/.test(location.hash)") // the opponent has replied
		if g := question[reviewed](b, "review", object{"game": "4x4x4:1122334"}); len(g.Moves) != 7 || g.Positions[7].Value != nil {
			t.Errorf("%s: the review is %+v", network, g)
		}
		if v := question[struct{ Values []valued }](b, "values", object{"position": "1212121"}); len(v.Values) != 8 || v.Values[7] != (valued{Value: 1, Exact: true}) {
			t.Errorf("%s: the values are %+v", network, v)
		}
		end := question[ended](b, "analyze", object{"position": "7x6x4:737131132565777174566", "solve": true, "visits": 10})
		if end.Type != "end" {
			t.Errorf("%s: an analysis ends with %+v", network, end)
		}
		for address, shows := range map[string]string{
			"#review=4x4x4:1122334": `!document.getElementById("review-result").hidden`,
			"#puzzles":              `document.querySelectorAll("#puzzle-board button").length === 7`,
			"#learn":                `document.querySelectorAll("#next .steps li").length > 2`,
			"#drill":                `document.getElementById("drill-said").textContent.length > 10`,
			"#tree=7x6x4:737131132565777174566": `document.querySelectorAll("#tree-moves li").length > 1 &&
				[...document.querySelectorAll("#explore-moves tr")].every((r) => /%|wins|draw/.test(r.cells[1].textContent) && /wins in|draw/.test(r.cells[3].textContent))`,
		} {
			b.run(fmt.Sprintf("location.hash = %q", address))
			b.until(shows)
		}
		b.run(`location.hash = "#7x6x4:-"`)
		b.until(`!document.getElementById("play").hidden`)
		puzzles := valueOf[int](b, `import("./ui/api.js").then((a) => a.text("/ui/puzzles")).then((text) => text.split("\n").length)`, chromedp.EvalAwaitPromise)
		if puzzles < 1000 {
			t.Errorf("%s: %d lines of puzzles", network, puzzles)
		}
	}
	visit("online")
	b.tidy("")
	b.until(`navigator.serviceWorker.controller !== null`)
	b.await(`caches.keys().then(async (names) => { const cache = await caches.open(names[0]); const all = await cache.keys();
		for (const part of ["/ui/engine-", "/ui/small-", "/ui/puzzles-", "/ui/main.js"]) { if (!all.some((r) => r.url.includes(part))) { throw new Error(part + " is not stored: " + all.length); } } })`)

	server.down.Store(true)
	b.do(chromedp.Navigate(server.URL+"/evald/#7x6x4:-"), chromedp.Reload())
	b.until("document.querySelectorAll('#board > button').length === 7")
	visit("offline")

	server.down.Store(false)
	second := written(t)
	second["index.html"] = bytes.Replace(second["index.html"], []byte("<title>"), []byte(`<meta name="second"><title>`), 1)
	for _, name := range []string{"index.html", "sw.js"} {
		first := versionOf(t, files["sw.js"])
		second[name] = bytes.ReplaceAll(second[name], []byte(first), []byte("2"+first[1:]))
	}

	// A host that is being updated offers the new worker with the old page: the visitor keeps the version that is whole.
	half := maps.Clone(files)
	half["sw.js"] = second["sw.js"]
	server.offer(half)
	b.do(chromedp.Reload())
	b.await(`(async () => {
		const registration = await navigator.serviceWorker.getRegistration();
		await registration.update();
		const worker = registration.installing;
		if (worker) {
			await new Promise((done) => { worker.addEventListener("statechange", done); });
			if (worker.state !== "redundant") { throw new Error("the worker is " + worker.state); }
		}
		if (registration.waiting) { throw new Error("a worker waits"); }
	})()`)
	b.until("document.querySelectorAll('#board > button').length === 7")

	server.offer(second)
	b.do(chromedp.Reload())
	b.replaced(`document.querySelector("meta[name=second]") !== null`)

	// A page whose script comes after the new worker, which has not removed yet what the old one has stored. Without b.until, which counts as
	// an action of the visitor.
	b.run(`window.old = true;
		const about = document.getElementById("evald-engine");
		about.textContent = about.textContent.replace(JSON.parse(about.textContent).version, "older");
		caches.open("evald " + location.origin + "/evald/ older").then(() => import("./ui/engine.js?late")).then((engine) => engine.load());`)
	b.replaced("window.old === undefined")
	b.await(`caches.delete("evald " + location.origin + "/evald/ older")`)
	b.until("document.querySelectorAll('#board > button').length === 7")
	if names := valueOf[[]string](b, "caches.keys()", chromedp.EvalAwaitPromise); len(names) != 1 || !strings.Contains(names[0], " 2") {
		t.Errorf("the caches are %q", names)
	}
}
