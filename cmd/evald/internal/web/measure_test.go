package web

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/evald/evald/cmd/evald/internal/standalone"
	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/solver"
	"github.com/evald/evald/models"
)

// slowly emulates a network of 400 kbit/s with a round trip of 150 ms, and a processor four times as slow.
func slowly() []chromedp.Action[chromedp.Void] {
	type conditions struct {
		Offline            bool    `json:"offline"`
		Latency            float64 `json:"latency"` // ms
		DownloadThroughput float64 `json:"downloadThroughput"`
		UploadThroughput   float64 `json:"uploadThroughput"`
	}
	emulate := cdp.Command[conditions, cdp.Empty]{Method: "Network.emulateNetworkConditions"}
	return []chromedp.Action[chromedp.Void]{
		phone(), command(emulate, conditions{Latency: 150, DownloadThroughput: 50_000, UploadThroughput: 50_000}),
		command(emulation.SetCPUThrottlingRate, emulation.SetCPUThrottlingRateParams{Rate: 4}),
	}
}

// watched notes when the board has its columns, and how much what is there is moved: the sum of the layout's shifts.
const watched = `window.shifts = 0;
	new PerformanceObserver((list) => { for (const e of list.getEntries()) { if (!e.hadRecentInput) { window.shifts += e.value; window.moved = (window.moved ?? "") + e.value.toFixed(3) + " " + e.sources.map((s) => s.node?.id || s.node?.className || s.node?.nodeName).join(",") + "; "; } } }).observe({type: "layout-shift", buffered: true});
	const look = () => { if (document.querySelectorAll("#board > button, #puzzle-board button").length >= 7) { window.columns = performance.now(); } else { requestAnimationFrame(look); } };
	requestAnimationFrame(look);`

// measuring skips a measurement unless it is asked for.
func measuring(t *testing.T) {
	t.Helper()
	if os.Getenv("EVALD_SCALE") == "" {
		t.Skip("a measurement: EVALD_SCALE=1")
	}
}

// measuredEngine is the engine of a measurement.
func measuredEngine(t *testing.T) standalone.Engine {
	t.Helper()
	measuring(t)
	engine, err := standalone.ReadEngine("../standalone/built")
	gametest.Need(t, err == nil, "no engine: run make engine")
	return engine
}

// measured serves the page without a server, as make page writes it.
func measured(t *testing.T) *fileServer {
	t.Helper()
	engine := measuredEngine(t)
	whole, _, err := models.Open(standalone.Whole)
	gametest.OK(t, err)
	file := gametest.Must(standalone.Shrink(t.Context(), whole, standalone.Games))(t)
	return serveFiles(t, gametest.Must(Folder(t.Context(), engine, map[string][]byte{standalone.Small: file, standalone.Whole: whole}))(t))
}

// With EVALD_SCALE=1: how soon a slow phone has the board, from a service and from a plain server of files. The board's frame is in the
// page's own styles, so it is there at the first paint.
func TestMeasurePage(t *testing.T) {
	folder := measured(t)
	for _, address := range []string{"/", "/#puzzles", "/#review=7x6x4:4444422", "/#explore=7x6x4:4455"} {
		for name, open := range map[string]func() *tab{
			"service": func() *tab {
				return open(t, Config{Agents: agent.Shared{Ships: solver.ShippedBook}}, address, append(slowly(), newcomer, onEachPage(watched))...)
			},
			"files": func() *tab {
				return openURL(t, folder.URL, "/evald"+address, append(slowly(), newcomer, onEachPage(watched))...)
			},
		} {
			b := open()
			b.until("window.columns > 0 || document.querySelectorAll('#review-board > *, #explore-board > button').length > 0")
			usable := valueOf[float64](b, "window.columns ?? performance.now()")
			b.await("new Promise((done) => { setTimeout(done, 5000); })")
			t.Logf("%-8s %-24s first paint %.2f s, the board %.2f s, shifts %.3f of %s", name, address,
				valueOf[float64](b, `performance.getEntriesByType("paint")[0].startTime`)/1000, usable/1000, valueOf[float64](b, "window.shifts"), valueOf[string](b, "window.moved ?? 'nothing'"))
		}
	}
}

// With EVALD_SCALE=1: how fast the engine is in the browser.
func TestMeasureEngine(t *testing.T) {
	b := openURL(t, measured(t).URL, "/evald/", newcomer)
	b.until("document.querySelectorAll('#board > button').length === 7")
	question[object](b, "values", object{"position": "44"}) // the engine is loaded
	median := func(times []time.Duration) time.Duration { slices.Sort(times); return times[len(times)/2] }
	timed := func(name string, body object) time.Duration {
		start := time.Now()
		question[object](b, name, body)
		return time.Since(start)
	}
	openings := []string{"4444442", "4455331", "1726355", "4441727", "4536277", "3332211", "7766112", "4252426"} // of 7 stones
	var values, scores, strong []time.Duration
	for _, p := range openings {
		values = append(values, timed("values", object{"position": p}))
		scores = append(scores, untilScored(b, p))
		strong = append(strong, timed("move", object{"position": p, "agent": "strong"}))
	}
	t.Logf("a question about %d values: %v; the exact scores of all moves, of 8 stones each: %v, at most %v; a move of strong: %v, at most %v",
		len(openings[0])+1, median(values), median(scores), slices.Max(scores), median(strong), slices.Max(strong))
	for _, visits := range []int{20_000, 100_000} {
		took := timed("tree", object{"position": "4", "visits": visits, "unproved": true, "nodes": 1})
		t.Logf("a search of %d visits: %.0f visits/s", visits, float64(visits)/took.Seconds())
	}
}

// untilScored measures how long the exact scores of all moves of a position take. The line of best play, which follows them, does not count.
func untilScored(b *tab, position string) time.Duration {
	b.t.Helper()
	ms := valueOf[float64](b, fmt.Sprintf(`(async () => {
		const { lines } = await import("./ui/api.js");
		const start = performance.now();
		let took = 0;
		await lines("/ui/analyze", { position: %q, visits: 0, solve: true }, undefined, (x) => {
			if (x.type === "exact" && x.done) {
				took ||= performance.now() - start;
			}
		});
		return took;
	})()`, position), chromedp.EvalAwaitPromise)
	if ms == 0 {
		b.t.Fatalf("%s: no scores", position)
	}
	return time.Duration(ms * float64(time.Millisecond))
}

// With EVALD_SCALE=1: positions a second of tables in the browser, by their own benchmark in Chromium.
func TestMeasureTables(t *testing.T) {
	files := map[string][]byte{"exec.js": measuredEngine(t).Exec, "index.html": []byte(`<script src="exec.js"></script>`)}
	program := filepath.Join(t.TempDir(), "bench.wasm")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-o", program, "github.com/evald/evald/nn/pattern")
	build.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm", "CGO_ENABLED=0", "GOFLAGS=-vet=off")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	files["bench.wasm"] = gametest.Must(os.ReadFile(program))(t)
	b := openURL(t, serveFiles(t, files).URL, "/evald/")
	said := valueOf[string](b, `(async () => {
		const said = [];
		console.log = (text) => { said.push(text); };
		const go = new Go();
		go.argv = ["bench", "-test.run", "-", "-test.bench", "Evaluate", "-test.benchtime", "1s"];
		const { instance } = await WebAssembly.instantiate(await (await fetch("bench.wasm")).arrayBuffer(), go.importObject);
		await go.run(instance);
		return said.join("\n");
	})()`, chromedp.EvalAwaitPromise)
	if !strings.Contains(said, "positions/s") {
		t.Fatalf("the benchmark says %q", said)
	}
	t.Log(said)
}

// With EVALD_SCALE=1: reviews of games on large boards, continued until all is proved or nothing more is found.
// EVALD_SCREENSHOTS=FOLDER has their pictures.
func TestMeasureReviews(t *testing.T) {
	measuring(t)
	for _, game := range []string{"8x7x4:33455553344674354352222277744377752211111118668", "10x8x5:966666669994444444953555855325996588888897272777"} {
		c := reviewConfig()
		c.Limits.Time, c.Limits.Review = time.Minute, 0
		b := open(t, c, "/#review="+game)
		name := strings.SplitN(game, ":", 2)[0]
		said := func() string {
			for !strings.Contains(b.text("#review-status"), "moves reviewed") {
				b.await("new Promise((done) => { setTimeout(done, 1000); })")
			}
			return b.text("#review-status")
		}
		found := said()
		t.Logf("%s: %s", name, found)
		b.picture("review_" + name)
		for n := 1; !valueOf[bool](b, `document.getElementById("review-further").hidden`) && !strings.Contains(found, "Nothing more"); n++ {
			b.click("#review-further")
			found = said()
			t.Logf("%s, continued %d times: %s", name, n, found)
		}
		b.picture("review_" + name + "_continued")
	}
}
